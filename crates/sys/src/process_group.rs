//! Programs that a command starts and ends together with their descendants: process groups, and the
//! CPU time of processes.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, set_parent_process_death_signal, test_kill_process_group,
    waitid,
};

use crate::proc;

/// Asks all processes of a group to end (TERM).
///
/// # Errors
/// There is no such group, or it is not ours.
pub fn terminate(group: u32) -> io::Result<()> {
    Ok(kill_process_group(pid(group)?, Signal::TERM)?)
}

/// Ends all processes of a group at once (KILL).
///
/// # Errors
/// As for [`terminate`].
pub fn kill(group: u32) -> io::Result<()> {
    Ok(kill_process_group(pid(group)?, Signal::KILL)?)
}

/// Has the process of a command asked to end (TERM) when the thread that starts it ends, however
/// that happens: a server that was started for a measurement does not outlive it.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs in the child between fork and exec. It makes one system call, which
    // takes no lock and allocates nothing.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?)) }
}

/// Whether a process of the group runs. One that has ended and was not waited for does not, which
/// in a container whose first process waits for nobody may be for ever.
pub fn is_running(group: u32) -> bool {
    let exists = pid(group).is_ok_and(|group| test_kill_process_group(group).is_ok());
    exists && proc::process_ids().into_iter().any(|process| runs_in(process, group))
}

fn runs_in(process: u32, group: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // Behind the name, which may contain anything: state, parent, group.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let (state, of) = (fields.next(), fields.nth(1));
    !matches!(state, None | Some("Z" | "X")) && of.and_then(|of| of.parse().ok()) == Some(group)
}

/// How the leader of a group, a child of this process, has ended; `None` while it runs. It is not
/// waited for, so that the number of its group stays its own.
///
/// # Errors
/// It is no child of this process, or it was waited for.
pub fn leader_status(group: u32) -> io::Result<Option<ExitStatus>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Some(status) = waitid(WaitId::Pid(pid(group)?), options)? else { return Ok(None) };
    // The form of wait(2): the code in the second byte, the signal in the first.
    let code = status.exit_status().map(|code| code << 8);
    Ok(code.or(status.terminating_signal()).map(ExitStatus::from_raw))
}

fn pid(group: u32) -> io::Result<Pid> {
    // Zero would be the caller's own group.
    i32::try_from(group).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// CPU time of a process in nanoseconds, of all its threads, ended ones included. It is exact,
/// where `/proc` counts in ticks of the clock; `None` if there is no such process.
pub fn cpu_ns(process: u32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type.
    let found = unsafe { libc::clock_getcpuclockid(process.try_into().ok()?, &raw mut clock) };
    if found != 0 {
        return None;
    }
    // SAFETY: as above; a zeroed timespec is a valid value, should the call fail.
    let (read, time) = unsafe { (libc::clock_gettime(clock, time.as_mut_ptr()), time.assume_init()) };
    (read == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_process_grows_with_its_work() {
        let before = cpu_ns(std::process::id()).unwrap();
        let sum: u64 = (0..5_000_000_u64).map(|number| std::hint::black_box(number).pow(2) % 7).sum();
        assert!(sum > 0 && cpu_ns(std::process::id()).unwrap() > before);
        assert_eq!(cpu_ns(u32::MAX), None);
    }

    #[test]
    fn a_group_ends_with_all_its_processes() {
        let mut shell = Command::new("sh").args(["-c", "sleep 1000 & wait"]).process_group(0).spawn().unwrap();
        assert!(is_running(shell.id()));
        assert_eq!(leader_status(shell.id()).unwrap(), None);
        terminate(shell.id()).unwrap();
        let status = loop {
            if let Some(status) = leader_status(shell.id()).unwrap() {
                break status;
            }
        };
        assert_eq!((status.signal(), shell.wait().unwrap()), (Some(libc::SIGTERM), status));
        shell.wait().unwrap();
        while is_running(shell.id()) {
            std::thread::yield_now();
        }
        assert!(terminate(0).is_err(), "the caller's own group is no other");
    }
}
