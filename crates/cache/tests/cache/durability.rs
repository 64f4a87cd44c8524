//! The order of writes and syncs: crashes at each write and sync of a checkpoint, of a purge and of
//! an opening, with the worst that a disk may keep; damage to each block of the log; appends beside
//! checkpoints.

use crate::support::{self, bytes_of, key, open, settings, volume_on};
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use thalweg_cache::{
    Cache, Description, Maintenance, Part, Purge, Shape, Volume,
    medium::{Faults, Faulty, Kept, Medium},
};

const SIZE: u64 = 3 << 20;
const KEPT: [Kept; 5] = [Kept::ByChance, Kept::LastAlone, Kept::AllButFirst, Kept::Nothing, Kept::Everything];

const FIRST: fn() -> Part = || Part::fragment(0);

fn append(volume: &Volume, object: u64, version: u64) {
    let description = Description { version, groups: [1 + object as u32 % 3, 0, 0, 0], ..Description::default() };
    let body = vec![version as u8; 3_000 + 100 * object as usize];
    volume.append(key(object), FIRST(), description, &body).expect("the medium works");
}

/// The version that is found, whose bytes are right.
fn version(volume: &Volume, object: u64) -> Option<u64> {
    let fragment = volume.lookup(key(object), FIRST()).expect("the medium works")?;
    let version = fragment.description.version;
    assert!(bytes_of(&fragment).iter().all(|byte| *byte == version as u8), "wrong bytes");
    Some(version)
}

fn versions(volume: &Volume, objects: std::ops::Range<u64>) -> Vec<Option<u64>> {
    objects.map(|object| version(volume, object)).collect()
}

/// The faults with which the power fails at each sync and within each write of an operation, which
/// has been carried out once to count them.
fn power_cuts(bytes: u64, syncs: u64) -> Vec<Faults> {
    let at_syncs = (0..syncs).map(|sync| Faults { power_for_syncs: Some(sync), ..Faults::default() });
    let in_writes = (0..bytes).step_by(4096).map(|left| Faults { power_for_bytes: Some(left), ..Faults::default() });
    at_syncs.chain(in_writes).collect()
}

/// A volume with a checkpoint, and more behind it that is not durable.
fn before_a_checkpoint(seed: u64) -> (Arc<Faulty>, Volume) {
    let medium = Arc::new(Faulty::new(SIZE, seed));
    let volume = volume_on(&medium);
    (0..10).for_each(|object| append(&volume, object, 1));
    volume.checkpoint().expect("the medium works");
    (5..15).for_each(|object| append(&volume, object, 2));
    (medium, volume)
}

#[test]
fn a_checkpoint_is_valid_when_all_that_it_vouches_for_is_durable() {
    let (medium, volume) = before_a_checkpoint(1);
    let before = medium.work().3;
    volume.checkpoint().expect("the medium works");
    let cuts = power_cuts(medium.work().3 - before, 2);
    let mut outcomes = BTreeMap::new();
    for (seed, cut) in cuts.iter().enumerate() {
        for kept in KEPT {
            let (medium, volume) = before_a_checkpoint(seed as u64);
            medium.set_faults(*cut);
            volume.checkpoint().expect_err("the power fails");
            drop(volume);
            medium.crash_keeping(kept);
            let volume = open(&medium);
            let statistics = volume.statistics();
            let context = format!("{cut:?} {kept:?}: {statistics:?}");
            assert_eq!((statistics.damaged_checkpoints, statistics.emptied), (0, 0), "{context}");
            let found = versions(&volume, 0..15);
            assert!(found[..5].iter().all(|version| *version == Some(1)), "{context}: {found:?}");
            // A newer version may be torn: its fragment is lost.
            assert!(found[5..10].iter().flatten().all(|version| *version >= 1), "{context}");
            if statistics.replayed == 0 && found[10..].iter().any(Option::is_some) {
                // The newer checkpoint is in force.
                assert!(found[5..].iter().all(|version| *version == Some(2)), "{context}: {found:?}");
                assert_eq!(volume.statistics().unwritten + volume.statistics().damaged, 0, "{context}");
            }
            *outcomes.entry(found[10..].iter().flatten().count()).or_insert(0) += 1;
        }
    }
    assert!(outcomes.len() >= 2, "with and without what was not durable: {outcomes:?}");
}

