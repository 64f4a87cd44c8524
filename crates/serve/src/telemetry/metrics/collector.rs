//! The collector of the status document: it samples the counters once a second, keeps the daily
//! history, and fills in the document.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use thalweg_sys::Instant;

use super::document::{
    CURVE_S, CertificateFigures, Curve, DayFigures, HandshakesByVersion, LogFigures, LoopStatus, Mount, Now, Responses,
    State, Status, TlsFigures, TopFile, Total, WatchFigures,
};
use super::history::{DailyHistory, Day};
use crate::config::Level;
use crate::content::local::watch::WatchCounts;
use crate::content::tier::CacheTier;
use crate::telemetry::counters::{Published, Totals};
use crate::telemetry::downloads::{Popularity, Unique};
use crate::telemetry::log::ErrorLog;
use crate::telemetry::registry::{CertificateState, LoopCells, LoopFigures, MountCells, MountTotals, Registry};
use crate::telemetry::timestamp::rfc3339;

/// Seconds over which a rate is taken.
const RATE_S: usize = 10;

/// Files in the list of the most popular ones.
const TOP_FILES: usize = 20;

/// The interval at which the history is saved.
const SAVE_S: i64 = 60;

/// The collector of a server's figures.
pub(crate) struct Collector {
    registry: Arc<Registry>,
    published: Arc<[Published]>,
    is_draining: Box<dyn Fn() -> bool + Send>,
    error_log: ErrorLog,
    history: DailyHistory,
    state: Option<PathBuf>,
    saved_second: i64,
    started_second: i64,
    samples: VecDeque<Sample>,
}

/// The counters at a moment.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    requests: u64,
    bytes: u64,
}

/// The sources of figures.
pub(crate) struct Sources {
    pub(crate) registry: Arc<Registry>,
    pub(crate) published: Arc<[Published]>,
    pub(crate) is_draining: Box<dyn Fn() -> bool + Send>,
    pub(crate) error_log: ErrorLog,
    /// When the server has started, in seconds since 1970-01-01 UTC.
    pub(crate) started_second: i64,
}

impl Collector {
    /// The log for operators.
    pub(crate) fn error_log(&self) -> &ErrorLog {
        &self.error_log
    }

    /// A collector that goes on with the history of an earlier run, if one is kept.
    pub(crate) fn new(sources: Sources, state: Option<PathBuf>, second: i64) -> Self {
        let Sources { registry, published, is_draining, error_log, started_second } = sources;
        let history =
            state.as_deref().map_or_else(|| Ok(DailyHistory::default()), |path| DailyHistory::load(path, second));
        let mut state = state;
        let history = history.unwrap_or_else(|error| {
            // A file that cannot be read is not overwritten: the operator may want it.
            let path = state.take().unwrap_or_default();
            let advice = "daily figures start at zero and are not saved; repair or remove the file and restart";
            error_log.say(Level::Error, format_args!("cannot read the state {}: {error}; {advice}", path.display()));
            DailyHistory::default()
        });
        let samples = VecDeque::with_capacity(CURVE_S + 1);
        Self {
            registry,
            published,
            is_draining,
            error_log,
            history,
            state,
            saved_second: second,
            started_second,
            samples,
        }
    }

    /// Loads the history that another process has saved at its end. The growth since the start of
    /// this process is added at the next sample, since that file has nothing of it.
    pub(crate) fn reload_history(&mut self, second: i64) {
        // A file that cannot be read now is replaced: it could be read at the start.
        if let Some(Ok(history)) = self.state.as_deref().map(|path| DailyHistory::load(path, second)) {
            self.history = history;
        }
    }

