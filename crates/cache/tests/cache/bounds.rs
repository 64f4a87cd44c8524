//! Limits of a volume: its size, the directory, the work of a recovery, leases; and which fragments
//! stay when the cursor comes round.

use crate::support::{self, bytes_of, key, open, settings, volume_on};
use rand::RngExt;
use std::{
    io,
    os::unix::fs::MetadataExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use thalweg_cache::{
    Body, Cache, Description, Error, Head, Looked, Part, Pieces, Purge, Settings, Shape, StoredHead, Volume,
    medium::{Allocation, Faults, Faulty, File, Medium},
};

const FIRST: fn() -> Part = || Part::fragment(0);

fn append(volume: &Volume, object: u64, bytes: usize) {
    try_append(volume, object, bytes).expect("the medium works");
}

fn try_append(volume: &Volume, object: u64, bytes: usize) -> Result<(), Error> {
    let description = Description { version: object, ..Description::default() };
    volume.append(key(object), FIRST(), description, &vec![object as u8; bytes])
}

fn finds(volume: &Volume, object: u64) -> bool {
    match volume.lookup(key(object), FIRST()).expect("the medium works") {
        Some(fragment) => {
            assert!(bytes_of(&fragment).iter().all(|byte| *byte == object as u8), "wrong bytes");
            true
        }
        None => false,
    }
}

/// A volume in a file, with fragments that are read from it.
fn volume_in_file(folder: &tempfile::TempDir, settings: Settings) -> Volume {
    let file = File::create(&folder.path().join("volume"), 8 << 20, Allocation::Sparse).expect("a file can be made");
    Volume::create(&file, support::small_shape()).expect("the volume is large enough");
    Volume::open(Arc::new(file), settings).expect("the volume was just made")
}

#[test]
fn a_volume_never_grows() {
    for allocation in [Allocation::Sparse, Allocation::Whole] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("volume");
        Cache::create(&path, 4 << 20, allocation, support::small_shape()).expect("a file can be made");
        let blocks = std::fs::metadata(&path).expect("it exists").blocks();
        assert_eq!(blocks * 512 >= 4 << 20, allocation == Allocation::Whole);
        let cache = Cache::open(std::slice::from_ref(&path), settings()).expect("it was just made");
        let mut random = support::random(1);
        for object in 0..5000 {
            let body = vec![1; random.random_range(0..20_000)];
            let appended = cache.append(key(random.random()), FIRST(), Description::default(), &body);
            appended.expect("the file is writable");
            if object % 500 == 0 {
                let metadata = std::fs::metadata(&path).expect("it exists");
                assert_eq!(metadata.len(), 4 << 20);
                assert!(metadata.blocks() * 512 <= (4 << 20) + 65_536, "{} blocks", metadata.blocks());
            }
        }
        let statistics = cache.statistics();
        assert!(statistics.appended_bytes > 10 * (4 << 20), "the volume was filled ten times over");
        assert_eq!(statistics.filled_bytes, statistics.capacity_bytes);
        assert!(statistics.stripe_bytes_written >= statistics.appended_bytes - (128 << 10));
    }
}

#[test]
fn the_directory_takes_two_thousandths_of_the_volume() {
    for (size, mean) in [(1_u64 << 30, 8 << 10), (10 << 30, 8 << 10), (100 << 30, 16 << 10), (1 << 40, 64 << 10)] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("volume");
        let shape = Shape { fragment_bytes_mean: mean, ..Shape::default() };
        Cache::create(&path, size, Allocation::Sparse, shape).expect("a file can be made");
        let statistics = Cache::open(&[path], settings()).expect("it was just made").statistics();
        let fragments = size / u64::from(mean);
        let buffers = 5 * u64::from(shape.stripe_bytes);
        let bytes = statistics.memory_bytes_max - buffers;
        assert!(bytes <= 16 * fragments, "{size}: {bytes} bytes for {fragments} fragments");
        assert!(bytes as f64 <= 0.002 * size as f64, "{size}: {bytes} bytes");
    }
}

