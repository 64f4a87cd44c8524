//! The kernel and its interface to programs.

use thalweg_sys::AnyDriver;
use thalweg_sys::host::is_root;
use thalweg_units::display::bytes;

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// The first version with every operation that the ring driver needs (multishot receive).
const RING_FROM: (u32, u32) = (6, 0);

/// From this version on rings do not count against the limit on locked memory.
const UNLOCKED_FROM: (u32, u32) = (5, 12);
const LOCKED_WANTED: u64 = 8 << 20;

fn version(host: &Host) -> Option<(String, (u32, u32))> {
    let release = host.sysctl("kernel.osrelease")?;
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
    let version = (numbers.next()??, numbers.next()??);
    Some((release, version))
}

/// The kernel's version.
pub(super) fn release(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    let Some((release, version)) = version(host) else { return Vec::new() };
    let is = format!("the kernel is Linux {release}");
    if version >= RING_FROM {
        return vec![Finding::ok(is)];
    }
    let spoils = "io_uring has what is needed from 6.0 on; epoll is used, which takes more CPU time per request";
    vec![Finding::of(Level::Hint, is, spoils).mended_by("a newer kernel")]
}

/// The setting that forbids io_uring.
pub(super) fn ring_setting(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    let name = "kernel.io_uring_disabled";
    let Some(disabled) = host.sysctl_number(name) else { return Vec::new() };
    let is = format!("{name} is {disabled}");
    let forbids = match disabled {
        0 => return vec![Finding::ok(is)],
        1 if host.is_this() && is_root() => return vec![Finding::ok(is)],
        1 => "only root and the group of kernel.io_uring_group may use it",
        _ => "nobody may use it",
    };
    let spoils = format!("{forbids}; epoll is used, which takes more CPU time per request");
    vec![Finding::of(Level::Hint, is, spoils).set(name, 0)]
}

/// Whether the kernel grants a ring, as a trial.
pub(super) fn ring(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    if !host.is_this() {
        return Vec::new();
    }
    let Some(error) = AnyDriver::refusal() else { return vec![Finding::ok("the kernel grants io_uring")] };
    let spoils = "epoll is used, which takes more CPU time per request";
    vec![
        Finding::of(Level::Hint, format!("the kernel does not grant io_uring: {error}"), spoils)
            .mended_by("kernel.io_uring_disabled=0, and a container profile that allows io_uring_setup"),
    ]
}

/// The limit on locked memory, which bounds rings on old kernels.
pub(super) fn locked_memory(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    let (Some(limit), Some((_, version))) = (host.process_limit("Max locked memory"), version(host)) else {
        return Vec::new();
    };
    let shown = if limit.soft == u64::MAX { "unlimited".to_owned() } else { bytes(limit.soft) };
    let is = format!("the limit on locked memory is {shown}");
    if version >= UNLOCKED_FROM || limit.soft >= LOCKED_WANTED {
        return vec![Finding::ok(is)];
    }
    let spoils = "before Linux 5.12 rings count against it, and one per CPU may be refused";
    vec![
        Finding::of(Level::Hint, is, spoils)
            .mended_by("ulimit -l unlimited, or LimitMEMLOCK=infinity in the systemd unit"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    #[test]
    fn old_kernels_and_forbidden_rings_are_named() {
        for (release, disabled, levels) in [
            ("6.18.44-fc", "0", [Level::Ok, Level::Ok, Level::Ok]),
            ("5.15.0-91-generic", "2", [Level::Hint, Level::Hint, Level::Ok]),
            ("5.4.0", "1", [Level::Hint, Level::Hint, Level::Hint]),
        ] {
            let fake = FakeHost::with_sysctls(&[("kernel.osrelease", release), ("kernel.io_uring_disabled", disabled)]);
            fake.write("/proc/self/limits", "Max locked memory 65536 65536 bytes\n");
            let load = "rate 5/s".parse().unwrap();
            let found =
                [self::release(&fake.host, &load), ring_setting(&fake.host, &load), locked_memory(&fake.host, &load)];
            assert_eq!(found.map(|findings| findings[0].level), levels, "{release}");
        }
    }
}