#[test]
fn a_checkpoint_that_was_made_is_durable() {
    for kept in KEPT {
        let (medium, volume) = before_a_checkpoint(1);
        volume.checkpoint().expect("the medium works");
        drop(volume);
        medium.crash_keeping(kept);
        let volume = open(&medium);
        assert_eq!(volume.statistics().replayed, 0, "{kept:?}: an older checkpoint was taken");
        let found = versions(&volume, 0..15);
        assert!(found.iter().all(Option::is_some), "{kept:?}: {found:?}");
    }
}

#[test]
fn what_was_flushed_is_durable() {
    for kept in KEPT {
        let (medium, volume) = before_a_checkpoint(1);
        volume.flush_all().expect("the medium works");
        drop(volume);
        medium.crash_keeping(kept);
        let found = versions(&open(&medium), 5..15);
        assert!(found.iter().all(|version| *version == Some(2)), "{kept:?}: {found:?}");
    }
}

#[test]
fn a_run_is_numbered_durably_before_it_writes() {
    for kept in KEPT {
        let medium = Arc::new(Faulty::new(SIZE, 1));
        drop(volume_on(&medium));
        medium.sync().expect("the medium works");
        let volume = open(&medium);
        // Whole stripes are written, and nothing is synced.
        (1..60).for_each(|version| append(&volume, 1, version));
        drop(volume);
        medium.crash_keeping(kept);
        let volume = open(&medium);
        append(&volume, 1, 100);
        volume.flush_all().expect("the medium works");
        drop(volume);
        medium.crash();
        assert_eq!(version(&open(&medium), 1), Some(100), "{kept:?}");
    }
}

#[test]
fn a_purge_of_many_is_cut_off_anywhere_and_nothing_else_is_lost() {
    // More than a summary has entries.
    let purges: Vec<_> = (100..400).map(|object| Purge::Key(key(object))).collect();
    let prepared = |seed| {
        let (medium, volume) = before_a_checkpoint(seed);
        append(&volume, 150, 1);
        volume.flush_all().expect("the medium works");
        (medium, volume)
    };
    let (medium, volume) = prepared(1);
    let before = medium.work().3;
    volume.purge(&purges).expect("the medium works");
    let mut cuts = power_cuts(medium.work().3 - before, 2);
    cuts.push(Faults::default());
    for (seed, cut) in cuts.iter().enumerate() {
        for kept in KEPT {
            let (medium, volume) = prepared(seed as u64);
            medium.set_faults(*cut);
            let is_purged = volume.purge(&purges).is_ok();
            drop(volume);
            medium.crash_keeping(kept);
            let volume = open(&medium);
            assert_eq!(volume.statistics().emptied, 0, "{cut:?} {kept:?}");
            assert!(!is_purged || version(&volume, 150).is_none(), "{cut:?} {kept:?}: purged and found");
            let left = versions(&volume, 0..15).iter().flatten().count();
            assert!(left >= 8, "{cut:?} {kept:?}: {left} of 15, and a few share a slot with a purge");
        }
    }
}

/// The bytes of a medium.
fn image(medium: &Faulty) -> Vec<u8> {
    let mut bytes = vec![0; medium.size() as usize];
    medium.read_at(&mut bytes, 0).expect("the medium works");
    bytes
}

const PURGED: u64 = 25;

/// A volume whose newest versions of 20 objects lie behind the checkpoint that has older ones.
fn updated() -> Vec<u8> {
    // Large enough for all of it to come before the next checkpoint.
    let medium = Arc::new(Faulty::new(4 * SIZE, 1));
    let volume = volume_on(&medium);
    (0..20).for_each(|object| append(&volume, object, 1));
    append(&volume, PURGED, 1);
    volume.checkpoint().expect("the medium works");
    for object in 0..20 {
        append(&volume, object, 2);
        if object == 10 {
            volume.purge(&[Purge::Key(key(PURGED))]).expect("the medium works");
        }
        if object % 4 == 3 {
            volume.flush_all().expect("the medium works");
        }
    }
    // A later segment tells that those before it were durable.
    append(&volume, 20, 2);
    volume.flush_all().expect("the medium works");
    assert_eq!(volume.statistics().checkpoints, 1);
    drop(volume);
    image(&medium)
}

