//! The CPUs of the load: clock, frequency, cores that are shared, distance to memory.

use std::collections::BTreeSet;

use thalweg_units::display;

use crate::finding::{Finding, Level};
use crate::host::{Host, cpu_list};
use crate::load::PlannedLoad;

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";

/// Clocks that programs read without a system call.
const FAST_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// Time of a reading by a system call and a device, and readings per request of the client.
const SLOW_READING_S: f64 = 1e-6;
const READINGS: f64 = 4.0;

/// The clock source.
pub(super) fn clock(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(clock) = host.text(&format!("{CLOCK}/current_clocksource")) else { return Vec::new() };
    let is = format!("the clock source is {clock}");
    if FAST_CLOCKS.contains(&&*clock) {
        return vec![Finding::ok(is)];
    }
    let cost = load.requests_per_s.map_or_else(String::new, |rate| {
        let share = display::percent(rate * READINGS * SLOW_READING_S);
        format!("; at {} that is {share} of a CPU", display::rate(rate))
    });
    let finding = Finding::of(Level::Warning, is, format!("each reading is a system call of about 1 us{cost}"));
    let available = host.text(&format!("{CLOCK}/available_clocksource")).unwrap_or_default();
    let better = FAST_CLOCKS.iter().find(|fast| available.split_whitespace().any(|name| name == **fast));
    vec![match better {
        Some(better) => finding.write(format!("{CLOCK}/current_clocksource"), better),
        None => finding.mended_by(
            "tsc=reliable on the kernel's command line, if the CPUs' counters agree (dmesg says why it was left)",
        ),
    }]
}

fn of_cpu(cpu: usize, file: &str) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/{file}")
}

/// The frequency governors of the load's CPUs.
pub(super) fn governor(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let path = |cpu: usize| of_cpu(cpu, "cpufreq/scaling_governor");
    let governors: Vec<(usize, String)> =
        load.cpus.iter().filter_map(|&cpu| Some((cpu, host.text(&path(cpu))?))).collect();
    if governors.is_empty() {
        return Vec::new();
    }
    let names: BTreeSet<&str> = governors.iter().map(|(_, name)| &**name).collect();
    let is = format!(
        "the frequency governor of the load's CPUs is {}",
        names.iter().copied().collect::<Vec<_>>().join(" and ")
    );
    let other: Vec<usize> = governors.iter().filter(|(_, name)| name != "performance").map(|(cpu, _)| *cpu).collect();
    if other.is_empty() {
        return vec![Finding::ok(is)];
    }
    // Drivers that choose the frequency in the CPU itself react within a millisecond under any
    // governor.
    let driver = host.text(&of_cpu(other[0], "cpufreq/scaling_driver")).unwrap_or_default();
    let by_itself = driver == "intel_pstate" || driver.starts_with("amd-pstate") || driver == "amd_pstate_epp";
    let range = frequencies(host, other[0]);
    let (level, spoils) = if by_itself {
        (Level::Hint, format!("the first milliseconds after a pause are slower{range}, which shows at low rates"))
    } else {
        (
            Level::Warning,
            format!(
                "a CPU that is little used runs slower{range}: response times at low rates are those of a slower machine"
            ),
        )
    };
    let finding = Finding::of(level, is, spoils).mended_by("cpupower frequency-set -g performance");
    vec![other.into_iter().fold(finding, |finding, cpu| finding.change(path(cpu), "performance"))]
}

/// The range of a CPU's frequencies, as a part of a sentence.
fn frequencies(host: &Host, cpu: usize) -> String {
    let ghz = |file: &str| host.number(&of_cpu(cpu, &format!("cpufreq/{file}"))).map(|khz| khz as f64 / 1e6);
    match (ghz("cpuinfo_min_freq"), ghz("cpuinfo_max_freq")) {
        (Some(min), Some(max)) => format!(" ({min:.1} to {max:.1} GHz)"),
        _ => String::new(),
    }
}

