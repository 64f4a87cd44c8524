//! Random operations on a volume against a model that knows every fragment ever appended, with
//! crashes, torn writes, flipped bits and failing writes, all from seeds. The model is of this test
//! alone.

use crate::support::{self, Random, Versions, body_of, bytes_of, key, open, volume_on};
use rand::RngExt;
use std::{collections::BTreeMap, sync::Arc};
use thalweg_cache::{
    Description, Looked, Part, Pieces, Purge, Settings, Volume,
    medium::{Faults, Faulty, Medium},
};

#[derive(Default)]
struct Model {
    parts: BTreeMap<(u64, u32), Versions>,
    groups: BTreeMap<u64, u32>,
}

impl Model {
    fn append(&mut self, object: u64, part: u32, version: u64) {
        let versions = self.parts.entry((object, part)).or_default();
        versions.current = Some(version);
        versions.possible.push(version);
    }

    /// Everything is durable: a crash leaves nothing that is older than what is found.
    fn keep_newest(&mut self) {
        for versions in self.parts.values_mut() {
            versions.possible.retain(|version| versions.current.is_none_or(|current| *version >= current));
        }
    }

    fn purge(&mut self, object: u64) {
        self.parts.retain(|(held, _), _| *held != object);
    }

    fn purge_group(&mut self, group: u32) {
        let groups = &self.groups;
        self.parts.retain(|(object, _), _| groups.get(object) != Some(&group));
    }

    /// Whether a look-up may find this version.
    fn check(&self, object: u64, part: u32, found: u64, crashed: bool) {
        let versions = self.parts.get(&(object, part));
        let right = versions.is_some_and(|versions| match crashed {
            true => versions.possible.contains(&found),
            false => versions.current == Some(found),
        });
        let possible = versions.map(|versions| (versions.current, &versions.possible));
        assert!(right, "object {object} part {part}: version {found}, of {possible:?}");
    }

    /// After a crash, a look-up has found this.
    fn settle(&mut self, object: u64, part: u32, found: Option<u64>) {
        let Some(versions) = self.parts.get_mut(&(object, part)) else { return };
        versions.current = found;
        versions.possible.retain(|version| found.is_none_or(|found| *version >= found));
    }
}

const OBJECTS: u64 = 60;
const PARTS: u32 = 4;

fn look_up(volume: &Volume, model: &Model, object: u64, part: u32, crashed: bool) -> bool {
    let found = match volume.lookup_now(key(object), Part::fragment(part)) {
        Ok(Looked::Done(found)) => Ok(found),
        Ok(Looked::Waits) | Err(_) => volume.lookup(key(object), Part::fragment(part)),
    };
    let Ok(Some(fragment)) = found else { return false };
    let version = fragment.description.version;
    model.check(object, part, version, crashed);
    assert_eq!(bytes_of(&fragment), body_of(object, part, version), "wrong bytes");
    true
}

/// Looks everything up after a crash; how much is found.
fn settle(volume: &Volume, model: &mut Model) -> usize {
    let mut found = 0;
    for object in 0..OBJECTS {
        for part in 0..PARTS {
            let fragment = volume.lookup(key(object), Part::fragment(part)).expect("the medium works");
            let version = fragment.map(|fragment| {
                let version = fragment.description.version;
                model.check(object, part, version, true);
                assert_eq!(bytes_of(&fragment), body_of(object, part, version), "wrong bytes");
                found += 1;
                version
            });
            model.settle(object, part, version);
        }
    }
    found
}

fn operate(volume: &Volume, model: &mut Model, random: &mut Random, version: &mut u64) {
    let (object, part) = (random.random_range(0..OBJECTS), random.random_range(0..PARTS));
    match random.random_range(0..100) {
        0..45 => {
            *version += 1;
            let group = (object % 7) as u32 + 1;
            let description = Description { version: *version, object_bytes: 0, groups: [0, group, 0, 0] };
            model.groups.insert(object, group);
            let body = body_of(object, part, *version);
            let at = body.len() / 3;
            let pieces = Pieces::from(vec![body[..at].to_vec().into(), body[at..].to_vec().into()]);
            // Both ways lead to the same state.
            let (key, part_of_it) = (key(object), Part::fragment(part));
            let is_done =
                random.random() && matches!(volume.append_now(key, part_of_it, description, &pieces), Ok(true));
            if is_done || volume.append(key, part_of_it, description, pieces).is_ok() {
                model.append(object, part, *version);
            }
        }
        45..95 => {
            look_up(volume, model, object, part, false);
        }
        95..97 => {
            if volume.purge(&[Purge::Key(key(object))]).is_ok() {
                model.purge(object);
                assert!(!look_up(volume, model, object, part, false), "purged and found");
            }
        }
        97 => {
            let group = random.random_range(1..8);
            if volume.purge(&[Purge::Group(group)]).is_ok() {
                model.purge_group(group);
            }
        }
        98 => {
            if volume.flush_all().is_ok() {
                model.keep_newest();
            }
        }
        _ => {
            if volume.checkpoint().is_ok() {
                model.keep_newest();
            }
        }
    }
}

