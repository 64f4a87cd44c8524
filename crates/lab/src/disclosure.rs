//! The disclosure of the program and its host: what the kernel shows of them in files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use thalweg_report::document::{Disclosure, Interface};

/// Variables of the environment that change how a program runs, and hold no secrets.
const VARIABLES: [&str; 10] = [
    "GLIBC_TUNABLES",
    "LANG",
    "LC_ALL",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "RUST_BACKTRACE",
    "THALWEG_STORE",
    "TMPDIR",
    "TZ",
    "XDG_DATA_HOME",
];

/// A larger program file, as builds for tests are, would take too long to read.
const PROGRAM_BYTES_MAX: u64 = 64 << 20;

/// Collects what is known of this process and its host.
pub(crate) fn collect() -> Disclosure {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let variables = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    Disclosure {
        program_sha256: program_sha256().unwrap_or_default(),
        build: format!("{build} {}-{}", std::env::consts::ARCH, std::env::consts::OS),
        kernel_build: line("/proc/version").unwrap_or_default(),
        governors: governors(),
        interfaces: interfaces(Path::new("/sys/class/net")),
        limits: limits(&fs::read_to_string("/proc/self/limits").unwrap_or_default()),
        control_group: control_group(),
        environment: variables.collect(),
    }
}

/// The hash of a file's content in hexadecimal.
pub(crate) fn sha256_hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn program_sha256() -> Option<String> {
    let mut program = File::open("/proc/self/exe").ok()?;
    if program.metadata().ok()?.len() > PROGRAM_BYTES_MAX {
        return None;
    }
    let mut content = Vec::new();
    program.read_to_end(&mut content).ok()?;
    Some(sha256_hex(&content))
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The governors in use, each once.
fn governors() -> Vec<String> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let mut governors: Vec<String> = cpus.filter_map(|cpu| line(cpu.path().join("cpufreq/scaling_governor"))).collect();
    governors.sort();
    governors.dedup();
    governors
}

fn interfaces(folder: &Path) -> Vec<Interface> {
    let names =
        fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_up = |name: &String| line(folder.join(name).join("operstate")).is_some_and(|state| state != "down");
    let mut names: Vec<String> = names.filter(is_up).collect();
    names.sort();
    let number = |name: &str, file: &str| line(folder.join(name).join(file))?.parse().ok();
    let driver = |name: &str| {
        let driver = fs::read_link(folder.join(name).join("device/driver")).ok()?;
        Some(driver.file_name()?.to_string_lossy().into_owned())
    };
    let interface = |name: String| Interface {
        speed_mbit: number(&name, "speed"),
        mtu: number(&name, "mtu"),
        driver: driver(&name),
        name,
    };
    names.into_iter().map(interface).collect()
}

/// The table of proc_pid_limits(5): a name in words, soft and hard limit, and a unit.
fn limits(text: &str) -> BTreeMap<String, String> {
    const NAME_WIDTH: usize = 26;
    let limit = |line: &str| {
        let (name, values) = line.split_at_checked(NAME_WIDTH)?;
        Some((name.trim().to_owned(), values.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    text.lines().skip(1).filter_map(limit).collect()
}

/// The process's group in the unified hierarchy, with its limit on CPU time.
fn control_group() -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let limit = line(format!("/sys/fs/cgroup{path}/cpu.max"));
    Some(limit.map_or_else(|| path.to_owned(), |limit| format!("{path}, cpu.max {limit}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_column() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            1024                 1048576              files     \n\
                    Max nice priority         0                    0                    \n";
        let limits = limits(text);
        assert_eq!(limits["Max open files"], "1024 1048576 files");
        assert_eq!(limits["Max nice priority"], "0 0");
    }

    #[test]
    fn this_host_discloses_itself() {
        let disclosure = collect();
        assert!(disclosure.interfaces.iter().any(|interface| interface.name == "lo"), "{disclosure:?}");
        assert!(disclosure.limits.contains_key("Max open files"), "{disclosure:?}");
        assert!(disclosure.kernel_build.starts_with("Linux"), "{disclosure:?}");
    }
}
