//! The course of an observation: samples in columns, bounded in number.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sample::{Figures, Sample};

/// Samples that an observation keeps; of a longer one neighbours are joined.
pub const SAMPLES_MAX: usize = 3600;

/// The course of an observation in columns, which take less room than samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// The end of each interval, in seconds from an origin of the caller's choice.
    pub t: Vec<f64>,
    /// The length of each interval in seconds.
    pub seconds: Vec<f64>,
    /// Columns by name, such as `cpu.user` or `net.eth0.rx_bytes`, each as long as `t`; `null`
    /// where a sample has no such figure. Counters are per second, shares are 0 to 1.
    pub columns: BTreeMap<String, Vec<Option<f64>>>,
}

/// CPUs and disks beyond these numbers get no columns of their own.
const CPU_COLUMNS_MAX: usize = 64;
const DEVICE_COLUMNS_MAX: usize = 8;

impl Series {
    /// Puts samples into columns; `origin_s` is the time (of the observer's clock) that `t` counts
    /// from. Columns in which nothing ever happened are left out.
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>, origin_s: f64) -> Self {
        let mut series = Self::default();
        for sample in samples {
            series.push(sample, origin_s);
        }
        let rows = series.t.len();
        series.columns.values_mut().for_each(|column| column.resize(rows, None));
        series.columns.retain(|_, column| column.iter().flatten().any(|value| *value != 0.0));
        series
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&[Option<f64>]> {
        self.columns.get(name).map(Vec::as_slice)
    }

    fn push(&mut self, sample: &Sample, origin_s: f64) {
        let row = self.t.len();
        self.t.push(round((sample.unix_s - origin_s) * 1e3) / 1e3);
        self.seconds.push(round(sample.seconds * 1e3) / 1e3);
        columns_of(sample, &mut |name, value| {
            let column = self.columns.entry(name).or_default();
            column.resize(row, None);
            column.push(Some(significant(value)));
        });
    }
}

/// Every figure of a sample by the name of its column.
pub fn columns_of(sample: &Sample, column: &mut dyn FnMut(String, f64)) {
    let seconds = sample.seconds.max(1e-9);
    let all = sample.all_cpus();
    if all.total_ms() > 0 {
        let kinds = [
            ("user", all.user_ms),
            ("nice", all.nice_ms),
            ("system", all.system_ms),
            ("irq", all.irq_ms),
            ("softirq", all.softirq_ms),
            ("steal", all.steal_ms),
            ("iowait", all.iowait_ms),
        ];
        kinds.iter().for_each(|(kind, ms)| column(format!("cpu.{kind}"), all.share(*ms)));
    }
    for cpu in sample.cpus.iter().take(CPU_COLUMNS_MAX) {
        column(format!("cpu{}.busy", cpu.cpu), cpu.times.busy_share());
        column(format!("cpu{}.softirq", cpu.cpu), cpu.times.share(cpu.times.softirq_ms));
        column(format!("cpu{}.run_queue_wait", cpu.cpu), cpu.times.run_queue_wait_us as f64 / 1e6 / seconds);
    }
    let mut group = |prefix: &str, figures: Option<&dyn Columns>| {
        if let Some(figures) = figures {
            figures.pass(seconds, &mut |name, value| column(format!("{prefix}.{name}"), value));
        }
    };
    group("scheduler", sample.scheduler.as_ref().map(|figures| figures as _));
    group("pressure.cpu", sample.pressure.cpu.as_ref().map(|figures| figures as _));
    group("pressure.memory", sample.pressure.memory.as_ref().map(|figures| figures as _));
    group("pressure.io", sample.pressure.io.as_ref().map(|figures| figures as _));
    group("memory", sample.memory.as_ref().map(|figures| figures as _));
    group("sockets", sample.sockets.as_ref().map(|figures| figures as _));
    group("tcp", sample.tcp.as_ref().map(|figures| figures as _));
    for disk in sample.disks.iter().take(DEVICE_COLUMNS_MAX) {
        group(&format!("disk.{}", disk.name), Some(&disk.figures));
    }
    for interface in sample.interfaces.iter().take(DEVICE_COLUMNS_MAX) {
        group(&format!("net.{}", interface.name), Some(&interface.figures));
    }
    if let Some(server) = &sample.server {
        group("server", Some(&server.figures));
        group("server.threads", server.scheduling.as_ref().map(|figures| figures as _));
        group("server.connections", server.connections.as_ref().map(|figures| figures as _));
        group("server.group", server.group.as_ref().map(|group| &group.figures as _));
        column("server.descriptor_use".to_owned(), server.descriptor_use);
        let waiting: u32 = server.listeners.iter().map(|listener| listener.waiting).sum();
        column("server.accept_queue".to_owned(), f64::from(waiting));
        if let Some(busiest) = server.busiest.first() {
            column("server.busiest_thread".to_owned(), busiest.cpu_us as f64 / 1e6 / seconds);
        }
        let futex_waits: Option<u64> = server.busiest.iter().map(|thread| thread.futex_waits).sum();
        if let Some(waits) = futex_waits.filter(|_| !server.busiest.is_empty()) {
            column("server.futex_waits".to_owned(), waits as f64 / seconds);
        }
    }
    column("observer.cpu".to_owned(), sample.cost_us as f64 / 1e6 / seconds);
}

