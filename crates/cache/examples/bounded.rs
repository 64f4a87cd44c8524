//! Fills a volume at random, at least ten times over and for so many seconds, while it looks things
//! up, and shows that its file and the memory of the process stay as they are.
//!
//! ```text
//! bounded PATH BYTES SECONDS
//! ```
#![forbid(unsafe_code)]

use rand::{RngExt, SeedableRng};
use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use thalweg_cache::{Cache, Description, Key, Maintenance, Part, Settings, Shape, medium::Allocation};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, size, seconds] = &arguments[..] else { panic!("bounded PATH BYTES SECONDS") };
    let path = Path::new(path);
    let (size, seconds) = (size.parse().expect("a number of bytes"), seconds.parse().expect("a number of seconds"));
    Cache::create(path, size, Allocation::Sparse, Shape::default()).expect("a file can be made");
    let cache = Arc::new(Cache::open(&[path.to_owned()], Settings::default()).expect("the volume opens"));
    let maintenance = Maintenance::begin(&cache).expect("a thread can be made");
    let outcome = fill(&cache, path, size, Duration::from_secs(seconds));
    drop(maintenance);
    outcome.show(&cache, size);
}

#[derive(Default)]
struct Outcome {
    appended_bytes: u64,
    file_bytes_max: u64,
    /// Resident memory after each time that the volume was filled.
    resident_bytes: Vec<u64>,
    hits: Times,
    appends: Times,
}

/// Times in microseconds, counted, so that the program's own memory does not grow.
struct Times(Vec<u32>);

impl Default for Times {
    fn default() -> Self {
        Self(vec![0; 100_000])
    }
}

impl Times {
    fn push(&mut self, time: Duration) {
        let at = (time.as_micros() as usize).min(self.0.len() - 1);
        self.0[at] += 1;
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// The time, in microseconds, that this share does not exceed.
    fn quantile(&self, share: f64) -> usize {
        let (mut left, wanted) = (0, self.count() as f64 * share);
        let place = self.0.iter().position(|count| {
            left += u64::from(*count);
            left as f64 >= wanted
        });
        place.unwrap_or_default() + 1
    }
}

fn fill(cache: &Cache, path: &Path, size: u64, time: Duration) -> Outcome {
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let bytes = vec![7; 1 << 20];
    let mut outcome = Outcome::default();
    let begun = Instant::now();
    while begun.elapsed() < time || outcome.appended_bytes < 10 * size {
        let key = Key::of(&random.random_range(0..4 * size / 40_000).to_le_bytes());
        let asked = Instant::now();
        if cache.lookup(key, Part::fragment(0)).expect("the file is readable").is_some() {
            outcome.hits.push(asked.elapsed());
            continue;
        }
        let length = if random.random_bool(0.02) { 1 << 20 } else { random.random_range(0..40_000) };
        let asked = Instant::now();
        let appended = cache.append(key, Part::fragment(0), Description::default(), &bytes[..length]);
        appended.expect("the file is writable");
        outcome.appends.push(asked.elapsed());
        outcome.appended_bytes += length as u64;
        let blocks = std::fs::metadata(path).expect("the file is there").blocks();
        outcome.file_bytes_max = outcome.file_bytes_max.max(blocks * 512);
        if outcome.appended_bytes / size > outcome.resident_bytes.len() as u64 {
            outcome.resident_bytes.push(resident_bytes());
        }
    }
    assert!(outcome.file_bytes_max <= size + 65_536, "the file takes {} of {size} bytes", outcome.file_bytes_max);
    outcome
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("/proc is there");
    let pages: u64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("it has numbers");
    pages * 4096
}

impl Outcome {
    #[allow(clippy::print_stdout, reason = "the result of the program")]
    fn show(self, cache: &Cache, size: u64) {
        let statistics = cache.statistics();
        let resident: Vec<_> = self.resident_bytes.iter().map(|bytes| bytes >> 20).collect();
        println!(
            "filled {:.1} times over, {} checkpoints; the file takes at most {} of {size} bytes; resident MiB after each \
             time: first {:?}, last {:?}, most {:?}",
            self.appended_bytes as f64 / size as f64,
            statistics.checkpoints,
            self.file_bytes_max,
            resident.first(),
            resident.last(),
            resident.iter().max()
        );
        for (name, times) in [("hits", &self.hits), ("appends", &self.appends)] {
            let [half, most, nearly_all] = [0.5, 0.99, 0.999].map(|share| times.quantile(share));
            println!("{} {name}: p50 {half} us, p99 {most} us, p99.9 {nearly_all} us", times.count());
        }
    }
}
