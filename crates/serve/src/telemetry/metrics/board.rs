//! All figures at one moment: what the page, the JSON and the metrics are written from.
//!
//! Totals are since the start, days are of UTC, rates are over the last ten seconds.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;
use thalweg_sys::Instant;

use super::days::{Day, Days};
use super::register::{LoopFigures, Observed, Tally, WatchCounts};
use super::unique::Unique;
use crate::config::Level;
use crate::server::shutdown::ShutdownDeadline;
use crate::telemetry::counters::{Published, Totals};
use crate::telemetry::log::{ErrorLog, rfc3339};

/// How many seconds the curves go back, and over how many a rate is taken.
pub(crate) const CURVE_S: usize = 120;
const RATE_S: usize = 10;

/// How many files are named.
const TOP_FILES: usize = 20;

/// How often the days are saved.
const SAVE_S: i64 = 60;

/// What the status listener knows.
pub(crate) struct Board {
    observed: Arc<Observed>,
    published: Arc<[Published]>,
    shutdown: Arc<ShutdownDeadline>,
    error_log: ErrorLog,
    days: Days,
    state: Option<PathBuf>,
    saved_second: i64,
    started_second: i64,
    samples: VecDeque<Sample>,
}

/// What the counters said at a moment.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    requests: u64,
    bytes: u64,
}

/// All figures at one moment; also the JSON document `thalweg.status/1`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) schema: &'static str,
    pub(crate) version: &'static str,
    pub(crate) state: State,
    pub(crate) time: String,
    pub(crate) started: String,
    pub(crate) uptime_s: i64,
    pub(crate) now: Now,
    pub(crate) total: Total,
    pub(crate) log: LogFigures,
    pub(crate) watch: WatchFigures,
    #[serde(rename = "cores")]
    pub(crate) loops: Vec<LoopStatus>,
    pub(crate) mounts: Vec<Mount>,
    /// The latest first.
    pub(crate) days: Vec<DayFigures>,
    /// Today's.
    pub(crate) top_files: Vec<TopFile>,
    /// For each of the last seconds, the latest last.
    pub(crate) curve: Curve,
}

/// What the server is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Serving,
    /// No more connections are accepted; those that are open come to their end.
    Draining,
}

/// What is so at this moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Now {
    pub(crate) downloads: u64,
    pub(crate) connections: u64,
    pub(crate) requests_per_s: f64,
    pub(crate) bytes_per_s: f64,
}

/// What was done since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Total {
    pub(crate) connections: u64,
    /// Connections that were told that there is no room for them.
    pub(crate) turned_away: u64,
    /// Idle connections that were closed to make room.
    pub(crate) shed: u64,
    /// Responses that were cut off by a reset, because their file had changed while it was sent.
    pub(crate) files_changed_while_sent: u64,
    pub(crate) requests: u64,
    pub(crate) responses: Responses,
    pub(crate) bytes: u64,
    pub(crate) downloads: u64,
}

/// Responses by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Responses {
    #[serde(rename = "2xx")]
    pub(crate) ok: u64,
    #[serde(rename = "3xx")]
    pub(crate) moved: u64,
    #[serde(rename = "4xx")]
    pub(crate) refused: u64,
    #[serde(rename = "5xx")]
    pub(crate) failed: u64,
}

/// What became of records and lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct LogFigures {
    pub(crate) lines_written: u64,
    pub(crate) lines_lost: u64,
    pub(crate) records_dropped: u64,
}

/// What is heard of changes in folders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct WatchFigures {
    /// Watched now.
    pub(crate) folders: u64,
    pub(crate) events: u64,
    /// How often there was no room for events, and everything was looked at again.
    pub(crate) overflows: u64,
    /// How often the kernel would not watch a folder.
    pub(crate) refused: u64,
}

/// One loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct LoopStatus {
    #[serde(rename = "core")]
    pub(crate) loop_index: usize,
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) cache_entries: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) cache_misses: u64,
}

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Mount {
    pub(crate) mount: String,
    pub(crate) downloads_now: u64,
    pub(crate) requests: u64,
    pub(crate) downloads: u64,
    pub(crate) bytes: u64,
    pub(crate) today: super::days::Figures,
}

/// One day, all mounts together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct DayFigures {
    pub(crate) day: String,
    pub(crate) downloads_peak: u64,
    #[serde(flatten)]
    pub(crate) total: super::days::Figures,
    pub(crate) mounts: BTreeMap<String, super::days::Figures>,
}

/// A file that many want.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct TopFile {
    pub(crate) file: String,
    pub(crate) downloads: u64,
    pub(crate) bytes: u64,
}

/// The last seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Curve {
    pub(crate) requests_per_s: Vec<f64>,
    pub(crate) bytes_per_s: Vec<f64>,
}

/// What a board looks at.
pub(crate) struct Sources {
    pub(crate) observed: Arc<Observed>,
    pub(crate) published: Arc<[Published]>,
    pub(crate) shutdown: Arc<ShutdownDeadline>,
    pub(crate) error_log: ErrorLog,
    /// When the server has started, in seconds since 1970-01-01 UTC.
    pub(crate) started_second: i64,
}