/// Any group of figures.
trait Columns {
    fn pass(&self, seconds: f64, column: &mut dyn FnMut(&'static str, f64));
}

impl<T: Figures> Columns for T {
    fn pass(&self, seconds: f64, column: &mut dyn FnMut(&'static str, f64)) {
        self.columns(seconds, column);
    }
}

/// Joins neighbours until there are at most [`SAMPLES_MAX`].
pub fn bounded(mut samples: Vec<Sample>) -> Vec<Sample> {
    while samples.len() > SAMPLES_MAX {
        samples = samples.chunks(2).filter_map(Sample::joined_all).collect();
    }
    samples
}

fn round(value: f64) -> f64 {
    value.round()
}

/// The value in four significant digits.
fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if scale <= 1.0 { rounded.round() } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Cpu, CpuTimes, Memory, Tcp};

    fn sample(number: u64, seconds: f64, user_ms: u64, overflows: u64, dirty: f64) -> Sample {
        let times = CpuTimes { user_ms, idle_ms: (seconds * 1e3) as u64 - user_ms, ..CpuTimes::default() };
        Sample {
            number,
            unix_s: 100.0 + number as f64,
            seconds,
            cpus: vec![Cpu { cpu: 0, times }],
            tcp: Some(Tcp { listen_overflows: overflows, ..Tcp::default() }),
            memory: Some(Memory { dirty_kib: dirty, ..Memory::default() }),
            ..Sample::default()
        }
    }

    #[test]
    fn joined_intervals_add_counters_and_average_gauges_by_length() {
        let both = Sample::joined_all(&[sample(1, 1.0, 200, 3, 40.0), sample(2, 3.0, 1800, 5, 80.0)]).unwrap();
        assert_eq!((both.number, both.seconds, both.begin_s()), (2, 4.0, 98.0));
        assert_eq!(both.cpus[0].times.busy_share(), 0.5);
        assert_eq!((both.tcp.unwrap().listen_overflows, both.memory.unwrap().dirty_kib), (8, 70.0));
        assert_eq!(Sample::joined_all(&[]), None);
    }

    #[test]
    fn series_hold_rates_and_leave_out_columns_of_zeros() {
        let samples = [sample(1, 1.0, 250, 0, 0.0), sample(2, 2.0, 500, 9, 0.0)];
        let series = Series::of(&samples, 100.0);
        assert_eq!((series.t.as_slice(), series.seconds.as_slice()), (&[1.0, 2.0][..], &[1.0, 2.0][..]));
        assert_eq!(series.column("cpu.user"), Some(&[Some(0.25), Some(0.25)][..]));
        assert_eq!(series.column("tcp.listen_overflows"), Some(&[Some(0.0), Some(4.5)][..]));
        assert_eq!(series.column("memory.dirty_kib"), None);
    }

    #[test]
    fn a_figure_that_comes_or_goes_leaves_gaps() {
        let mut samples = vec![sample(1, 1.0, 1, 1, 0.0); 3];
        samples[0].tcp = None;
        samples[2].tcp = None;
        let series = Series::of(&samples, 0.0);
        assert_eq!(series.column("tcp.listen_overflows"), Some(&[None, Some(1.0), None][..]));
    }

    #[test]
    fn long_observations_are_joined_to_a_bound() {
        let samples: Vec<Sample> = (1..=SAMPLES_MAX as u64 + 1).map(|number| sample(number, 1.0, 1, 1, 0.0)).collect();
        let kept = bounded(samples);
        assert_eq!((kept.len(), kept[0].seconds), (SAMPLES_MAX / 2 + 1, 2.0));
        let overflows: u64 = kept.iter().map(|sample| sample.tcp.unwrap().listen_overflows).sum();
        assert_eq!(overflows, SAMPLES_MAX as u64 + 1, "nothing is lost");
    }

    #[test]
    fn values_are_rounded_to_four_digits() {
        let rounded = [0.123_456, 98_765_432.1, -0.000_123_44, 0.0, f64::NAN].map(significant);
        assert_eq!(rounded, [0.1235, 98_770_000.0, -0.000_123_4, 0.0, 0.0]);
    }
}