/// Appends until the cursor has gone far, crashes, and looks at the reads of the next opening.
fn recovery_reads(size: u64) -> (u64, u64) {
    let medium = Arc::new(Faulty::new(size, 3));
    let volume = volume_on(&medium);
    for object in 0..2 * size / 10_000 {
        append(&volume, object, 9_000);
    }
    volume.flush_all().expect("the medium works");
    let last = 2 * size / 10_000 - 1;
    drop(volume);
    medium.crash();
    let before = medium.work();
    let volume = open(&medium);
    let after = medium.work();
    assert!(finds(&volume, last), "the newest fragment was durable");
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_recovery_reads_tables_and_summaries_only() {
    for size in [4_u64 << 20, 16 << 20, 64 << 20] {
        let (reads, bytes) = recovery_reads(size);
        let stripes = size / (64 << 10);
        // Half of each ring, and at each stripe's end one summary that is not there.
        assert!(reads < 3 * stripes, "{size}: {reads} reads");
        assert!(bytes < size / 8, "{size}: {bytes} bytes read");
    }
}

#[test]
fn fragments_that_were_hit_outlive_laps_and_others_do_not() {
    let medium = Arc::new(Faulty::new(4 << 20, 1));
    let volume = volume_on(&medium);
    for object in 0..20 {
        append(&volume, object, 5_000);
    }
    for object in 1000..4000 {
        append(&volume, object, 5_000);
        if object % 10 == 0 {
            (0..10).for_each(|hot| assert!(finds(&volume, hot), "{hot} was hit and is gone at {object}"));
        }
    }
    for cold in 10..20 {
        assert!(!finds(&volume, cold), "{cold} was never hit");
    }
    let statistics = volume.statistics();
    assert!(statistics.promoted >= 10, "{statistics:?}");
    assert!(statistics.stripe_bytes_written > 3 * (4 << 20));
}

#[test]
fn a_scan_does_not_wash_out_what_is_wanted() {
    let medium = Arc::new(Faulty::new(4 << 20, 1));
    let volume = volume_on(&medium);
    // 200 fragments of 8 KiB, two fifths of the volume, each wanted three times.
    for _ in 0..3 {
        for object in 0..200 {
            if !finds(&volume, object) {
                append(&volume, object, 8_000);
            }
        }
    }
    let held = |volume: &Volume| (0..200).filter(|object| finds(volume, *object)).count();
    let before = held(&volume);
    assert!(before > 150, "{before} of 200 are held before the scan");
    // Nothing of it is wanted again; ten times the volume.
    for object in 10_000..15_000 {
        append(&volume, object, 8_000);
    }
    let after = held(&volume);
    assert!(after * 10 >= before * 9, "{before} before the scan, {after} after it");
}

#[test]
fn fragments_get_a_second_chance_in_the_main_area_within_its_share() {
    let medium = Arc::new(Faulty::new(4 << 20, 1));
    let volume = volume_on(&medium);
    // All are wanted, and they do not fit.
    for round in 0..12 {
        for object in 0..700 {
            if !finds(&volume, object) {
                append(&volume, object, 8_000);
            } else if round % 2 == 0 {
                finds(&volume, object);
            }
        }
    }
    let statistics = volume.statistics();
    assert!(statistics.second_chances > 0, "{statistics:?}");
    let copied = statistics.stripe_bytes_written as f64 / statistics.appended_bytes as f64;
    assert!(copied < 12.0, "for each byte appended, {copied} were written");
}

#[test]
fn a_leased_stripe_is_passed_over() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let volume = volume_in_file(&folder, settings());
    append(&volume, 1, 30_000);
    volume.flush_all().expect("the file is writable");
    let fragment = volume.lookup(key(1), FIRST()).expect("the file is readable").expect("it was appended");
    assert!(matches!(fragment.body, Body::File(_)), "a long fragment comes as a location");
    for object in 1000..6000 {
        append(&volume, object, 8_000);
    }
    assert!(!finds(&volume, 1), "the cursor has passed");
    assert!(bytes_of(&fragment).iter().all(|byte| *byte == 1), "the lease kept the bytes");
    assert!(volume.statistics().skipped_stripes > 0);
    let skipped = volume.statistics().skipped_stripes;
    drop(fragment);
    for object in 10_000..13_000 {
        append(&volume, object, 8_000);
    }
    assert_eq!(volume.statistics().skipped_stripes, skipped, "without leases nothing is passed over");
}