/// Blocks in which something is written, of stripes alone.
fn written_blocks(image: &[u8]) -> Vec<usize> {
    let first = summaries(image)[0] / 4096;
    (first..image.len() / 4096 - 1)
        .filter(|block| image[block * 4096..][..4096].iter().any(|byte| *byte != 0))
        .collect()
}

#[test]
fn a_damaged_block_of_the_log_brings_no_older_version_back() {
    let image = updated();
    let (mut damaged_summaries, mut emptied) = (0, 0);
    for blocks in [1, 2] {
        for block in written_blocks(&image) {
            let mut image = image.clone();
            image[block * 4096..(block + blocks) * 4096].iter_mut().for_each(|byte| *byte ^= 0x5A);
            let Ok(volume) = Volume::open(Arc::new(Faulty::holding(image, 1)), settings()) else { continue };
            let statistics = volume.statistics();
            damaged_summaries += statistics.damaged_summaries;
            emptied += statistics.emptied;
            assert_eq!(version(&volume, PURGED), None, "block {block} and {blocks} in all: purged and found");
            assert!(blocks == 2 || statistics.emptied == 0, "block {block}: {statistics:?}");
            let found = versions(&volume, 0..20);
            let is_last = statistics.emptied == 0 && found.contains(&Some(1));
            assert!(!is_last, "block {block} and {blocks} in all: {found:?}, {statistics:?}");
            let whole = found.iter().flatten().count();
            assert!(blocks == 2 || whole >= 17, "block {block}: {whole} of 20 are found, {statistics:?}");
        }
    }
    assert!(damaged_summaries >= 3, "{damaged_summaries} damaged summaries were met");
    assert!((1..20).contains(&emptied), "{emptied} volumes began empty, and a few had to");
}

/// The offsets of all summaries of a volume's stripes.
fn summaries(image: &[u8]) -> Vec<usize> {
    let magic = 0x5347_4D54_u32.to_le_bytes();
    (0..image.len()).step_by(4096).filter(|at| image[at + 8..at + 12] == magic).collect()
}

#[test]
fn what_a_crash_hid_from_one_run_is_not_found_by_a_later_one() {
    let medium = Arc::new(Faulty::new(SIZE, 1));
    let volume = volume_on(&medium);
    for version in 1..4 {
        append(&volume, 1, version);
        volume.flush_all().expect("the medium works");
    }
    drop(volume);
    let mut image = image(&medium);
    let [_, second, third] = summaries(&image)[..] else { panic!("there are three segments") };
    // The second and third of them did not reach the disk before the crash.
    let put_off = image.split_off(third);
    image.truncate(second);
    image.resize(SIZE as usize, 0);
    let medium = Arc::new(Faulty::holding(image, 1));
    let volume = open(&medium);
    assert_eq!(version(&volume, 1), Some(1));
    append(&volume, 1, 9);
    volume.checkpoint().expect("the medium works");
    drop(volume);
    // The third one lies right behind the cursor now.
    medium.write_at(&put_off[..8192], third as u64).expect("the medium works");
    assert_eq!(version(&open(&medium), 1), Some(9));
}

/// Opens what is left of a medium, without the last of its summaries and so many bytes behind it.
fn open_torn(medium: &Faulty, lost: usize) -> (Arc<Faulty>, Volume) {
    let mut image = image(medium);
    let last = *summaries(&image).last().expect("something was written");
    image[last..last + lost].fill(0);
    let medium = Arc::new(Faulty::holding(image, 1));
    (medium.clone(), open(&medium))
}

/// A volume whose last segment lost its summary and its first two records in a crash, so that no
/// segment leads to the others. They are of objects 0 to 3, and older versions are in the
/// checkpoint.
fn behind_a_gap() -> (Arc<Faulty>, Volume) {
    let medium = Arc::new(Faulty::new(8 * SIZE, 1));
    let volume = volume_on(&medium);
    (0..7).for_each(|object| append(&volume, object, 1));
    volume.checkpoint().expect("the medium works");
    (0..4).for_each(|object| append(&volume, object, 2));
    volume.flush_all().expect("the medium works");
    drop(volume);
    let (medium, volume) = open_torn(&medium, 8192);
    assert_eq!(versions(&volume, 0..4), [Some(1), Some(1), Some(2), Some(2)]);
    (medium, volume)
}

