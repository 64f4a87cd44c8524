//! The threads of a process: their CPU time, their waits for a CPU, and what they are doing now.

use std::fs;
use std::os::linux::fs::MetadataExt;

/// A thread's account since its start, and its state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub id: u32,
    /// Its short name.
    pub name: String,
    /// Its present state.
    pub state: TaskState,
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// The time that it was ready to run and was not run, in nanoseconds.
    pub wait_ns: u64,
}

/// The activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It runs, or is ready to.
    Runnable,
    /// It waits for something that ends soon and cannot be interrupted: nearly always storage.
    Storage,
    /// It waits for something else, or has ended.
    Waiting,
}

/// The threads of a process, at most `tasks_max` of them; empty if there is no such process.
pub fn tasks(pid: u32, tasks_max: usize) -> Vec<Task> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.take(tasks_max).filter_map(|id| task(pid, id)).collect()
}

fn task(pid: u32, id: u32) -> Option<Task> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{id}/{file}")).ok();
    let (name, state) = name_and_state(&read("stat")?)?;
    let schedstat = read("schedstat")?;
    let mut fields = schedstat.split_whitespace().map_while(|field| field.parse().ok());
    Some(Task { id, name, state, cpu_ns: fields.next()?, wait_ns: fields.next()? })
}

fn name_and_state(stat: &str) -> Option<(String, TaskState)> {
    // The name stands in parentheses and may itself hold spaces and parentheses.
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let state = match stat.get(close + 2..)?.chars().next()? {
        'R' => TaskState::Runnable,
        'D' => TaskState::Storage,
        _ => TaskState::Waiting,
    };
    Some((stat.get(open + 1..close)?.to_owned(), state))
}

/// The CPUs that a process may run on.
pub fn allowed_cpus(pid: u32) -> Option<Vec<usize>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    listed(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// The numbers of a list such as `0,2-3`.
fn listed(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// The descriptors that a process has open, and how many it may have.
pub fn descriptors(pid: u32) -> Option<(u64, u64)> {
    let folder = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the folder's size is the number of its entries.
    let open = match fs::metadata(&folder).ok()?.st_size() {
        0 => fs::read_dir(&folder).ok()?.count() as u64,
        size => size,
    };
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    Some((open, line.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let read = |stat| name_and_state(stat).unwrap();
        assert_eq!(read("7 (a) b (c) D 1 2"), ("a) b (c".to_owned(), TaskState::Storage));
        assert_eq!(read("7 (nginx) R 1").1, TaskState::Runnable);
        assert_eq!(read("7 (nginx) S 1").1, TaskState::Waiting);
        assert_eq!(name_and_state("7 nginx"), None);
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(listed("\t0,2-4\n"), Some(vec![0, 2, 3, 4]));
        assert_eq!(listed("all"), None);
    }

    #[test]
    fn this_process_is_seen() {
        let pid = std::process::id();
        while crate::proc::thread_cpu().total_ns() < 20_000_000 {}
        let tasks = tasks(pid, 4096);
        assert!(tasks.iter().any(|task| task.state == TaskState::Runnable && task.cpu_ns > 10_000_000), "{tasks:?}");
        assert!(!allowed_cpus(pid).unwrap().is_empty());
        let (open, limit) = descriptors(pid).unwrap();
        assert!(open >= 3 && limit > open, "{open} of {limit}");
        assert!(super::tasks(u32::MAX, 10).is_empty());
    }
}