#[test]
fn a_cache_whose_stripes_are_all_leased_refuses_to_append() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let volume = volume_in_file(&folder, settings());
    let mut held = Vec::new();
    for object in 0..2000 {
        let body = vec![object as u8; 20_000];
        match volume.append(key(object), FIRST(), Description::default(), &body) {
            Ok(()) => {}
            Err(Error::Busy) => {
                assert!(held.iter().all(|(object, fragment)| bytes_of(fragment)[0] == *object as u8));
                held.clear();
                volume.append(key(object), FIRST(), Description::default(), &body).expect("the leases are gone");
                return;
            }
            Err(error) => panic!("{error}"),
        }
        volume.flush_all().expect("the file is writable");
        held.push((object, volume.lookup(key(object), FIRST()).expect("it is readable").expect("it was appended")));
    }
    panic!("all stripes were leased, and the cursor went on");
}

#[test]
fn fragments_are_found_before_they_are_written_and_afterwards() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let volume = volume_in_file(&folder, settings());
    let description = Description { version: 5, object_bytes: 77, groups: [3, 0, 0, 0] };
    volume.append(key(1), Part::HEAD, description, b"fields").expect("the file is writable");
    append(&volume, 2, 40_000);
    for is_written in [false, true] {
        let head = volume.lookup(key(1), Part::HEAD).expect("it is readable").expect("it was appended");
        assert_eq!((head.description, head.stored_s, bytes_of(&head)), (description, 1_000_000, b"fields".to_vec()));
        let long = volume.lookup(key(2), FIRST()).expect("it is readable").expect("it was appended");
        assert_eq!(matches!(long.body, Body::File(_)), is_written);
        assert!(volume.lookup(key(1), FIRST()).expect("it is readable").is_none());
        volume.flush_all().expect("the file is writable");
    }
    let append_zeros = |bytes| volume.append(key(4), FIRST(), description, &vec![0; bytes]);
    let Err(Error::FragmentTooLong { most, .. }) = append_zeros(256 << 20) else { panic!("it fits no stripe") };
    append(&volume, 3, most);
    assert!(matches!(append_zeros(most + 1), Err(Error::FragmentTooLong { .. })));
}

#[test]
fn what_needs_the_disk_waits_and_all_else_is_done_at_once() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let volume = volume_in_file(&folder, settings());
    let now = |object| volume.lookup_now(key(object), FIRST()).expect("the file is readable");
    let append = |object, bytes| {
        let body = Pieces::from(&vec![object as u8; bytes]);
        volume.append_now(key(object), FIRST(), Description::default(), &body).expect("the file is writable")
    };
    assert!(append(1, 30_000) && append(2, 100));
    assert!(matches!(now(1), Looked::Done(Some(_))), "it is in memory");
    assert!(matches!(now(3), Looked::Done(None)), "the directory does not have it");
    volume.flush_all().expect("the file is writable");
    let waits = matches!(now(1), Looked::Waits);
    let long = volume.lookup(key(1), FIRST()).expect("the file is readable").expect("it was appended");
    assert_eq!(waits, matches!(long.body, Body::File(_)), "what is long was never verified");
    assert!(finds(&volume, 2), "the page cache has both from now on");
    assert!(matches!(now(1), Looked::Done(Some(_))) && matches!(now(2), Looked::Done(Some(_))));
    let appended = (10..1000).take_while(|object| append(*object, 8_000)).count();
    assert!((1..900).contains(&appended), "{appended} fragments without a write");
}

#[test]
fn what_was_appended_last_is_written_in_a_pause() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let volume = volume_in_file(&folder, settings());
    append(&volume, 1, 30_000);
    let is_written = || {
        let found = volume.lookup(key(1), FIRST()).expect("the file is readable").expect("it was appended");
        matches!(found.body, Body::File(_))
    };
    let now = volume.write_idle(0);
    assert!(!is_written(), "it was just appended");
    assert_eq!(volume.write_idle(now), now);
    assert!(is_written());
}

/// A file, and the bytes that were read from it.
struct Counted(File, AtomicU64);

impl Medium for Counted {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn file(&self) -> Option<&Arc<std::fs::File>> {
        self.0.file()
    }
}