#[test]
fn what_was_found_behind_a_gap_is_found_after_the_next_crash() {
    for is_flushed in [false, true] {
        // The last summary is left, or its records alone.
        for lost in [0, 4096] {
            let (medium, volume) = behind_a_gap();
            append(&volume, 6, 2);
            if is_flushed {
                volume.flush_all().expect("the medium works");
            }
            // They are in the next stripe.
            (20..25).for_each(|object| append(&volume, object, 1));
            volume.flush_all().expect("the medium works");
            drop(volume);
            let (_, volume) = open_torn(&medium, lost);
            let context = format!("flushed: {is_flushed}, {lost} bytes are lost: {:?}", volume.statistics());
            assert_eq!(volume.statistics().emptied, 0, "{context}");
            assert_eq!(versions(&volume, 2..4), [Some(2); 2], "{context}");
            assert_eq!(version(&volume, 6), Some(2), "{context}");
            assert_eq!(versions(&volume, 20..25), [Some(1); 5], "{context}");
        }
    }
}

#[test]
fn damage_to_what_was_found_behind_a_gap_brings_no_older_version_back() {
    let (medium, volume) = behind_a_gap();
    append(&volume, 20, 1);
    volume.flush_all().expect("the medium works");
    drop(volume);
    let mut image = image(&medium);
    // The records that were found lie right before the segment of this run.
    let last = *summaries(&image).last().expect("something was written");
    image[last - 12_288..last].fill(0);
    let volume = open(&Arc::new(Faulty::holding(image, 1)));
    assert_eq!(volume.statistics().emptied, 1, "version 2 is lost, and version 1 would be found");
}

#[test]
fn stripes_are_read_whole_behind_a_gap_until_the_next_checkpoint() {
    let (medium, volume) = behind_a_gap();
    let bytes_read = || {
        let before = medium.work().1;
        drop(open(&medium));
        medium.work().1 - before
    };
    append(&volume, 20, 1);
    volume.flush_all().expect("the medium works");
    drop(volume);
    let (behind, again) = (bytes_read(), bytes_read());
    let volume = open(&medium);
    volume.checkpoint().expect("the medium works");
    append(&volume, 21, 1);
    volume.flush_all().expect("the medium works");
    drop(volume);
    let later = bytes_read();
    assert!(behind == again && later + (64 << 10) < behind, "{behind}, {again}, then {later} bytes");
}

/// A medium whose syncs and first bytes wait while a gate is shut.
struct Gated {
    medium: Faulty,
    gated_below: u64,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    is_shut: bool,
    waiting: usize,
}

impl Medium for Gated {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.medium.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset < self.gated_below {
            self.pass();
        }
        self.medium.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.pass();
        self.medium.sync()
    }

    fn size(&self) -> u64 {
        self.medium.size()
    }
}

impl Gated {
    fn new(medium: Faulty, gated_below: u64) -> Arc<Self> {
        Arc::new(Self { medium, gated_below, gate: Mutex::default(), changed: Condvar::new() })
    }

    fn pass(&self) {
        let mut gate = self.gate.lock().expect("no thread panics over the gate");
        gate.waiting += 1;
        self.changed.notify_all();
        let mut gate = self.changed.wait_while(gate, |gate| gate.is_shut).expect("no thread panics over it");
        gate.waiting -= 1;
    }

    fn shut(&self, is_shut: bool) {
        self.gate.lock().expect("no thread panics over the gate").is_shut = is_shut;
        self.changed.notify_all();
    }

    fn await_waiting(&self) {
        let gate = self.gate.lock().expect("no thread panics over the gate");
        let _gate = self.changed.wait_while(gate, |gate| gate.waiting == 0).expect("no thread panics over it");
    }
}

