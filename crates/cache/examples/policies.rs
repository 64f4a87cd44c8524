//! Hit ratios of the volume on synthetic traces, for `bench/cache-policies`, which compares them
//! with those of other policies on the same traces.
//!
//! ```text
//! policies trace zipf|release|scan FILE SEED      writes a trace: object numbers of 4 bytes
//! policies run FILE BYTES HITS SHARE              runs a volume of this size over it
//! ```
#![forbid(unsafe_code)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use std::{
    io,
    sync::{Arc, RwLock},
};
use thalweg_cache::{Description, Key, Part, Settings, Shape, Volume, medium::Medium};

const OBJECTS: u32 = 160_000;
const REQUESTS: usize = 1_500_000;

/// Bodies of the size with which a record has 8 KiB.
const BODY_BYTES: usize = 8064;

/// Objects of a release, and the share of the requests that want them at its beginning.
const RELEASE_OBJECTS: u32 = 4_000;
const RELEASE_SHARE: f64 = 0.8;

/// Memory without faults.
struct Memory(RwLock<Vec<u8>>);

impl Medium for Memory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.0.read().expect("no thread panics");
        buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
        Ok(())
    }

    fn write_at(&self, written: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.0.write().expect("no thread panics");
        bytes[offset as usize..][..written.len()].copy_from_slice(written);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.read().expect("no thread panics").len() as u64
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["trace", name, file, seed] => {
            let seed = seed.parse().expect("a seed");
            let bytes: Vec<u8> = trace(name, seed).into_iter().flat_map(u32::to_le_bytes).collect();
            std::fs::write(file, bytes).expect("the trace can be written");
        }
        ["run", file, size, hits, share] => run(file, size, hits, share),
        _ => panic!("policies trace NAME FILE SEED, or policies run FILE BYTES HITS SHARE"),
    }
}

/// The objects that are asked for, in order.
fn trace(name: &str, seed: u64) -> Vec<u32> {
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let popularity = Zipf::new(f64::from(OBJECTS), 0.9).expect("the parameters are valid");
    let of_release = Zipf::new(f64::from(RELEASE_OBJECTS), 0.6).expect("the parameters are valid");
    let mut scanned = 0;
    let objects = (0..REQUESTS).map(|at| {
        let time = at as f64 / REQUESTS as f64;
        match name {
            // From a third of the time on, a release is wanted, at first by most and then by fewer.
            "release" if time > 1.0 / 3.0 => {
                let share = RELEASE_SHARE * (-(time - 1.0 / 3.0) * 4.0).exp();
                if random.random_bool(share) {
                    return OBJECTS + of_release.sample(&mut random) as u32;
                }
            }
            // From half of the time on, a client walks over everything with a third of the
            // requests.
            "scan" if time > 0.5 && at % 3 == 0 && scanned < OBJECTS => {
                scanned += 1;
                return scanned;
            }
            "zipf" | "release" | "scan" => {}
            _ => panic!("there is no trace {name}"),
        }
        popularity.sample(&mut random) as u32
    });
    objects.collect()
}

fn run(file: &str, size: &str, hits: &str, share: &str) {
    let trace = std::fs::read(file).expect("the trace can be read");
    let size: usize = size.parse().expect("a size in bytes");
    let settings = Settings {
        promoting_hits: hits.parse().expect("a number of hits"),
        second_chance_share: share.parse().expect("a share"),
        clock: || 1,
        ..Settings::default()
    };
    let medium = Arc::new(Memory(RwLock::new(vec![0; size])));
    let shape = Shape { stripe_bytes: 512 << 10, fragment_bytes_mean: 8 << 10 };
    Volume::create(&*medium, shape).expect("the volume is large enough");
    let volume = Volume::open(medium, settings).expect("the volume was just made");
    let body = vec![7; BODY_BYTES];
    for object in trace.chunks_exact(4) {
        let key = Key::of(object);
        if volume.lookup(key, Part::fragment(0)).expect("memory does not fail").is_none() {
            let appended = volume.append(key, Part::fragment(0), Description::default(), &body);
            appended.expect("memory does not fail");
        }
    }
    let statistics = volume.statistics();
    let requests = statistics.hits + statistics.misses;
    let written = statistics.stripe_bytes_written as f64 / statistics.appended_bytes as f64;
    let ratio = statistics.hits as f64 / requests as f64;
    print(&format!("{ratio:.4} {written:.3} {}", statistics.displaced));
}

#[allow(clippy::print_stdout, reason = "the result of the program")]
fn print(line: &str) {
    println!("{line}");
}
