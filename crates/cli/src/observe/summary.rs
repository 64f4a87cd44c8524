//! The end of an observation in words.

use thalweg_observe::HostFacts;
use thalweg_observe::sample::{Sample, Server};
use thalweg_units::display;

/// The sum of an observation; `None` if there was no sample.
pub(super) fn of(facts: &HostFacts, total: Option<&Sample>) -> String {
    let mut lines = vec![String::new()];
    match total {
        None => lines.push("no sample was taken: the observation was shorter than its interval".to_owned()),
        Some(total) => {
            lines.extend(host(facts, total));
            match &total.server {
                Some(seen) => lines.extend(server(seen, total.seconds)),
                None if facts.server.is_empty() => {}
                None => lines.push(format!("server      none found for {}", facts.server)),
            }
            let cost = total.cost_us as f64 / 1e6 / total.seconds.max(1e-9);
            lines.push(format!("observer    used {} of one CPU", display::percent(cost)));
        }
    }
    lines.extend(facts.unavailable.iter().map(|line| format!("not shown   {line}")));
    lines.join("\n") + "\n"
}

fn host(facts: &HostFacts, total: &Sample) -> Vec<String> {
    let all = total.all_cpus();
    let kinds = [
        ("user", all.user_ms + all.nice_ms),
        ("system", all.system_ms),
        ("interrupts", all.irq_ms + all.softirq_ms),
        ("stolen", all.steal_ms),
        ("waiting for storage", all.iowait_ms),
    ];
    let kinds: Vec<String> = kinds
        .iter()
        .filter(|(_, ms)| *ms > 0)
        .map(|(kind, ms)| format!("{kind} {}", display::percent(all.share(*ms))))
        .collect();
    let mut lines = vec![
        format!("observed    {} ({}, {} CPUs) for {:.1} s", facts.name, facts.kernel, facts.cpus, total.seconds),
        format!("CPU         {} busy: {}", display::percent(all.busy_share()), kinds.join(", ")),
    ];
    if let Some(cpu) = total.busiest_cpu() {
        lines.push(format!("            busiest: CPU {}, {}", cpu.cpu, display::percent(cpu.times.busy_share())));
    }
    if let Some(tcp) = &total.tcp {
        lines.push(format!(
            "TCP         {} segments sent, {} again; {} connections refused by a full queue",
            display::count(tcp.segments_out),
            display::count(tcp.retransmitted),
            display::count(tcp.listen_overflows)
        ));
    }
    lines
}

fn server(server: &Server, seconds: f64) -> Vec<String> {
    let figures = &server.figures;
    let seconds = seconds.max(1e-9);
    let cpus = figures.cpu_ms() as f64 / 1e3 / seconds;
    let limit = match figures.descriptors_limit {
        0 => String::new(),
        limit => format!(" of {}", display::count(limit)),
    };
    let mut lines = vec![format!(
        "server      {}: {cpus:.2} CPUs, {}, {}, {}{limit} descriptors, {} MiB resident",
        server.name,
        counted(figures.processes, "process", "processes"),
        counted(figures.threads, "thread", "threads"),
        display::count(figures.descriptors),
        display::count((figures.resident_kib / 1024.0) as u64)
    )];
    for thread in server.busiest.iter().take(3) {
        let share = |us: u64| display::percent(us as f64 / 1e6 / seconds);
        lines.push(format!(
            "            thread {} ({}): {} of a CPU, waited for one {} of the time",
            thread.name,
            thread.tid,
            share(thread.cpu_us),
            share(thread.run_queue_wait_us)
        ));
    }
    for listener in &server.listeners {
        lines.push(format!(
            "            {}: at most {} of {} places in the accept queue taken",
            listener.address, listener.waiting, listener.backlog
        ));
    }
    if let Some(group) = server.group.as_ref().filter(|group| group.cpus.is_some()) {
        lines.push(format!(
            "            control group {}: {:.2} CPUs allowed, kept from running for {:.2} s",
            group.path,
            group.cpus.unwrap_or_default(),
            group.figures.throttled_us as f64 / 1e6
        ));
    }
    lines
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", display::count(count), if count == 1 { one } else { many })
}