#[test]
fn appends_and_look_ups_go_on_while_a_checkpoint_is_made() {
    // Large enough for both areas to have room without another checkpoint.
    let medium = Faulty::new(8 * SIZE, 1);
    Volume::create_with_id(&medium, support::small_shape(), 1).expect("the volume is large enough");
    let medium = Gated::new(medium, 0);
    let volume = Volume::open(medium.clone(), settings()).expect("the volume was just made");
    (0..20).for_each(|object| append(&volume, object, 1));
    std::thread::scope(|scope| {
        medium.shut(true);
        let checkpoint = scope.spawn(|| volume.checkpoint());
        medium.await_waiting();
        (10..30).for_each(|object| append(&volume, object, 2));
        assert_eq!(version(&volume, 5), Some(1));
        assert_eq!(version(&volume, 15), Some(2));
        medium.shut(false);
        checkpoint.join().expect("it does not panic").expect("the medium works");
    });
    drop(volume);
    medium.medium.crash_keeping(Kept::Nothing);
    let volume = Volume::open(medium.clone(), settings()).expect("the volume opens");
    let found = versions(&volume, 0..30);
    assert!(found[..10].iter().all(|version| *version == Some(1)), "{found:?}");
    // Fragments that were appended meanwhile and written before the gate opened are durable, too.
    assert!(found[10..20].iter().all(Option::is_some), "{found:?}");
}

#[test]
fn a_checkpoint_does_not_vouch_for_what_is_appended_while_it_is_made() {
    let size = 16 << 20;
    let medium = Faulty::new(size, 1);
    // The directory has several pieces, and those that are copied late have late entries.
    let shape = Shape { fragment_bytes_mean: 512, ..support::small_shape() };
    Volume::create_with_id(&medium, shape, 1).expect("the volume is large enough");
    let medium = Gated::new(medium, size / 32);
    let volume = Volume::open(medium.clone(), settings()).expect("the volume was just made");
    std::thread::scope(|scope| {
        medium.shut(true);
        let checkpoint = scope.spawn(|| volume.checkpoint());
        medium.await_waiting();
        for object in 0..40 {
            volume.append(key(object), FIRST(), Description::default(), b"x").expect("the medium works");
        }
        medium.shut(false);
        checkpoint.join().expect("it does not panic").expect("the medium works");
    });
    drop(volume);
    medium.medium.crash_keeping(Kept::Nothing);
    let volume = Volume::open(medium.clone(), settings()).expect("the volume opens");
    assert!((0..40).all(|object| version(&volume, object).is_none()));
    let statistics = volume.statistics();
    assert_eq!((statistics.unwritten, statistics.damaged), (0, 0), "entries of lost records were kept");
    assert_eq!(volume.fragments(), 0);
}

#[test]
fn nothing_is_claimed_to_be_durable_before_it_is() {
    let medium = Faulty::new(8 * SIZE, 1);
    Volume::create_with_id(&medium, support::small_shape(), 1).expect("the volume is large enough");
    let medium = Gated::new(medium, 0);
    let volume = Volume::open(medium.clone(), settings()).expect("the volume was just made");
    (0..10).for_each(|object| append(&volume, object, 1));
    std::thread::scope(|scope| {
        medium.shut(true);
        let flush = scope.spawn(|| volume.flush_all());
        medium.await_waiting();
        // A stripe is written before the sync ends.
        (10..40).for_each(|object| append(&volume, object, 1));
        medium.medium.crash_keeping(Kept::LastAlone);
        medium.shut(false);
        flush.join().expect("it does not panic").expect("the medium works");
    });
    drop(volume);
    let volume = Volume::open(medium.clone(), settings()).expect("the volume opens");
    assert_eq!(volume.statistics().emptied, 0);
    let found = versions(&volume, 0..40);
    assert!(found[..10].iter().all(Option::is_none), "the first write was lost: {found:?}");
    assert!(found[10..].iter().any(Option::is_some), "the last one was kept: {found:?}");
}

/// A volume to which so many fragments were appended, all durable.
fn appended(count: u64) -> (Arc<Faulty>, u64) {
    let medium = Arc::new(Faulty::new(8 * SIZE, 1));
    let volume = volume_on(&medium);
    (0..count).for_each(|object| {
        let description = Description { version: 1, ..Description::default() };
        volume.append(key(object), FIRST(), description, &[1; 9_000]).expect("the medium works");
    });
    volume.flush_all().expect("the medium works");
    (medium, volume.statistics().checkpoints)
}