impl Board {
    /// A board that goes on with the days of an earlier run, if they are kept.
    pub(crate) fn new(sources: Sources, state: Option<PathBuf>, second: i64) -> Self {
        let Sources { observed, published, shutdown, error_log, started_second } = sources;
        let days = state.as_deref().map_or_else(|| Ok(Days::default()), |path| Days::load(path, second));
        let mut state = state;
        let days = days.unwrap_or_else(|error| {
            // What cannot be read is not overwritten: somebody may want it.
            let path = state.take().unwrap_or_default();
            let advice = "the days begin anew and are not kept; mend or remove the file and start again";
            error_log.say(Level::Error, format_args!("cannot read the state {}: {error}; {advice}", path.display()));
            Days::default()
        });
        let samples = VecDeque::with_capacity(CURVE_S + 1);
        Self { observed, published, shutdown, error_log, days, state, saved_second: second, started_second, samples }
    }

    /// Goes on with the days that another process has left when it stopped: what this one has counted since its start is added at the
    /// next look, since nothing of it stands in that file.
    pub(crate) fn take_over_days(&mut self, second: i64) {
        // What cannot be read now is replaced: it could be read at the start.
        if let Some(Ok(days)) = self.state.as_deref().map(|path| Days::load(path, second)) {
            self.days = days;
        }
    }