/// Frequencies beyond the nominal one, which depend on temperature and on the other cores.
pub(super) fn turbo(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    let files = [
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0", "1"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1", "0"),
    ];
    let Some((path, now, on, off)) = files.iter().find_map(|&(path, on, off)| Some((path, host.text(path)?, on, off)))
    else {
        return Vec::new();
    };
    if now != on {
        return vec![Finding::ok("turbo frequencies are off")];
    }
    let spoils = "the frequency depends on temperature and on busy cores, so that runs differ by some per cent";
    vec![Finding::of(Level::Hint, "turbo frequencies are on", spoils).write(path, off)]
}

/// The first CPU of each core, of these CPUs; and the pairs of CPUs that share a core.
fn cores(host: &Host, cpus: &[usize]) -> (Vec<usize>, Vec<(usize, usize)>) {
    let (mut firsts, mut shared) = (Vec::new(), Vec::new());
    for &cpu in cpus {
        let siblings = cpu_list(&host.text(&of_cpu(cpu, "topology/thread_siblings_list")).unwrap_or_default());
        match siblings.iter().find(|sibling| firsts.contains(*sibling)) {
            Some(&first) => shared.push((first, cpu)),
            None => firsts.push(cpu),
        }
    }
    (firsts, shared)
}

/// Hardware threads of one core that the load uses both, or shares with the server.
pub(super) fn hardware_threads(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    if load.cpus.is_empty() || host.text(&of_cpu(load.cpus[0], "topology/thread_siblings_list")).is_none() {
        return Vec::new();
    }
    let (firsts, shared) = cores(host, &load.cpus);
    let list = |cpus: &[usize]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    if let Some((first, second)) = shared.first() {
        let is = format!(
            "{} of the load's {} CPUs are second threads of a core (CPU {second} beside {first})",
            shared.len(),
            load.cpus.len()
        );
        let spoils = "two threads of a core do the work of about 1.3 cores, and slow each other down";
        return vec![Finding::of(Level::Hint, is, spoils).mended_by(format!("--cores {}", list(&firsts)))];
    }
    let siblings = |cpu: usize| cpu_list(&host.text(&of_cpu(cpu, "topology/thread_siblings_list")).unwrap_or_default());
    let beside = load
        .cpus
        .iter()
        .find_map(|&cpu| siblings(cpu).into_iter().find(|other| !load.cpus.contains(other)).map(|other| (cpu, other)));
    match beside {
        Some((cpu, other)) if load.shared_host => {
            let is = format!("CPU {cpu} of the load shares a core with CPU {other}, which is the server's");
            let spoils = "client and server slow each other down: the capacity found is below the server's own";
            vec![
                Finding::of(Level::Hint, is, spoils)
                    .mended_by("pin the server to other cores (taskset), or use --cores"),
            ]
        }
        _ => vec![Finding::ok("each of the load's CPUs has a core of its own")],
    }
}

/// Memory of another node.
pub(super) fn nodes(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let folder = "/sys/devices/system/node";
    let nodes: Vec<(String, Vec<usize>)> = host
        .names(folder)
        .into_iter()
        .filter(|name| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok()))
        .filter_map(|name| Some((name.clone(), cpu_list(&host.text(&format!("{folder}/{name}/cpulist"))?))))
        .collect();
    let used: Vec<_> = nodes.iter().filter(|(_, cpus)| cpus.iter().any(|cpu| load.cpus.contains(cpu))).collect();
    match used[..] {
        [] => Vec::new(),
        [_] => vec![Finding::ok("the load's CPUs are on one memory node")],
        [(_, first), ..] => {
            let is = format!("the load's CPUs are on {} memory nodes", used.len());
            let spoils = "packets and buffers of the other node cost about half again as much";
            let cpus: Vec<_> = load.cpus.iter().filter(|cpu| first.contains(cpu)).map(ToString::to_string).collect();
            vec![Finding::of(Level::Hint, is, spoils).mended_by(format!("--cores {}", cpus.join(",")))]
        }
    }
}

