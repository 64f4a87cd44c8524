//! The control group of the server: its quota and how often that ran out.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kernel_file::KernelFile;
use crate::parse;
use crate::sample::{Figures, Group, GroupFigures, Stall};

/// The mount point of the control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// The open accounts of a control group.
#[derive(Debug)]
pub(super) struct GroupFiles {
    pid: u32,
    path: String,
    folder: PathBuf,
    is_version_2: bool,
    cpu_stat: KernelFile,
    pressure: Option<KernelFile>,
    memory: Option<KernelFile>,
    last: Option<(GroupFigures, Option<Stall>)>,
}

impl GroupFiles {
    /// Opens the group of a process, or that of the groups around it whose quota is the tightest.
    /// `None` if the process is in none, or the files are not there.
    pub(super) fn open(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let (is_version_2, path) = parse::cpu_group(&groups)?;
        let root = if is_version_2 { PathBuf::from(ROOT) } else { Path::new(ROOT).join("cpu") };
        let around = Path::new(path).ancestors().map(|path| path.to_string_lossy().into_owned());
        let folder_of = |path: &str| root.join(path.trim_start_matches('/'));
        let with_quota = around.filter_map(|path| Some((quota(&folder_of(&path), is_version_2)?, path)));
        let path = with_quota.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(|| path.to_owned(), |(_, path)| path);
        let folder = folder_of(&path);
        let optional = |name: &str| KernelFile::open(folder.join(name)).ok();
        Some(Self {
            pid,
            path,
            is_version_2,
            cpu_stat: KernelFile::open(folder.join("cpu.stat")).ok()?,
            pressure: optional("cpu.pressure"),
            memory: optional("memory.current"),
            folder,
            last: None,
        })
    }

    /// The process whose group this is.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads the accounts since the last reading; `None` if the group has none or is gone.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> Option<Group> {
        let mut now = parse::group_cpu(&self.cpu_stat.read(buffer)?)?;
        let pressure = self.pressure.as_ref().and_then(|file| parse::stall(&file.read(buffer)?));
        if let Some(bytes) = self.memory.as_ref().and_then(|file| file.read(buffer)?.trim().parse::<u64>().ok()) {
            now.memory_kib = (bytes / 1024) as f64;
            let limit = fs::read_to_string(self.folder.join("memory.max")).unwrap_or_default();
            now.memory_limit_kib = limit.trim().parse::<u64>().unwrap_or(0) / 1024;
        }
        let (then, pressure_then) = self.last.replace((now, pressure)).unwrap_or((now, pressure));
        Some(Group {
            path: self.path.clone(),
            cpus: quota(&self.folder, self.is_version_2),
            figures: now.since(then),
            cpu_pressure: pressure.zip(pressure_then).map(|(now, then)| now.since(then)),
        })
    }
}

/// The CPUs that a group may use; `None` without a quota.
fn quota(folder: &Path, is_version_2: bool) -> Option<f64> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    match is_version_2 {
        true => parse::quota_cpus(&text("cpu.max")?, None),
        false => parse::quota_cpus(&text("cpu.cfs_quota_us")?, Some(&text("cpu.cfs_period_us")?)),
    }
}
