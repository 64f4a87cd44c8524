//! Figures of the last days, per mount, and the file in which they survive a restart.
//!
//! Days are in UTC. The figures are the growth of counters that only grow, looked at once a second,
//! so the day that a byte is booked on is right within a second.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::telemetry::downloads::Unique;
use crate::telemetry::registry::MountTotals;
use crate::telemetry::timestamp::rfc3339;

/// Days that are kept, today included.
pub(crate) const DAYS_MAX: usize = 30;

/// Most mounts that are read from a file: more than any configuration has, few enough to bound
/// memory.
const MOUNTS_MAX: usize = 10_000;

/// Larger files are not ours.
const FILE_BYTES_MAX: u64 = 64 << 20;

const DAY_S: i64 = 86_400;
const SCHEMA: &str = "thalweg.days/1";

/// The figures of a mount on a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) downloads: u64,
    /// Different files that were downloaded, about.
    pub(crate) unique_files: u64,
}

/// A day.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Day {
    /// DailyHistory since 1970-01-01.
    pub(crate) number: i64,
    /// Most downloads under way at once.
    pub(crate) downloads_peak: u64,
    /// By the mounts' labels.
    pub(crate) mounts: BTreeMap<String, Figures>,
    /// Of all mounts together; a name in two mounts counts twice.
    pub(crate) unique_files: u64,
}

/// The last days.
#[derive(Debug, Default)]
pub(crate) struct DailyHistory {
    /// The oldest first; today is the last.
    days: VecDeque<Day>,
    /// The counters at the last sample.
    seen: BTreeMap<String, MountTotals>,
    /// Today's files, by the mounts' labels; those before a restart only.
    unique_before: BTreeMap<String, Unique>,
}

impl Day {
    /// All mounts together.
    pub(crate) fn total(&self) -> Figures {
        let mut total = Figures { unique_files: self.unique_files, ..Figures::default() };
        for figures in self.mounts.values() {
            total.requests += figures.requests;
            total.bytes += figures.bytes;
            total.downloads += figures.downloads;
        }
        total
    }

    /// The date, such as 2000-10-10.
    pub(crate) fn date(&self) -> String {
        rfc3339(self.number.saturating_mul(DAY_S))[..10].to_owned()
    }
}

impl DailyHistory {
    /// Adds the growth of counters. `unique` has today's files by label. Whether a new day has
    /// begun, which the next call must bring no files of the old one for.
    pub(crate) fn advance(&mut self, second: i64, mounts: &[(&str, MountTotals)], unique: &[(&str, &Unique)]) -> bool {
        let number = second.div_euclid(DAY_S);
        if self.days.is_empty() {
            self.days.push_back(Day { number, ..Day::default() });
        }
        let under_way: u64 = mounts.iter().map(|(_, totals)| totals.under_way).sum();
        let today = self.days.back_mut().expect("there is a day");
        today.downloads_peak = today.downloads_peak.max(under_way);
        for &(label, totals) in mounts {
            let seen = self.seen.entry(label.to_owned()).or_default();
            let figures = today.mounts.entry(label.to_owned()).or_default();
            figures.requests += totals.requests.saturating_sub(seen.requests);
            figures.bytes += totals.bytes.saturating_sub(seen.bytes);
            figures.downloads += totals.downloads.saturating_sub(seen.downloads);
            *seen = totals;
        }
        today.unique_files = 0;
        for (label, figures) in &mut today.mounts {
            let now = unique.iter().find(|(of, _)| of == label).map(|(_, unique)| *unique);
            figures.unique_files = match (now, self.unique_before.get(label)) {
                (Some(now), Some(before)) => {
                    let mut both = now.clone();
                    both.merge(before);
                    both.estimate()
                }
                (Some(only), None) | (None, Some(only)) => only.estimate(),
                (None, None) => 0,
            };
            today.unique_files += figures.unique_files;
        }
        // A clock that was set back stays on its day until it has caught up.
        if number <= today.number {
            return false;
        }
        self.unique_before.clear();
        self.days.push_back(Day { number, downloads_peak: under_way, ..Day::default() });
        while self.days.len() > DAYS_MAX || self.days.front().is_some_and(|day| day.number <= number - DAYS_MAX as i64)
        {
            self.days.pop_front();
        }
        true
    }

