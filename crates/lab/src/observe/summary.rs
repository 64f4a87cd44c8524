//! The summary of a trial's samples in the document's form.

use std::collections::BTreeMap;

use thalweg_observe::sample::{ConnectionFigures, Sample, Server, Stall};

use thalweg_report::document::{
    BusiestThread, ConnectionSummary, HostFigures, InterfaceUse, ServerFigures, ServerObservation,
};

/// Sums up a sample; the CPUs of the load are left out.
pub(super) fn of(sample: &Sample, load_cpus: &[usize]) -> ServerObservation {
    let seconds = sample.seconds.max(1e-9);
    let cpus = sample.cpus.iter().filter(|cpu| !load_cpus.contains(&cpu.cpu));
    let all = sample.all_cpus();
    let tcp = sample.tcp.unwrap_or_default();
    let server = sample.server.as_ref();
    ServerObservation {
        process: server.map_or_else(String::new, |server| server.name.clone()),
        cpu_cores: server.map_or(0.0, |server| server.figures.cpu_ms() as f64 / 1e3 / seconds),
        cpus_busy: cpus.map(|cpu| (cpu.cpu, cpu.times.busy_share())).collect(),
        stolen: all.share(all.steal_ms),
        retransmitted: per(tcp.retransmitted, tcp.segments_out),
        listen_overflows: tcp.listen_overflows,
        figures: figures(sample, seconds),
    }
}

fn per(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn figures(sample: &Sample, seconds: f64) -> HostFigures {
    let all = sample.all_cpus();
    let kinds = [
        ("user", all.user_ms),
        ("nice", all.nice_ms),
        ("system", all.system_ms),
        ("irq", all.irq_ms),
        ("softirq", all.softirq_ms),
        ("steal", all.steal_ms),
        ("iowait", all.iowait_ms),
    ];
    let pressure = [("cpu", sample.pressure.cpu), ("memory", sample.pressure.memory), ("io", sample.pressure.io)];
    let stalled = |(name, stall): (&str, Option<Stall>)| Some((name.to_owned(), stall?.some_us as f64 / 1e6 / seconds));
    let disks = sample.disks.iter().map(|disk| (disk.name.clone(), disk.figures.busy_ms as f64 / 1e3 / seconds));
    let used = sample.interfaces.iter().filter(|one| one.figures.rx_packets + one.figures.tx_packets > 0);
    let interface = |one: &thalweg_observe::sample::Named<thalweg_observe::sample::InterfaceFigures>| InterfaceUse {
        name: one.name.clone(),
        rx_bits: one.figures.rx_bytes as f64 * 8.0 / seconds,
        tx_bits: one.figures.tx_bytes as f64 * 8.0 / seconds,
        dropped: one.figures.rx_dropped + one.figures.tx_dropped,
        speed_bits: (one.figures.speed_mbit > 0).then_some(one.figures.speed_mbit as f64 * 1e6),
    };
    HostFigures {
        seconds: sample.seconds,
        cpu: kinds.iter().map(|(kind, ms)| ((*kind).to_owned(), all.share(*ms))).collect(),
        running: sample.scheduler.map(|scheduler| scheduler.running),
        context_switches: sample.scheduler.map(|scheduler| scheduler.context_switches as f64 / seconds),
        pressure: pressure.into_iter().filter_map(stalled).collect::<BTreeMap<_, _>>(),
        busiest_disk: disks.filter(|(_, busy)| *busy > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)),
        interfaces: used.map(interface).collect(),
        listen_drops: sample.tcp.map(|tcp| tcp.listen_drops),
        syncookies: sample.tcp.map(|tcp| tcp.syncookies_sent),
        server: sample.server.as_ref().map(|server| server_figures(server, seconds)),
        observer_cpu: sample.cost_us as f64 / 1e6 / seconds,
    }
}

fn server_figures(server: &Server, seconds: f64) -> ServerFigures {
    let per_s = |us: u64| us as f64 / 1e6 / seconds;
    let busiest = server.busiest.first().map(|thread| BusiestThread {
        name: thread.name.clone(),
        cpu: per_s(thread.cpu_us),
        run_queue_wait: per_s(thread.run_queue_wait_us),
    });
    let futex_waits: Option<u64> = server.busiest.iter().map(|thread| thread.futex_waits).sum();
    let figures = &server.figures;
    ServerFigures {
        processes: figures.processes,
        threads: figures.threads,
        descriptors: figures.descriptors,
        descriptors_limit: figures.descriptors_limit,
        descriptor_use: server.descriptor_use,
        resident_bytes: figures.resident_kib * 1024.0,
        busiest_thread: busiest,
        run_queue_wait: server.scheduling.map(|threads| per_s(threads.run_queue_wait_us)),
        futex_waits: futex_waits.filter(|_| !server.busiest.is_empty()).map(|waits| waits as f64 / seconds),
        accept_queue: server.listeners.iter().map(|listener| u64::from(listener.waiting)).sum(),
        accept_backlog: server.listeners.iter().map(|listener| u64::from(listener.backlog)).sum(),
        connections: server.connections.as_ref().map(connections),
        quota_cpus: server.group.as_ref().and_then(|group| group.cpus),
        throttled_s: server.group.as_ref().map_or(0.0, |group| group.figures.throttled_us as f64 / 1e6),
    }
}

fn connections(figures: &ConnectionFigures) -> ConnectionSummary {
    ConnectionSummary {
        examined: figures.examined,
        is_sample: figures.is_sample > 0,
        rtt_p50_us: figures.rtt_p50_us,
        rtt_p99_us: figures.rtt_p99_us,
        retransmitted: per(figures.retransmitted, figures.segments_out),
        rwnd_limited: per(figures.rwnd_limited_us, figures.busy_us),
        sndbuf_limited: per(figures.sndbuf_limited_us, figures.busy_us),
    }
}