    /// What is to be done once a second.
    pub(crate) fn advance(&mut self, now: Instant, second: i64) {
        let totals = self.totals();
        if self.samples.len() > CURVE_S {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at: now, requests: totals.requests, bytes: totals.bytes });
        let mounts = self.observed.mounts();
        let tallies: Vec<(&str, Tally)> = mounts.iter().map(|mount| (&*mount.label, mount.tally())).collect();
        let days = &mut self.days;
        let is_new_day =
            self.observed.with_stream(|stream| days.advance(second, &tallies, &named(&mounts, stream.unique.iter())));
        if is_new_day {
            self.observed.forget();
        }
        if is_new_day || second - self.saved_second >= SAVE_S {
            self.save(second);
        }
    }

    /// Saves the days, if they are kept.
    pub(crate) fn save(&mut self, second: i64) {
        self.saved_second = second;
        let Some(path) = &self.state else { return };
        let mounts = self.observed.mounts();
        // The file is written with the log thread held up, if at all, for the time of copying the registers.
        let unique = self.observed.with_stream(|stream| stream.unique.clone());
        if let Err(error) = self.days.save(path, &named(&mounts, unique.iter())) {
            self.error_log.say_once_a_minute(Level::Error, "state", || {
                format!("cannot save the state {}: {error}; see that its folder exists and has room", path.display())
            });
        }
    }

    /// What the server is doing.
    pub(crate) fn state(&self) -> State {
        if self.shutdown.is_set() { State::Draining } else { State::Serving }
    }

    /// All figures.
    pub(crate) fn status(&self, second: i64) -> Status {
        let totals = self.totals();
        let loops = self.loops();
        let mounts = self.mounts();
        let today: u64 = mounts.iter().map(|mount| mount.downloads_now).sum();
        let [ok, moved, refused, failed] = totals.responses;
        let (requests_per_s, bytes_per_s) = self.rates();
        Status {
            schema: "thalweg.status/1",
            version: env!("CARGO_PKG_VERSION"),
            state: self.state(),
            time: rfc3339(second),
            started: rfc3339(self.started_second),
            uptime_s: (second - self.started_second).max(0),
            now: Now { downloads: today, connections: totals.open, requests_per_s, bytes_per_s },
            total: Total {
                connections: totals.accepted,
                turned_away: totals.turned_away,
                shed: totals.shed,
                files_changed_while_sent: totals.files_changed_while_sent,
                requests: totals.requests,
                responses: Responses { ok, moved, refused, failed },
                bytes: totals.bytes,
                downloads: mounts.iter().map(|mount| mount.downloads).sum(),
            },
            log: LogFigures {
                lines_written: self.observed.lines.written.load(Relaxed),
                lines_lost: self.observed.lines.lost.load(Relaxed),
                records_dropped: self.observed.loops.iter().map(|cells| cells.figures().records_dropped).sum(),
            },
            watch: self.watch(),
            loops,
            mounts,
            days: self.days.latest_first().map(day_figures).collect(),
            top_files: self.top_files(),
            curve: self.curve(),
        }
    }

    fn watch(&self) -> WatchFigures {
        let WatchCounts { folders, events, overflows, refused } = &self.observed.watch;
        let [folders, events, overflows, refused] =
            [folders, events, overflows, refused].map(|count| count.load(Relaxed));
        WatchFigures { folders, events, overflows, refused }
    }

    fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        self.published.iter().for_each(|of_loop| sum.add(&of_loop.totals()));
        sum
    }

    fn loops(&self) -> Vec<LoopStatus> {
        let loops = self.published.iter().zip(&self.observed.loops).enumerate();
        let status = |(loop_index, (published, cells)): (usize, (&Published, &super::register::LoopCells))| {
            let Totals { open, requests, bytes, .. } = published.totals();
            let LoopFigures { cache_misses, cache_entries, cache_bytes, .. } = cells.figures();
            LoopStatus { loop_index, connections: open, requests, bytes, cache_entries, cache_bytes, cache_misses }
        };
        loops.map(status).collect()
    }

    fn mounts(&self) -> Vec<Mount> {
        let today = self.days.today();
        let mount = |cells: &Arc<super::MountCells>| {
            let Tally { requests, bytes, downloads, under_way } = cells.tally();
            Mount {
                mount: cells.label.to_string(),
                downloads_now: under_way,
                requests,
                downloads,
                bytes,
                today: today.and_then(|day| day.mounts.get(&*cells.label)).copied().unwrap_or_default(),
            }
        };
        self.observed.mounts().iter().map(mount).collect()
    }

    fn top_files(&self) -> Vec<TopFile> {
        self.observed.with_stream(|stream| {
            let file = |(name, popularity): (&[u8], super::popular::Popularity)| TopFile {
                file: String::from_utf8_lossy(name).into_owned(),
                downloads: popularity.downloads,
                bytes: popularity.bytes,
            };
            stream.popular.top(TOP_FILES).into_iter().map(file).collect()
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
    mounts: &'a [Arc<super::MountCells>],
    unique: impl Iterator<Item = (&'a u16, &'a Unique)>,
) -> Vec<(&'a str, &'a Unique)> {
    let label = |number: u16| mounts.get(usize::from(number)).map(|mount| &*mount.label);
    unique.filter_map(|(number, unique)| Some((label(*number)?, unique))).collect()
}

fn day_figures(day: &Day) -> DayFigures {
    DayFigures { day: day.date(), downloads_peak: day.downloads_peak, total: day.total(), mounts: day.mounts.clone() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::config::ServerConfig;

    /// The board of a server of two loops, and what it looks at.
    pub(crate) fn board() -> (Board, Arc<Observed>, Arc<[Published]>) {
        let observed = Arc::new(Observed::new(2, true));
        let published: Arc<[Published]> = (0..2).map(|_| Published::default()).collect();
        let (to, _) = mpsc::sync_channel(1);
        let sources = Sources {
            observed: Arc::clone(&observed),
            published: Arc::clone(&published),
            shutdown: Arc::new(ShutdownDeadline::new()),
            error_log: ErrorLog::new(to, Level::Error),
            started_second: 1_000_000,
        };
        (Board::new(sources, None, 1_000_000), observed, published)
    }

    #[test]
    fn loops_are_added_up_and_rates_are_of_the_last_seconds() {
        let (mut board, observed, published) = board();
        let mounts = observed.adopt(&ServerConfig::new("/srv", Vec::<std::net::SocketAddr>::new()));
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
                let tally = Tally { requests, bytes: requests * 1000, downloads: requests / 2, under_way: 3 };
                mounts[0].of_loop(loop_index).publish(&tally);
                let records_dropped = 7;
                observed.loops[loop_index].publish(&LoopFigures {
                    records_dropped,
                    cache_entries: 4,
                    ..LoopFigures::default()
                });
            }
            board.advance(Instant::from_ns(second * 1_000_000_000), 1_000_000 + second as i64);
        }
        let status = board.status(1_000_030);
        assert_eq!(status.now, Now { downloads: 6, connections: 10, requests_per_s: 200.0, bytes_per_s: 200_000.0 });
        assert_eq!((status.total.requests, status.total.downloads, status.total.connections), (5800, 2900, 18));
        assert_eq!(status.total.files_changed_while_sent, 2);
        assert_eq!(status.log.records_dropped, 14);
        assert_eq!((status.uptime_s, &*status.started, status.state), (30, "1970-01-12T13:46:40Z", State::Serving));
        assert_eq!(status.mounts[0].today.downloads, 2900);
        assert_eq!((status.days[0].total.requests, status.days[0].downloads_peak), (5800, 6));
        assert_eq!(status.curve.requests_per_s, [200.0; 29]);
        assert_eq!(status.loops[1].cache_entries, 4);
        board.shutdown.set(Instant::from_ns(5));
        assert_eq!(board.state(), State::Draining);
    }

    #[test]
    fn the_document_is_what_the_manual_says() {
        let (mut board, ..) = board();
        board.advance(Instant::from_ns(1), 1_000_000);
        let document = serde_json::to_value(board.status(1_000_000)).unwrap();
        assert_eq!(document["schema"], "thalweg.status/1");
        assert_eq!(document["state"], "serving");
        assert_eq!(document["total"]["responses"]["2xx"], 0);
        assert_eq!(document["days"][0]["day"], "1970-01-12");
        assert_eq!(document["days"][0]["unique_files"], 0);
    }
}