    /// Today; `None` before the first look.
    pub(crate) fn today(&self) -> Option<&Day> {
        self.days.back()
    }

    /// The days, today first.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = &Day> {
        self.days.iter().rev()
    }

    /// Reads the history that another run has saved; an empty one if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is none of ours.
    pub(crate) fn load(path: &Path, second: i64) -> io::Result<Self> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, FILE_BYTES_MAX + 1), &mut text)?;
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(wrong("the file is too large to be a state file"));
        }
        let kept: StoredHistory = serde_json::from_slice(&text)?;
        if kept.schema != SCHEMA {
            return Err(wrong("the file is not of the schema thalweg.days/1"));
        }
        Ok(kept.into_days(second.div_euclid(DAY_S)))
    }

    /// Saves the history for another run: the file is the old one, or the whole new one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(&self, path: &Path, unique: &[(&str, &Unique)]) -> io::Result<()> {
        let mut registers = self.unique_before.clone();
        for (label, unique) in unique {
            registers.entry((*label).to_owned()).or_default().merge(unique);
        }
        let kept = StoredHistory {
            schema: SCHEMA.to_owned(),
            days: self.days.iter().map(StoredDay::of).collect(),
            unique_today: registers
                .iter()
                .map(|(label, unique)| (label.clone(), BASE64_STANDARD.encode(unique.registers())))
                .collect(),
        };
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    }
}

/// The history as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredHistory {
    schema: String,
    days: Vec<StoredDay>,
    /// Registers of the last day's files, in base64.
    unique_today: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct StoredDay {
    /// DailyHistory since 1970-01-01.
    day: i64,
    downloads_peak: u64,
    unique_files: u64,
    mounts: BTreeMap<String, Figures>,
}

impl StoredDay {
    fn of(day: &Day) -> Self {
        let Day { number, downloads_peak, mounts, unique_files } = day.clone();
        Self { day: number, downloads_peak, unique_files, mounts }
    }
}