/// Runs of operations, each ended by a crash, on a volume that many laps are written to.
fn check(seed: u64, torn: bool) -> (u64, usize) {
    let mut random = support::random(seed);
    let medium = Arc::new(Faulty::new(3 << 20, seed));
    let mut volume = volume_on(&medium);
    let (mut model, mut version, mut survived) = (Model::default(), 0, 0);
    let mut laps = 0;
    for _ in 0..12 {
        if torn {
            let power_for_bytes = Some(random.random_range(0..6_000_000));
            medium.set_faults(Faults { power_for_bytes, ..Faults::default() });
        }
        for _ in 0..random.random_range(10..700) {
            operate(&volume, &mut model, &mut random, &mut version);
            if volume.is_lost() {
                break;
            }
        }
        laps += volume.statistics().stripe_bytes_written;
        drop(volume);
        medium.crash();
        volume = open(&medium);
        // Fragments that were not flushed may be lost, and the volume is not.
        assert_eq!(volume.statistics().emptied, 0, "{seed}: {:?}", volume.statistics());
        survived += settle(&volume, &mut model);
    }
    (laps / (3 << 20), survived)
}

#[test]
fn a_crash_costs_fragments_and_never_a_wrong_byte() {
    let (mut laps, mut survived) = (0, 0);
    for seed in 0..support::runs(30) {
        let outcome = check(seed, false);
        laps += outcome.0;
        survived += outcome.1;
    }
    assert!(laps > 30, "the cursor wrapped {laps} times in all");
    assert!(survived > 1000, "{survived} fragments were found after crashes");
}

#[test]
fn a_torn_write_costs_fragments_and_never_a_wrong_byte() {
    let mut survived = 0;
    for seed in 1000..1000 + support::runs(30) {
        survived += check(seed, true).1;
    }
    assert!(survived > 1000, "{survived} fragments were found after crashes");
}

#[test]
fn flipped_bits_are_counted_and_never_returned() {
    let mut damaged = 0;
    for seed in 0..support::runs(20) {
        let mut random = support::random(seed);
        let medium = Arc::new(Faulty::new(3 << 20, seed));
        let volume = volume_on(&medium);
        let (mut model, mut version) = (Model::default(), 0);
        for _ in 0..400 {
            operate(&volume, &mut model, &mut random, &mut version);
        }
        if volume.checkpoint().is_err() {
            continue;
        }
        drop(volume);
        // Anywhere but in both superblocks: those are refused as a whole.
        medium.flip_bits(4096, (3 << 20) - 4096, 60);
        let volume = open(&medium);
        for object in 0..OBJECTS {
            for part in 0..PARTS {
                look_up(&volume, &model, object, part, true);
            }
        }
        let statistics = volume.statistics();
        damaged += statistics.damaged + statistics.damaged_checkpoints;
    }
    assert!(damaged > 20, "{damaged} damages were counted");
}

#[test]
fn writes_that_fail_lose_fragments_and_the_volume_after_a_bound() {
    for (name, faults) in [
        ("a full disk", Faults { no_space: true, ..Faults::default() }),
        ("a disk that became read-only", Faults { read_only: true, ..Faults::default() }),
        ("a bad range", Faults { unwritable: Some((1 << 20, 3 << 20)), ..Faults::default() }),
    ] {
        let mut random = support::random(7);
        let medium = Arc::new(Faulty::new(3 << 20, 7));
        let volume = volume_on(&medium);
        let (mut model, mut version) = (Model::default(), 0);
        for _ in 0..200 {
            operate(&volume, &mut model, &mut random, &mut version);
        }
        medium.set_faults(faults);
        for _ in 0..2000 {
            operate(&volume, &mut model, &mut random, &mut version);
        }
        assert!(volume.is_lost(), "{name}: {:?}", volume.statistics());
        assert!(volume.statistics().failures <= Settings::default().failures_max + 4, "{name}");
        assert!(volume.append(key(1), Part::HEAD, Description::default(), b"x").is_err(), "{name}");
    }
}

/// The bytes of all stripes, and of what lies before them.
fn snapshot(medium: &Faulty) -> Vec<u8> {
    let mut bytes = vec![0; medium.size() as usize];
    medium.read_at(&mut bytes, 0).expect("the medium works");
    bytes
}

#[test]
fn a_lost_write_does_not_bring_back_an_older_record_in_its_place() {
    let mut unwritten = 0;
    for seed in 0..support::runs(20) {
        let mut random = support::random(seed);
        let medium = Arc::new(Faulty::new(3 << 20, seed));
        let volume = volume_on(&medium);
        let mut newest = BTreeMap::new();
        // Bodies of one length, so that records of different laps begin at the same places.
        let mut append = |volume: &Volume, count: u64, version: u64| {
            for _ in 0..count {
                let object = random.random_range(0..12);
                let description = Description { version, ..Description::default() };
                let body = [version as u8; 9_000];
                volume.append(key(object), Part::fragment(0), description, &body).expect("the medium works");
                newest.insert(object, version);
            }
            volume.flush_all().expect("the medium works");
        };
        append(&volume, 800, 1);
        let before = snapshot(&medium);
        append(&volume, 800, 2);
        // A disk that lies: nothing of the second half was written.
        medium.write_at(&before, 0).expect("the medium works");
        for (object, version) in &newest {
            let found = volume.lookup(key(*object), Part::fragment(0)).expect("the medium works");
            let found = found.map(|fragment| fragment.description.version);
            assert!(found.is_none_or(|found| found == *version), "object {object}: {found:?} instead of {version}");
        }
        unwritten += volume.statistics().unwritten;
    }
    assert!(unwritten > 20, "{unwritten} lost records were noticed");
}