    /// Samples the counters; to be called once a second.
    pub(crate) fn advance(&mut self, now: Instant, second: i64) {
        let totals = self.totals();
        if self.samples.len() > CURVE_S {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at: now, requests: totals.requests, bytes: totals.bytes });
        let mounts = self.registry.mounts();
        let totals_of_mounts: Vec<(&str, MountTotals)> =
            mounts.iter().map(|mount| (&*mount.label, mount.totals())).collect();
        let history = &mut self.history;
        let is_new_day = self.registry.with_statistics(|statistics| {
            history.advance(second, &totals_of_mounts, &named(&mounts, statistics.unique.iter()))
        });
        if is_new_day {
            self.registry.restart_statistics();
        }
        if is_new_day || second - self.saved_second >= SAVE_S {
            self.save(second);
        }
    }

    /// Saves the days, if they are kept.
    pub(crate) fn save(&mut self, second: i64) {
        self.saved_second = second;
        let Some(path) = &self.state else { return };
        let mounts = self.registry.mounts();
        // The file is written with the log thread held up, if at all, for the time of copying the
        // registers.
        let unique = self.registry.with_statistics(|statistics| statistics.unique.clone());
        if let Err(error) = self.history.save(path, &named(&mounts, unique.iter())) {
            self.error_log.say_once_a_minute(Level::Error, "state", || {
                format!("cannot save the state {}: {error}; check that its folder exists and has space", path.display())
            });
        }
    }

    /// The cache tier, if origins answer for any mount.
    pub(super) fn tier(&self) -> Option<Arc<dyn CacheTier>> {
        self.registry.tier()
    }

    /// Whether the server accepts connections.
    pub(crate) fn state(&self) -> State {
        if (self.is_draining)() { State::Draining } else { State::Serving }
    }

    /// All figures.
    pub(crate) fn status(&self, second: i64) -> Status {
        // Each counter is read once, so that the figures add up although requests go on.
        let of_loops: Vec<Totals> = self.published.iter().map(Published::totals).collect();
        let totals = sum(&of_loops);
        let loops = self.loops(&of_loops);
        let mounts = self.mounts();
        let today: u64 = mounts.iter().map(|mount| mount.downloads_now).sum();
        let [ok, moved, refused, failed] = totals.responses;
        let (requests_per_s, bytes_per_s) = self.rates();
        Status {
            schema: "thalweg.status/1",
            version: env!("CARGO_PKG_VERSION"),
            state: self.state(),
            time: rfc3339(second),
            second,
            started: rfc3339(self.started_second),
            uptime_s: (second - self.started_second).max(0),
            now: Now { downloads: today, connections: totals.open, requests_per_s, bytes_per_s },
            total: Total {
                connections: totals.accepted,
                turned_away: totals.refused,
                connections_denied: totals.denied,
                requests_denied: totals.requests_denied,
                requests_limited: totals.requests_limited,
                shed: totals.evicted,
                files_changed_while_sent: totals.files_changed_while_sent,
                requests: totals.requests,
                requests_http2: totals.requests_http2,
                responses: Responses { ok, moved, refused, failed },
                bytes: totals.bytes,
                downloads: mounts.iter().map(|mount| mount.downloads).sum(),
            },
            log: LogFigures {
                lines_written: self.registry.lines.written.load(Relaxed),
                lines_lost: self.registry.lines.lost.load(Relaxed),
                records_dropped: self.registry.loops.iter().map(|cells| cells.figures().records_dropped).sum(),
            },
            watch: self.watch(),
            certificate: self.registry.certificate().map(certificate_figures),
            disk_cache: self.registry.tier().map(|tier| tier.figures()),
            tls: self.registry.speaks_tls.load(Relaxed).then(|| tls_figures(&totals)),
            loops,
            mounts,
            days: self.history.latest_first().map(day_figures).collect(),
            top_files: self.top_files(),
            curve: self.curve(),
        }
    }

    fn watch(&self) -> WatchFigures {
        let WatchCounts { folders, events, overflows, refused } = &*self.registry.watch;
        let [folders, events, overflows, refused] =
            [folders, events, overflows, refused].map(|count| count.load(Relaxed));
        WatchFigures { folders, events, overflows, refused }
    }

    fn totals(&self) -> Totals {
        sum(&self.published.iter().map(Published::totals).collect::<Vec<_>>())
    }

    fn loops(&self, totals: &[Totals]) -> Vec<LoopStatus> {
        let loops = totals.iter().zip(&self.registry.loops).enumerate();
        let status = |(loop_index, (totals, cells)): (usize, (&Totals, &LoopCells))| {
            let Totals { open, requests, bytes, .. } = *totals;
            let LoopFigures { cache_misses, cache_entries, cache_bytes, .. } = cells.figures();
            LoopStatus { loop_index, connections: open, requests, bytes, cache_entries, cache_bytes, cache_misses }
        };
        loops.map(status).collect()
    }

    fn mounts(&self) -> Vec<Mount> {
        let today = self.history.today();
        let mount = |cells: &Arc<MountCells>| {
            let MountTotals { requests, bytes, downloads, under_way } = cells.totals();
            Mount {
                mount: cells.label.to_string(),
                downloads_now: under_way,
                requests,
                downloads,
                bytes,
                today: today.and_then(|day| day.mounts.get(&*cells.label)).copied().unwrap_or_default(),
            }
        };
        self.registry.mounts().iter().map(mount).collect()
    }

    fn top_files(&self) -> Vec<TopFile> {
        let labels = self.registry.mount_labels();
        self.registry.with_statistics(|statistics| {
            let file = |(mount, name, popularity): (u16, &[u8], Popularity)| TopFile {
                mount: labels.get(usize::from(mount)).map(ToString::to_string).unwrap_or_default(),
                file: String::from_utf8_lossy(name).into_owned(),
                downloads: popularity.downloads,
                bytes: popularity.bytes,
            };
            statistics.top_files(TOP_FILES).into_iter().map(file).collect()
        })
    }

    /// Requests and bytes per second, lately.
    fn rates(&self) -> (f64, f64) {
        let first = self.samples.iter().rev().take(RATE_S + 1).next_back();
        first.zip(self.samples.back()).map_or((0.0, 0.0), |(first, last)| between(first, last))
    }

    fn curve(&self) -> Curve {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let (requests_per_s, bytes_per_s) = pairs.map(|(first, last)| between(first, last)).unzip();
        Curve { requests_per_s, bytes_per_s }
    }
}