/// A machine within another one.
pub(super) fn virtual_machine(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    let Some(info) = host.text("/proc/cpuinfo") else { return Vec::new() };
    let flagged =
        info.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"));
    let kind = host.text("/sys/hypervisor/type").or_else(|| host.text("/sys/class/dmi/id/product_name"));
    if !flagged && host.text("/sys/hypervisor/type").is_none() {
        return vec![Finding::ok("this host is no virtual machine, as far as it shows")];
    }
    let kind = kind.map_or_else(String::new, |kind| format!(" ({kind})"));
    let spoils = "other machines on the same hardware change its speed; repeat a measurement at another hour";
    vec![
        Finding::of(Level::Hint, format!("this host is a virtual machine{kind}"), spoils)
            .mended_by("dedicated hardware, for figures that are to be published"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    fn load(text: &str, cpus: &[usize]) -> PlannedLoad {
        PlannedLoad { cpus: cpus.to_vec(), ..text.parse().unwrap() }
    }

    #[test]
    fn a_slow_clock_costs_time_for_each_request() {
        let fake = FakeHost::with(&[
            ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm\n"),
        ]);
        let rate = load("rate 50000/s", &[0]);
        let finding = &clock(&fake.host, &rate)[0];
        assert!(finding.level == Level::Warning && finding.spoils.contains("20.0 % of a CPU"), "{finding:?}");
        assert!(finding.changes.is_empty(), "there is no better one");
        fake.write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet\n");
        assert_eq!(clock(&fake.host, &rate)[0].changes[0].value, "tsc");
        fake.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
        assert_eq!(clock(&fake.host, &rate)[0].level, Level::Ok);
    }

    #[test]
    fn governors_are_judged_with_their_driver() {
        let fake = FakeHost::with(&[
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_driver", "acpi-cpufreq\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_min_freq", "800000\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "3600000\n"),
        ]);
        assert_eq!(governor(&fake.host, &load("rate 5/s", &[0]))[0].level, Level::Ok);
        let finding = &governor(&fake.host, &load("rate 5/s", &[0, 1]))[0];
        assert!(finding.level == Level::Warning && finding.spoils.contains("(0.8 to 3.6 GHz)"), "{finding:?}");
        assert_eq!((finding.changes.len(), finding.mend.len()), (1, 1));
        fake.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_driver", "intel_pstate\n");
        assert_eq!(governor(&fake.host, &load("rate 5/s", &[0, 1]))[0].level, Level::Hint);
        assert!(turbo(&fake.host, &load("rate 5/s", &[0])).is_empty());
        fake.write("/sys/devices/system/cpu/cpufreq/boost", "1\n");
        assert_eq!(
            turbo(&fake.host, &load("rate 5/s", &[0]))[0].mend,
            ["echo 0 > /sys/devices/system/cpu/cpufreq/boost"]
        );
    }

    #[test]
    fn threads_of_one_core_are_found() {
        let fake = FakeHost::with(&[]);
        for cpu in 0..4 {
            fake.write(&of_cpu(cpu, "topology/thread_siblings_list"), if cpu % 2 == 0 { "0,2\n" } else { "1,3\n" });
        }
        let rate = |cpus: &[usize], shared_host| PlannedLoad { shared_host, ..load("rate 5/s", cpus) };
        let both = &hardware_threads(&fake.host, &rate(&[0, 1, 2, 3], false))[0];
        assert!(both.level == Level::Hint && both.mend == ["--cores 0,1"], "{both:?}");
        assert_eq!(hardware_threads(&fake.host, &rate(&[0, 1], false))[0].level, Level::Ok);
        assert_eq!(hardware_threads(&fake.host, &rate(&[0, 1], true))[0].level, Level::Hint);
    }

    #[test]
    fn nodes_and_virtual_machines() {
        let fake = FakeHost::with(&[
            ("/sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("/sys/devices/system/node/node1/cpulist", "2-3\n"),
            ("/proc/cpuinfo", "model name : x\nflags\t\t: fpu hypervisor sse\n"),
        ]);
        assert_eq!(nodes(&fake.host, &load("rate 5/s", &[0, 1]))[0].level, Level::Ok);
        assert_eq!(nodes(&fake.host, &load("rate 5/s", &[1, 2]))[0].mend, ["--cores 1"]);
        assert_eq!(virtual_machine(&fake.host, &load("rate 5/s", &[0]))[0].level, Level::Hint);
        fake.write("/proc/cpuinfo", "flags : fpu\n");
        assert_eq!(virtual_machine(&fake.host, &load("rate 5/s", &[0]))[0].level, Level::Ok);
    }
}