#[test]
fn from_the_older_checkpoint_everything_is_found() {
    // The most that is appended behind the third checkpoint.
    let count = (0..20_000).step_by(50).find(|count| appended(*count).1 == 4).expect("checkpoints are made");
    let count = (count - 50..count).rev().find(|count| appended(*count).1 == 3).expect("there was a third one");
    let (medium, _) = appended(count);
    let mut image = image(&medium);
    let magic = 0x5450_4B43_u32.to_le_bytes();
    let marks = (0..image.len()).step_by(4096).filter(|at| image[at + 8..at + 12] == magic);
    let newest = marks.max_by_key(|at| image[at + 12]).expect("there are checkpoints");
    image[newest + 100] ^= 1;
    let volume = open(&Arc::new(Faulty::holding(image, 1)));
    let statistics = volume.statistics();
    assert_eq!((statistics.damaged_checkpoints, statistics.emptied), (1, 0));
    let found = versions(&volume, count - 5..count);
    assert!(found.iter().all(Option::is_some), "{found:?} {statistics:?}");
}

#[test]
fn threads_make_the_checkpoints_that_are_due() {
    let medium = Arc::new(Faulty::new(SIZE, 1));
    drop(volume_on(&medium));
    let cache = Cache::over(vec![Ok(medium.clone() as Arc<dyn Medium>)], settings()).expect("the volume opens");
    let cache = Arc::new(cache);
    let maintenance = Maintenance::begin(&cache).expect("a thread can be made");
    let mut object = 0;
    while cache.statistics().checkpoints < 5 {
        append(&cache.volumes()[0], object % 40, 1);
        object += 1;
    }
    drop(maintenance);
    assert!(object < 20_000, "{object} appends for 5 checkpoints");
    assert_eq!(cache.statistics().failures, 0);
}

#[test]
fn a_crash_beside_checkpoints_costs_fragments_alone() {
    let mut checkpoints = 0;
    for seed in 0..support::runs(12) {
        let medium = Arc::new(Faulty::new(SIZE, seed));
        let mut volume = volume_on(&medium);
        let mut newest = BTreeMap::new();
        let mut flushed = BTreeMap::new();
        for round in 1..6_u64 {
            let ended = AtomicBool::new(false);
            medium.set_faults(Faults { power_for_bytes: Some(400_000 + 700_000 * (seed % 5)), ..Faults::default() });
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) && !volume.is_lost() {
                        let _ = volume.checkpoint();
                    }
                });
                for count in 0..1500 {
                    let (object, version) = (count * 7 % 50, round * 10_000 + count);
                    let body = vec![version as u8; 500 + 50 * object as usize];
                    let description = Description { version, ..Description::default() };
                    if volume.append(key(object), FIRST(), description, &body).is_ok() {
                        newest.insert(object, version);
                    }
                    if count % 97 == 0 && volume.flush_all().is_ok() {
                        flushed.clone_from(&newest);
                    }
                }
                ended.store(true, Ordering::Relaxed);
            });
            checkpoints += volume.statistics().checkpoints;
            drop(volume);
            medium.crash();
            volume = open(&medium);
            let statistics = volume.statistics();
            // A mark is the only write of one block here: segments have records behind their
            // summaries. One that is torn is a damaged checkpoint, beside which the older one is
            // whole.
            let is_mark_torn = medium.torn().is_some_and(|(_, bytes)| bytes == 4096);
            let context = format!("{seed}: {:?} is torn, {statistics:?}", medium.torn());
            assert_eq!(statistics.emptied, 0, "{context}");
            assert!(statistics.damaged_checkpoints <= u64::from(is_mark_torn), "{context}");
            for object in 0..50 {
                let found = version(&volume, object);
                let least = flushed.get(&object).copied();
                assert!(found >= least || found.is_none(), "{seed}: {object}: {found:?}, and {least:?} was durable");
                found.map(|version| newest.insert(object, version));
            }
        }
    }
    assert!(checkpoints > 100, "{checkpoints} checkpoints were made beside appends");
}
