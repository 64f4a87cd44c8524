//! A line per sample, for people.

use thalweg_observe::Sample;

/// Lines after which the head is repeated.
const LINES_PER_HEAD: usize = 20;

/// The table. A terminal that is narrower than a line gets each line, and the head, in several.
#[derive(Debug, Default)]
pub(super) struct Table {
    lines: usize,
    columns: Option<usize>,
}

/// The columns of the host, each with its width, and those of the server.
const HOST: [(&str, usize); 11] = [
    ("time", 8),
    ("cpu%", 5),
    ("core%", 5),
    ("sirq%", 5),
    ("steal%", 6),
    ("run", 4),
    ("switch/s", 8),
    ("rx Mb/s", 8),
    ("tx Mb/s", 8),
    ("retr/s", 6),
    ("drop/s", 6),
];
const SERVER: [(&str, usize); 6] =
    [("server", 15), ("cpus", 5), ("thread%", 7), ("wait%", 5), ("fds", 7), ("queue", 5)];

impl Table {
    /// The table for a terminal of so many columns, or with whole lines.
    pub(super) fn new(columns: Option<usize>) -> Self {
        Self { lines: 0, columns }
    }

    /// The line of a sample, below the head where it is due.
    pub(super) fn line(&mut self, sample: &Sample) -> String {
        let mut text = String::new();
        if self.lines.is_multiple_of(LINES_PER_HEAD) {
            let heads = HOST.iter().chain(&SERVER).map(|(head, width)| format!("{head:>width$}"));
            text += &self.broken(heads);
        }
        self.lines += 1;
        let cells = host_cells(sample).into_iter().chain(server_cells(sample));
        let widths = HOST.iter().chain(&SERVER).map(|(_, width)| *width);
        let cells = cells.zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        text + &self.broken(cells)
    }

    /// The cells in a line, or in as many as it takes: then the first column stays free below.
    fn broken(&self, cells: impl Iterator<Item = String>) -> String {
        let (mut text, mut line) = (String::new(), String::new());
        for cell in cells {
            if self.columns.is_some_and(|columns| !line.is_empty() && line.len() + 1 + cell.len() > columns) {
                text += &format!("{}\n", line.trim_end());
                line = " ".repeat(HOST[0].1);
            }
            line += &format!("{}{cell}", if line.is_empty() { "" } else { " " });
        }
        text + line.trim_end() + "\n"
    }
}

/// A figure that this host does not show.
const ABSENT: &str = "-";

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn host_cells(sample: &Sample) -> [String; 11] {
    let all = sample.all_cpus();
    let per_s = |count: u64| format!("{:.0}", count as f64 / sample.seconds.max(1e-9));
    let mbit_per_s = |bytes: u64| format!("{:.1}", bytes as f64 * 8.0 / 1e6 / sample.seconds.max(1e-9));
    let sum = |figure: fn(&thalweg_observe::sample::InterfaceFigures) -> u64| {
        mbit_per_s(sample.interfaces.iter().map(|interface| figure(&interface.figures)).sum())
    };
    let absent = || ABSENT.to_owned();
    let tcp = |figure: fn(&thalweg_observe::sample::Tcp) -> u64| {
        sample.tcp.as_ref().map_or_else(absent, |tcp| per_s(figure(tcp)))
    };
    let scheduler = sample.scheduler.as_ref();
    [
        time_of_day(sample.unix_s),
        percent(all.share(all.busy_ms())),
        sample.busiest_cpu().map_or_else(absent, |cpu| percent(cpu.times.busy_share())),
        percent(all.share(all.softirq_ms)),
        percent(all.share(all.steal_ms)),
        scheduler.map_or_else(absent, |scheduler| format!("{:.0}", scheduler.running)),
        scheduler.map_or_else(absent, |scheduler| per_s(scheduler.context_switches)),
        sum(|figures| figures.rx_bytes),
        sum(|figures| figures.tx_bytes),
        tcp(|tcp| tcp.retransmitted),
        tcp(|tcp| tcp.listen_drops),
    ]
}

fn server_cells(sample: &Sample) -> Vec<String> {
    let Some(server) = &sample.server else { return Vec::new() };
    let seconds = sample.seconds.max(1e-9);
    let absent = || ABSENT.to_owned();
    let waiting: u32 = server.listeners.iter().map(|listener| listener.waiting).sum();
    let name: String = server.name.chars().take(SERVER[0].1).collect();
    vec![
        name,
        format!("{:.2}", server.figures.cpu_ms() as f64 / 1e3 / seconds),
        server.busiest.first().map_or_else(absent, |thread| percent(thread.cpu_us as f64 / 1e6 / seconds)),
        server.scheduling.map_or_else(absent, |threads| percent(threads.run_queue_wait_us as f64 / 1e6 / seconds)),
        server.figures.descriptors.to_string(),
        if server.listeners.is_empty() { absent() } else { waiting.to_string() },
    ]
}

/// The local time of a day.
fn time_of_day(unix_s: f64) -> String {
    let time = jiff::Timestamp::from_second(unix_s as i64).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_observe::sample::{Cpu, CpuTimes, Scheduler, Server, ServerFigures, Tcp, Thread};

    #[test]
    fn a_line_stands_below_its_head() {
        let times = CpuTimes { user_ms: 900, softirq_ms: 100, idle_ms: 1000, ..CpuTimes::default() };
        let thread = Thread { cpu_us: 1_900_000, ..Thread::default() };
        let server = Server {
            name: "nginx".to_owned(),
            figures: ServerFigures { user_ms: 1500, system_ms: 1000, descriptors: 77, ..ServerFigures::default() },
            busiest: vec![thread],
            ..Server::default()
        };
        let sample = Sample {
            seconds: 2.0,
            cpus: vec![Cpu { cpu: 0, times }],
            scheduler: Some(Scheduler { running: 3.0, context_switches: 5000, ..Scheduler::default() }),
            tcp: Some(Tcp { retransmitted: 8, listen_drops: 2, ..Tcp::default() }),
            server: Some(server),
            ..Sample::default()
        };
        let mut table = Table::default();
        let text = table.line(&sample);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[0].split_whitespace().skip(1).take(6).collect::<Vec<_>>(),
            ["cpu%", "core%", "sirq%", "steal%", "run", "switch/s"]
        );
        assert_eq!(
            lines[1].split_whitespace().skip(1).collect::<Vec<_>>(),
            [
                "50.0", "50.0", "5.0", "0.0", "3", "2500", "0.0", "0.0", "4", "1", "nginx", "1.25", "95.0", "-", "77",
                "-"
            ]
        );
        let alone = Sample { server: None, ..sample.clone() };
        assert_eq!(table.line(&alone).lines().count(), 1, "one head serves many lines");
        let narrow = Table::new(Some(60)).line(&sample);
        assert_eq!(narrow.lines().count(), 6, "{narrow}");
        assert!(narrow.lines().all(|line| line.len() <= 60), "{narrow}");
        assert!(narrow.split_whitespace().eq(text.split_whitespace()), "{narrow}");
    }
}
