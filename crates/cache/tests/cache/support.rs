//! Volumes in memory, and bodies that follow from their names.

use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use thalweg_cache::{Body, Fragment, Key, Settings, Shape, Volume, medium::Faulty};

pub(crate) type Random = rand_pcg::Pcg64Mcg;

pub(crate) fn random(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}

/// Seeds that a random test runs: `few`, or as many as the environment says.
pub(crate) fn runs(few: u64) -> u64 {
    std::env::var("THALWEG_CACHE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(few)
}

/// The versions of a part that may be found.
#[derive(Default)]
pub(crate) struct Versions {
    /// The version that was found or appended last: a look-up may find it, or nothing. None if the
    /// last crash has hidden it.
    pub(crate) current: Option<u64>,
    /// The versions that the next crash may leave, from the newest durable one on. Those that a
    /// crash has hidden are among them: the next one may bring them back, as long as nothing newer
    /// is durable and no purge came after them.
    pub(crate) possible: Vec<u64>,
}

pub(crate) fn key(object: u64) -> Key {
    Key::of(&object.to_le_bytes())
}

/// A shape with many stripes in a small volume.
pub(crate) fn small_shape() -> Shape {
    Shape { stripe_bytes: 64 << 10, fragment_bytes_mean: 4 << 10 }
}

pub(crate) fn settings() -> Settings {
    Settings { clock: || 1_000_000, ..Settings::default() }
}

pub(crate) fn volume_on(medium: &Arc<Faulty>) -> Volume {
    Volume::create_with_id(&**medium, small_shape(), 1).expect("the volume is large enough");
    open(medium)
}

pub(crate) fn open(medium: &Arc<Faulty>) -> Volume {
    Volume::open(medium.clone(), settings()).expect("the volume opens")
}

/// The body of a version of a part: its length and bytes follow from the three numbers.
pub(crate) fn body_of(object: u64, part: u32, version: u64) -> Vec<u8> {
    let mut random = random(object << 40 ^ u64::from(part) << 32 ^ version);
    let length = match random.random_range(0..10) {
        0 => 0,
        1..7 => random.random_range(1..3000),
        7..9 => random.random_range(3000..20_000),
        _ => random.random_range(20_000..50_000),
    };
    (0..length).map(|_| random.random()).collect()
}

pub(crate) fn bytes_of(fragment: &Fragment) -> Vec<u8> {
    match &fragment.body {
        Body::Memory(bytes) => bytes.joined().to_vec(),
        Body::File(location) => {
            let mut bytes = vec![0; location.length as usize];
            let read = std::os::unix::fs::FileExt::read_exact_at(&*location.file, &mut bytes, location.offset);
            read.expect("the location is in the file");
            bytes
        }
    }
}