impl StoredHistory {
    /// The days up to `today`. What a hand has put into the file is made to fit.
    fn into_days(mut self, today: i64) -> DailyHistory {
        self.days.retain(|day| day.day <= today && day.day > today - DAYS_MAX as i64);
        self.days.sort_by_key(|day| day.day);
        self.days.dedup_by_key(|day| day.day);
        let is_todays = self.days.last().is_some_and(|day| day.day == today);
        let day = |StoredDay { day, downloads_peak, unique_files, mut mounts }: StoredDay| {
            while mounts.len() > MOUNTS_MAX {
                mounts.pop_last();
            }
            Day { number: day, downloads_peak, mounts, unique_files }
        };
        let registers = |text: String| BASE64_STANDARD.decode(text).ok().and_then(Unique::from_registers);
        let unique = self.unique_today.into_iter().filter(|_| is_todays).take(MOUNTS_MAX);
        let mut days: VecDeque<Day> = self.days.into_iter().map(day).collect();
        if !is_todays {
            days.push_back(Day { number: today, ..Day::default() });
        }
        DailyHistory {
            days,
            seen: BTreeMap::new(),
            unique_before: unique.filter_map(|(label, text)| Some((label, registers(text)?))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 100 * DAY_S + DAY_S / 2;

    fn totals(n: u64) -> MountTotals {
        MountTotals { requests: 10 * n, bytes: 1000 * n, downloads: n, under_way: n % 7 }
    }

    fn unique(names: &[&str]) -> Unique {
        let mut unique = Unique::default();
        names.iter().for_each(|name| unique.insert(name.as_bytes()));
        unique
    }

    fn figures_of(days: &DailyHistory) -> Vec<(i64, u64, u64)> {
        days.latest_first().map(|day| (day.number, day.total().downloads, day.total().unique_files)).collect()
    }

    #[test]
    fn growth_counts_for_the_day_it_is_seen() {
        let mut days = DailyHistory::default();
        let files = unique(&["a", "b"]);
        assert!(!days.advance(NOON, &[("/", totals(3)), ("/pub/", totals(1))], &[("/", &files)]));
        assert!(!days.advance(NOON + 1, &[("/", totals(5)), ("/pub/", totals(1))], &[("/", &files)]));
        assert_eq!(figures_of(&days), [(100, 6, 2)]);
        assert_eq!(
            days.today().unwrap().mounts["/"],
            Figures { requests: 50, bytes: 5000, downloads: 5, unique_files: 2 }
        );
        assert_eq!(days.today().unwrap().downloads_peak, 6);
        assert_eq!(days.today().unwrap().date(), "1970-04-11");
        assert!(days.advance(NOON + DAY_S, &[("/", totals(8)), ("/pub/", totals(1))], &[("/", &files)]));
        assert!(!days.advance(NOON + DAY_S, &[("/", totals(9)), ("/pub/", totals(1))], &[]));
        // The second before midnight is booked on the old day, the rest on the new one.
        assert_eq!(figures_of(&days), [(101, 1, 0), (100, 9, 2)]);
        // A clock that was set back.
        assert!(!days.advance(NOON, &[("/", totals(10))], &[]));
        assert_eq!(figures_of(&days), [(101, 2, 0), (100, 9, 2)]);
    }

    #[test]
    fn no_more_than_thirty_days_are_kept() {
        let mut days = DailyHistory::default();
        for day in 0..100 {
            days.advance(NOON + day * DAY_S, &[("/", totals(day as u64))], &[]);
        }
        assert_eq!(figures_of(&days).len(), DAYS_MAX);
        days.advance(NOON + 110 * DAY_S, &[], &[]);
        assert_eq!(figures_of(&days).len(), 20);
    }

    #[test]
    fn days_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("days.json");
        assert_eq!(figures_of(&DailyHistory::load(&path, NOON).unwrap()), [] as [(i64, u64, u64); 0]);
        let mut days = DailyHistory::default();
        days.advance(NOON - DAY_S, &[("/", totals(3))], &[]);
        days.advance(NOON, &[("/", totals(3))], &[]);
        let files = unique(&["a", "b"]);
        days.advance(NOON, &[("/", totals(5))], &[("/", &files)]);
        days.save(&path, &[("/", &files)]).unwrap();

        let mut again = DailyHistory::load(&path, NOON + 5).unwrap();
        again.advance(NOON + 5, &[("/", totals(1))], &[("/", &unique(&["b", "c"]))]);
        assert_eq!(figures_of(&again), [(100, 3, 3), (99, 3, 0)]);
        // A day later the files of the day before are not today's.
        let mut later = DailyHistory::load(&path, NOON + DAY_S).unwrap();
        later.advance(NOON + DAY_S, &[("/", totals(1))], &[("/", &unique(&["a"]))]);
        assert_eq!(figures_of(&later), [(101, 1, 1), (100, 2, 2), (99, 3, 0)]);
        assert_eq!(figures_of(&DailyHistory::load(&path, NOON + 40 * DAY_S).unwrap()), [(140, 0, 0)]);
    }

    #[test]
    fn a_file_that_is_not_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("days.json");
        for text in ["", "{}", "[1]", r#"{"schema":"thalweg.days/9","days":[],"unique_today":{}}"#, "\u{0}"] {
            fs::write(&path, text).unwrap();
            assert!(DailyHistory::load(&path, NOON).is_err(), "{text}");
        }
        fs::write(&path, r#"{"schema":"thalweg.days/1","days":[{"day":9223372036854775807,"downloads_peak":1,"unique_files":1,"mounts":{}},{"day":100,"downloads_peak":1,"unique_files":1,"mounts":{}}],"unique_today":{"/":"?"}}"#).unwrap();
        assert_eq!(figures_of(&DailyHistory::load(&path, NOON).unwrap()), [(100, 0, 1)]);
    }
}
