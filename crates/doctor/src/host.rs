//! The examined host: the files in which the kernel shows its state.
//!
//! Everything is read beneath a root, so that a folder with such files can stand for a host in
//! tests. A file that is missing or unreadable gives `None`: the check that needs it has no
//! finding.

use std::fs;
use std::path::{Path, PathBuf};

/// A host, seen through its files.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

/// A limit of a process: the present one, and the highest that it may set itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimit {
    /// The present limit.
    pub soft: u64,
    /// The highest limit.
    pub hard: u64,
}

impl Host {
    /// The host that this process runs on.
    pub fn this() -> Self {
        Self::beneath("/")
    }

    /// The host whose files lie beneath a folder.
    pub fn beneath(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the running host, which can be asked for more than its files show.
    pub fn is_this(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The place of a file of the host.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The contents of a file without the white space around them.
    pub fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The number in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// A kernel setting by its sysctl name.
    pub fn sysctl(&self, name: &str) -> Option<String> {
        self.text(&sysctl_path(name))
    }

    /// A kernel setting that is one number.
    pub fn sysctl_number(&self, name: &str) -> Option<u64> {
        self.sysctl(name)?.parse().ok()
    }

    /// A kernel setting that is three numbers: minimum, default and maximum, or low, pressure and
    /// high.
    pub fn sysctl_three(&self, name: &str) -> Option<[u64; 3]> {
        let numbers: Vec<u64> = self.sysctl(name)?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        numbers.try_into().ok()
    }

    /// A limit of this process by its name in `/proc/self/limits`. `unlimited` is `u64::MAX`.
    pub fn process_limit(&self, name: &str) -> Option<ProcessLimit> {
        let limits = self.text("/proc/self/limits")?;
        let mut values = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
        let mut next = || match values.next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        };
        Some(ProcessLimit { soft: next()?, hard: next()? })
    }

    /// A field of `/proc/meminfo` in bytes.
    pub fn memory(&self, field: &str) -> Option<u64> {
        let text = self.text("/proc/meminfo")?;
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(value.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    }

    /// A value of a line of `/proc/net/sockstat`, such as `tw` of `TCP`.
    pub fn sockets(&self, protocol: &str, value: &str) -> Option<u64> {
        let text = self.text("/proc/net/sockstat")?;
        let line = text.lines().find_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'))?;
        let mut words = line.split_whitespace().skip_while(|word| *word != value);
        words.nth(1)?.parse().ok()
    }

    /// A counter of the extended TCP statistics (`/proc/net/netstat`).
    pub fn tcp_counter(&self, name: &str) -> Option<u64> {
        let text = self.text("/proc/net/netstat")?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
        let at = lines.next()?.split_whitespace().position(|field| field == name)?;
        lines.next()?.split_whitespace().nth(at)?.parse().ok()
    }

    /// How many CPUs are online.
    pub fn cpus_online(&self) -> usize {
        self.text("/sys/devices/system/cpu/online").map_or(1, |list| cpu_list(&list).len().max(1))
    }
}

/// The file of a kernel setting.
pub(crate) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The numbers of a list such as `0,2-3`.
pub(crate) fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A host with these files, by their absolute paths.
    pub(crate) struct FakeHost {
        pub(crate) host: Host,
        folder: tempfile::TempDir,
    }

    impl FakeHost {
        pub(crate) fn with(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder can be made");
            let fake = Self { host: Host::beneath(folder.path()), folder };
            files.iter().for_each(|(path, text)| fake.write(path, text));
            fake
        }

        /// The same with kernel settings by their names.
        pub(crate) fn with_sysctls(settings: &[(&str, &str)]) -> Self {
            let fake = Self::with(&[]);
            settings.iter().for_each(|(name, value)| fake.write(&sysctl_path(name), value));
            fake
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.host.path(path);
            fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
            fs::write(path, text).expect("a file can be written");
            assert!(self.folder.path().is_dir());
        }
    }

    #[test]
    fn files_of_the_kernel_are_read() {
        let fake = FakeHost::with(&[
            (
                "/proc/self/limits",
                "Limit Soft Hard Units\nMax open files            1024   524288   files\nMax locked memory  unlimited unlimited bytes\n",
            ),
            ("/proc/meminfo", "MemTotal:  100 kB\nMemAvailable:    50 kB\n"),
            ("/proc/net/sockstat", "sockets: used 17\nTCP: inuse 1 orphan 0 tw 7 alloc 1 mem 128\n"),
            ("/proc/sys/net/ipv4/tcp_mem", "1\t2\t3\n"),
        ]);
        let host = &fake.host;
        assert_eq!(host.process_limit("Max open files"), Some(ProcessLimit { soft: 1024, hard: 524_288 }));
        assert_eq!(host.process_limit("Max locked memory").map(|limit| limit.hard), Some(u64::MAX));
        assert_eq!(host.process_limit("Max something"), None);
        assert_eq!(host.memory("MemAvailable"), Some(51_200));
        assert_eq!((host.sockets("TCP", "tw"), host.sockets("UDP", "mem")), (Some(7), None));
        assert_eq!(host.sysctl_three("net.ipv4.tcp_mem"), Some([1, 2, 3]));
        assert_eq!(host.sysctl("net.ipv4.absent"), None);
        assert_eq!(cpu_list("0,2-3"), [0, 2, 3]);
    }
}
