//! File descriptors: the limits of a process and of the host, and a file table that holds fewer
//! than its limit says.

use thalweg_sys::resource_limits::room_in_a_table;
use thalweg_units::display::count;

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::{PlannedLoad, Role};
use crate::needs::{DESCRIPTORS_BESIDE, share_out};

/// Descriptors of a trial that are not counted.
const TRIAL_BESIDE: u64 = 8;

/// `RLIMIT_NOFILE`, soft and hard, and `fs.nr_open` above it.
pub(super) fn limits(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(limit) = host.process_limit("Max open files") else { return Vec::new() };
    let (connections, wanted) = (count(load.connections), load.connections + DESCRIPTORS_BESIDE);
    let cpus = if load.cpus.is_empty() { &[0][..] } else { &load.cpus };
    let hard = count(limit.hard);
    if wanted <= limit.hard {
        let raised = if wanted > limit.soft { ", raised by thalweg itself from the soft limit" } else { "" };
        return vec![Finding::ok(format!("a process may have {hard} files open{raised}"))];
    }
    let is = format!(
        "a process may have {hard} files open (the hard limit), and {connections} connections need {}",
        count(wanted)
    );
    let finding = match (share_out(load.connections, limit.hard, cpus), load.role) {
        (None, _) => Finding::of(Level::Error, is, "not even threads with file tables of their own hold so many"),
        (Some(threads), Role::Client) => {
            let threads = threads.cpus.len();
            let others = count(limit.hard.saturating_sub(DESCRIPTORS_BESIDE));
            let spoils = format!(
                "thalweg spreads them over {threads} threads with file tables of their own; another program ends at \
                 about {others} connections"
            );
            Finding::of(Level::Hint, is, spoils)
        }
        (Some(_), Role::Server) => {
            let slots = cpus.len() as u64 * limit.hard.saturating_sub(DESCRIPTORS_BESIDE);
            if slots >= load.connections {
                return vec![Finding::ok(format!("one loop per CPU holds {} connections", count(slots)))];
            }
            let spoils = format!(
                "one loop per CPU holds about {}; further clients wait or get 503, unless limits.connections_max asks \
                 for more loops",
                count(slots)
            );
            Finding::of(Level::Warning, is, spoils)
                .mended_by(format!("limits.connections_max = {} in the server's configuration", load.connections))
        }
    };
    vec![raise(finding, host, wanted)]
}

/// Adds the commands that raise the limit to `wanted`.
fn raise(finding: Finding, host: &Host, wanted: u64) -> Finding {
    let finding = match host.sysctl_number("fs.nr_open") {
        Some(nr_open) if nr_open < wanted => finding.set("fs.nr_open", wanted.next_power_of_two()),
        _ => finding,
    };
    finding
        .mended_by(format!("ulimit -Hn {wanted} (as root, in the shell that starts the program)"))
        .mended_by(format!("LimitNOFILE={wanted} in the systemd unit"))
        .mended_by(format!("* hard nofile {wanted} in /etc/security/limits.conf, for new logins"))
}

/// `fs.file-max`, the limit of the whole host.
pub(super) fn open_files(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(text) = host.sysctl("fs.file-nr") else { return Vec::new() };
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [open, _, max] = numbers[..] else { return Vec::new() };
    let wanted = open + load.ends() + DESCRIPTORS_BESIDE;
    if wanted <= max {
        return vec![Finding::ok(format!("the host may have {} files open and has {}", count(max), count(open)))];
    }
    let is = format!("fs.file-max is {} for the whole host, of which {} are in use", count(max), count(open));
    let spoils =
        format!("the load opens {} more; programs other than root's then fail to open anything", count(load.ends()));
    vec![Finding::of(Level::Error, is, spoils).set("fs.file-max", wanted.saturating_mul(2))]
}

/// The number of descriptors that a table really takes. Some hosts (containers, sandboxes) take
/// fewer than the limit says.
pub(super) fn file_table(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(limit) = host.is_this().then(|| host.process_limit("Max open files")).flatten() else {
        return Vec::new();
    };
    let wanted = (load.connections + DESCRIPTORS_BESIDE).min(limit.hard);
    let Ok(room) = room_in_a_table(wanted) else { return Vec::new() };
    // The standard streams and those of the trial itself are in the table too.
    if room.opened + TRIAL_BESIDE >= wanted {
        return vec![Finding::ok(format!("{} descriptors were opened at once, as a trial", count(room.opened)))];
    }
    let Some(error) = room.refusal else {
        return vec![Finding::ok(format!("{} descriptors were opened in the time of the trial", count(room.opened)))];
    };
    let is = format!("a trial opened {} of {} descriptors: {error}", count(room.opened), count(wanted));
    let spoils = format!(
        "this host allows fewer than the limit of {} says; connections beyond that end as `no descriptor`",
        count(limit.hard)
    );
    vec![
        Finding::of(Level::Warning, is, spoils)
            .mended_by("run it outside this container or sandbox, or with fewer connections per thread (--cores)"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    fn host(soft: u64, hard: u64) -> FakeHost {
        FakeHost::with(&[
            ("/proc/self/limits", &format!("Max open files {soft} {hard} files\n")),
            ("/proc/sys/fs/nr_open", "1048576\n"),
            ("/proc/sys/fs/file-nr", "1000\t0\t100000\n"),
        ])
    }

    fn check(load: &str, hard: u64, level: Level, part: &str) {
        let fake = host(1024, hard);
        let load: PlannedLoad = load.parse().unwrap();
        let finding = &limits(&fake.host, &load)[0];
        let text = format!("{}; {:?}", finding.sentence(), finding.mend);
        assert_eq!(finding.level, level, "{load:?}: {text}");
        assert!(text.contains(part), "{load:?}: {text}");
    }

    #[test]
    fn the_limit_of_a_process_is_held_against_the_connections() {
        check("hold 500", 524_288, Level::Ok, "524,288");
        check("hold 100000", 524_288, Level::Ok, "raised by thalweg");
        check("hold 100000", 20_000, Level::Hint, "6 threads");
        check("hold 100000", 20_000, Level::Hint, "LimitNOFILE=100128");
        check("hold 100000", 100, Level::Error, "not even");
        check("hold 2000000", 1_048_576, Level::Hint, "sysctl -w fs.nr_open=2097152");
        check("serve 50000", 20_000, Level::Warning, "limits.connections_max = 50000");
        check("serve 500", 20_000, Level::Ok, "20,000");
    }

    #[test]
    fn both_ends_count_against_the_host() {
        let fake = host(1024, 524_288);
        let mut load: PlannedLoad = "hold 60000".parse().unwrap();
        assert_eq!(open_files(&fake.host, &load)[0].level, Level::Ok);
        load.shared_host = true;
        let finding = &open_files(&fake.host, &load)[0];
        assert_eq!((finding.level, &*finding.changes[0].value), (Level::Error, "242256"), "{finding:?}");
    }
}