#[test]
fn a_fragment_that_many_come_to_at_the_same_time_is_verified_once() {
    const BYTES: usize = 1 << 20;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("volume");
    Cache::create(&path, 64 << 20, Allocation::Sparse, Shape::default()).expect("a file can be made");
    let medium = Arc::new(Counted(File::open(&path).expect("it was made"), AtomicU64::new(0)));
    let volume = Volume::open(medium.clone(), settings()).expect("it was made");
    append(&volume, 1, BYTES);
    volume.flush_all().expect("it is writable");
    let before = medium.1.load(Ordering::Relaxed);
    let start = std::sync::Barrier::new(32);
    std::thread::scope(|threads| {
        for _ in 0..32 {
            threads.spawn(|| {
                start.wait();
                assert!(volume.lookup(key(1), FIRST()).expect("it is readable").is_some());
            });
        }
    });
    let read = medium.1.load(Ordering::Relaxed) - before;
    // Headers are read by each. Where bodies are copied, as of a tmpfs, all of it is.
    assert!(medium.file().is_none() || read < 2 * BYTES as u64, "{read} bytes were read");
}

#[test]
fn a_hundred_gigabytes_are_opened_by_reading_tables_and_summaries() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("volume");
    Cache::create(&path, 100 << 30, Allocation::Sparse, Shape::default()).expect("a file can be made");
    let open = || {
        let medium = Arc::new(Counted(File::open(&path).expect("it was made"), AtomicU64::new(0)));
        let volume = Volume::open(medium.clone(), settings()).expect("it was made");
        (volume, medium.1.load(Ordering::Relaxed))
    };
    let (volume, read) = open();
    // 600 summaries, and four stripes whole.
    assert!(read < 40 << 20, "an empty volume: {read} bytes read");
    let append = |objects: std::ops::Range<u64>| objects.for_each(|object| append(&volume, object, 1 << 20));
    append(0..300);
    volume.checkpoint().expect("it is writable");
    append(300..500);
    volume.flush_all().expect("it is writable");
    let tables = volume.statistics().directory_bytes;
    drop(volume);
    let (volume, read) = open();
    assert!(read > tables && read < tables + (32 << 20), "{read} bytes read, of which tables {tables}");
    for object in [0, 299, 300, 499] {
        assert!(finds(&volume, object), "{object}");
    }
}