fn sum(of_loops: &[Totals]) -> Totals {
    let mut sum = Totals::default();
    of_loops.iter().for_each(|totals| sum.add(totals));
    sum
}

/// Requests and bytes per second from one sample to another, to a tenth.
fn between(first: &Sample, last: &Sample) -> (f64, f64) {
    let seconds = (last.at - first.at).as_secs_f64();
    let rate = |first: u64, last: u64| {
        if seconds > 0.0 { (last.saturating_sub(first) as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 }
    };
    (rate(first.requests, last.requests), rate(first.bytes, last.bytes))
}

/// By the mounts' labels instead of their numbers.
fn named<'a>(
    mounts: &'a [Arc<MountCells>],
    unique: impl Iterator<Item = (&'a u16, &'a Unique)>,
) -> Vec<(&'a str, &'a Unique)> {
    let label = |number: u16| mounts.get(usize::from(number)).map(|mount| &*mount.label);
    unique.filter_map(|(number, unique)| Some((label(*number)?, unique))).collect()
}

fn tls_figures(totals: &Totals) -> TlsFigures {
    TlsFigures {
        handshakes: HandshakesByVersion { tls12: totals.handshakes_tls12, tls13: totals.handshakes_tls13 },
        resumed: totals.handshakes_resumed,
        failed: totals.handshakes_failed,
        shed: totals.handshakes_shed,
    }
}

fn certificate_figures(CertificateState { expires_second, failure }: CertificateState) -> CertificateFigures {
    CertificateFigures { expires: expires_second.map(rfc3339), expires_second, failure }
}

fn day_figures(day: &Day) -> DayFigures {
    DayFigures { day: day.date(), downloads_peak: day.downloads_peak, total: day.total(), mounts: day.mounts.clone() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::config::ServerConfig;

    /// The collector of a server of two loops, and its sources.
    pub(crate) fn collector() -> (Collector, Arc<Registry>, Arc<[Published]>) {
        let registry = Arc::new(Registry::new(2, true));
        let published: Arc<[Published]> = (0..2).map(|_| Published::default()).collect();
        let (to, _) = mpsc::sync_channel(1);
        let sources = Sources {
            registry: Arc::clone(&registry),
            published: Arc::clone(&published),
            is_draining: Box::new(|| false),
            error_log: ErrorLog::new(to, Level::Error),
            started_second: 1_000_000,
        };
        (Collector::new(sources, None, 1_000_000), registry, published)
    }

    #[test]
    fn loops_are_added_up_and_rates_are_of_the_last_seconds() {
        let (mut collector, registry, published) = collector();
        let mounts = registry.adopt(&ServerConfig::new("/srv", Vec::<std::net::SocketAddr>::new()));
        for second in 0..30 {
            for (loop_index, cells) in published.iter().enumerate() {
                let requests = second * 100;
                let totals = Totals {
                    requests,
                    bytes: requests * 1000,
                    open: 5,
                    responses: [1, 2, 3, 4],
                    accepted: 9,
                    files_changed_while_sent: 1,
                    ..Totals::default()
                };
                cells.publish(&totals);
                let totals = MountTotals { requests, bytes: requests * 1000, downloads: requests / 2, under_way: 3 };
                mounts[0].of_loop(loop_index).publish(&totals);
                let records_dropped = 7;
                registry.loops[loop_index].publish(&LoopFigures {
                    records_dropped,
                    cache_entries: 4,
                    ..LoopFigures::default()
                });
            }
            collector.advance(Instant::from_ns(second * 1_000_000_000), 1_000_000 + second as i64);
        }
        let status = collector.status(1_000_030);
        assert_eq!(status.now, Now { downloads: 6, connections: 10, requests_per_s: 200.0, bytes_per_s: 200_000.0 });
        assert_eq!((status.total.requests, status.total.downloads, status.total.connections), (5800, 2900, 18));
        assert_eq!(status.total.files_changed_while_sent, 2);
        assert_eq!(status.log.records_dropped, 14);
        assert_eq!((status.uptime_s, &*status.started, status.state), (30, "1970-01-12T13:46:40Z", State::Serving));
        assert_eq!(status.mounts[0].today.downloads, 2900);
        assert_eq!((status.days[0].total.requests, status.days[0].downloads_peak), (5800, 6));
        assert_eq!(status.curve.requests_per_s, [200.0; 29]);
        assert_eq!(status.loops[1].cache_entries, 4);
        collector.is_draining = Box::new(|| true);
        assert_eq!(collector.state(), State::Draining);
    }

    #[test]
    fn the_document_is_what_the_manual_says() {
        let (mut collector, ..) = collector();
        collector.advance(Instant::from_ns(1), 1_000_000);
        let document = serde_json::to_value(collector.status(1_000_000)).unwrap();
        assert_eq!(document["schema"], "thalweg.status/1");
        assert_eq!(document["state"], "serving");
        assert_eq!(document["total"]["responses"]["2xx"], 0);
        assert_eq!(document["days"][0]["day"], "1970-01-12");
        assert_eq!(document["days"][0]["unique_files"], 0);
    }
}