#[test]
fn threads_that_read_and_write_see_right_bytes() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let volume = &volume_in_file(&folder, settings());
    let found = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let mut random = support::random(thread);
                for _ in 0..4000 {
                    let object = random.random_range(0..400);
                    if thread > 0 && finds(volume, object) {
                        found.fetch_add(1, Ordering::Relaxed);
                    } else {
                        match try_append(volume, object, 1000 + 97 * object as usize) {
                            // A reader that has no CPU holds the stripe.
                            Ok(()) | Err(Error::Busy) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let statistics = volume.statistics();
    assert!(statistics.stripe_bytes_written > 8 << 20, "the cursor went round");
    assert!(found.load(Ordering::Relaxed) > 1000);
    assert_eq!((statistics.damaged, statistics.unwritten, statistics.failures), (0, 0, 0), "{statistics:?}");
}

#[test]
fn a_walk_finds_what_is_stored_and_takes_out_what_is_damaged() {
    let medium = Arc::new(Faulty::new(4 << 20, 5));
    let volume = volume_on(&medium);
    for object in 0..100 {
        append(&volume, object, 9_000);
    }
    volume.purge(&[Purge::Key(key(7))]).expect("the medium works");
    volume.flush_all().expect("the medium works");
    let mut listed = Vec::new();
    let outcome = volume.list(&mut |stored| listed.push(stored.description.version));
    listed.sort_unstable();
    let purged = outcome.purged;
    assert!((1..5).contains(&purged), "one, and what shares its slot: {outcome:?}");
    assert_eq!(listed.len() as u64 + purged, 100);
    assert!(!listed.contains(&7));
    medium.flip_bits(100_000, 1_000_000, 40);
    let first = volume.verify();
    assert!(first.damaged + first.unwritten > 10, "{first:?}");
    let second = volume.verify();
    assert_eq!((second.damaged, second.unwritten, second.fragments), (0, 0, first.fragments));
    (0..100).for_each(|object| {
        finds(&volume, object);
    });
}

#[test]
fn a_record_that_cannot_be_read_is_an_error_and_then_a_miss() {
    let medium = Arc::new(Faulty::new(4 << 20, 5));
    let volume = volume_on(&medium);
    append(&volume, 1, 9_000);
    volume.flush_all().expect("the medium works");
    medium.set_faults(Faults { unreadable: Some((0, 4 << 20)), ..Faults::default() });
    assert!(matches!(volume.lookup(key(1), FIRST()), Err(Error::Io { doing: "reading", .. })));
    assert!(!finds(&volume, 1));
    assert_eq!(volume.statistics().failures, 1);
}

#[test]
fn wrong_media_are_refused_with_the_reason() {
    let check = |prepare: &dyn Fn(&Faulty), part: &str| {
        let medium = Faulty::new(4 << 20, 1);
        prepare(&medium);
        let error = Volume::open(Arc::new(medium), settings()).err().expect("it is refused").to_string();
        assert!(error.contains(part), "{error}");
    };
    let create = |medium: &Faulty| Volume::create(medium, support::small_shape()).expect("it is large enough");
    check(&|_| {}, "no volume of a cache");
    check(
        &|medium| {
            create(medium);
            medium.write_at(&[1; 100], 100).expect("the medium works");
            medium.write_at(&[1; 100], (4 << 20) - 1000).expect("the medium works");
        },
        "both superblocks",
    );
    let medium = Arc::new(Faulty::new(4 << 20, 1));
    create(&medium);
    medium.write_at(&[1; 100], 100).expect("the medium works");
    Volume::open(medium, settings()).expect("one superblock is enough");
    for (size, stripe_bytes, part) in [(4 << 20, 100_000, "power of two"), (100_000, 64 << 10, "the smallest one")] {
        let shape = Shape { stripe_bytes, ..Shape::default() };
        let error = Volume::create(&Faulty::new(size, 1), shape).expect_err("it is refused").to_string();
        assert!(error.contains(part), "{error}");
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("volume");
    Cache::create(&path, 4 << 20, Allocation::Sparse, support::small_shape()).expect("a file can be made");
    let first = File::open(&path).expect("it opens");
    assert!(File::open(&path).expect_err("it is locked").to_string().contains("another process"));
    drop(first);
}

/// Whether the part is stale, if it is found.
fn is_stale(volume: &Volume, object: u64) -> Option<bool> {
    volume.lookup(key(object), FIRST()).expect("the medium works").map(|fragment| fragment.is_stale)
}

#[test]
fn a_soft_purge_keeps_what_it_makes_stale_over_moves_and_crashes() {
    let medium = Arc::new(Faulty::new(4 << 20, 9));
    let volume = volume_on(&medium);
    let description = |group| Description { groups: [group, 0, 0, 0], ..Description::default() };
    let append = |volume: &Volume, object: u64, group: u32| {
        let appended = volume.append(key(object), FIRST(), description(group), &[object as u8; 4_000]);
        appended.expect("the medium works");
    };
    (0..9).for_each(|object| append(&volume, object, 1 + object as u32 / 3));
    volume.purge(&[Purge::SoftKey(key(1)), Purge::SoftGroup(2)]).expect("the medium works");
    let expected = [false, true, false, true, true, true, false, false, false];
    let check = |volume: &Volume, when: &str| {
        let found: Vec<_> = (0..9).map(|object| is_stale(volume, object)).collect();
        assert_eq!(found, expected.map(Some), "{when}");
    };
    check(&volume, "in memory");
    volume.flush_all().expect("the medium works");
    check(&volume, "on the medium");
    drop(volume);
    medium.crash();
    let volume = open(&medium);
    check(&volume, "after a crash");
    // The cursors go round, and what is wanted is moved.
    for object in 1000..4000 {
        append(&volume, object, 9);
        if object % 8 == 0 {
            check(&volume, "moved");
        }
    }
    let statistics = volume.statistics();
    assert!(statistics.promoted + statistics.second_chances >= 9, "{statistics:?}");
    append(&volume, 1, 1);
    assert_eq!(is_stale(&volume, 1), Some(false), "what was appended after the purge is fresh");
    volume.checkpoint().expect("the medium works");
    drop(volume);
    let volume = open(&medium);
    assert_eq!([1, 3].map(|object| is_stale(&volume, object)), [Some(false), Some(true)]);
}

#[test]
fn heads_are_listed_with_their_names_and_hits() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let volume = volume_in_file(&folder, settings());
    let description = |object_bytes| Description { object_bytes, ..Description::default() };
    for (object, name) in [(1, "a.example/one"), (2, "a.example/two")] {
        let head = Head { name, rest: b"fields" }.encode().expect("the name is short");
        volume.append(key(object), Part::HEAD, description(object * 100), &head).expect("the file is writable");
        append(&volume, object, 9_000);
    }
    volume.append(key(3), Part::HEAD, description(300), b"x").expect("the file is writable");
    assert!(volume.lookup(key(2), Part::HEAD).expect("it is readable").is_some());
    // A hit that was answered from elsewhere counts as one of the store's.
    [2, 4].into_iter().for_each(|object| volume.touch(key(object), Part::HEAD));
    volume.purge(&[Purge::SoftKey(key(1))]).expect("the file is writable");
    for is_written in [false, true] {
        let mut listed = Vec::new();
        let outcome = volume.list_heads(&mut |head| {
            let StoredHead { name, stored, .. } = head;
            listed.push((stored.description.object_bytes, name.map(str::to_owned), stored.hits, stored.is_stale));
        });
        listed.sort_unstable();
        let [one, two] = ["a.example/one", "a.example/two"].map(|name| Some(name.to_owned()));
        assert_eq!(listed, [(100, one, 0, true), (200, two, 2, false), (300, None, 0, false)], "{is_written}");
        assert_eq!(outcome.fragments, 5);
        volume.flush_all().expect("the file is writable");
    }
}

#[test]
fn a_purge_of_more_than_fits_between_two_checkpoints_ends() {
    let medium = Arc::new(Faulty::new(4 << 20, 5));
    let volume = volume_on(&medium);
    (0..20).for_each(|object| append(&volume, object, 3_000));
    let purges: Vec<_> = (10..20_000).map(|object| Purge::Key(key(object))).collect();
    volume.purge(&purges).expect("the medium works");
    assert!((10..20).all(|object| !finds(&volume, object)));
    assert_eq!(volume.statistics().purges, 19_990);
}

#[test]
fn heads_that_are_moved_while_they_are_listed_are_not_missed() {
    let medium = Arc::new(Faulty::new(8 << 20, 5));
    let volume = volume_on(&medium);
    let head = |object: u64| Head { name: &format!("a.example/{object}"), rest: &[7; 2_000] }.encode().expect("short");
    let store = |object: u64| {
        volume.append(key(object), Part::HEAD, Description::default(), &head(object)).expect("the medium works");
    };
    // Wanted ones, which the store keeps by moving them, and others that push them on.
    let mut others = 1_000_u64;
    let wanted = 0..50_u64;
    wanted.clone().for_each(store);
    let mut is_told_of = [false; 50];
    for round in 0..20 {
        let statistics = volume.statistics();
        is_told_of.fill(false);
        let mut told = 0;
        std::thread::scope(|scope| {
            let walk = scope.spawn(|| {
                volume.list_heads(&mut |head| {
                    let number = head.name.and_then(|name| name.strip_prefix("a.example/")?.parse::<usize>().ok());
                    number.filter(|number| *number < is_told_of.len()).into_iter().for_each(|at| is_told_of[at] = true);
                    told += 1;
                })
            });
            for _ in 0..100 {
                store(others);
                others += 1;
                wanted.clone().for_each(|object| drop(volume.lookup(key(object), Part::HEAD)));
            }
            walk.join().expect("no thread panics");
        });
        for object in wanted.clone() {
            let is_there = volume.lookup(key(object), Part::HEAD).expect("the medium works").is_some();
            assert!(!is_there || is_told_of[object as usize], "{object} in round {round} of {told} heads");
        }
        let now = volume.statistics();
        let moved = now.promoted + now.second_chances - statistics.promoted - statistics.second_chances;
        assert!(round == 0 || moved > 0 || now.stripe_bytes_written < 8 << 20, "{now:?}");
    }
}
