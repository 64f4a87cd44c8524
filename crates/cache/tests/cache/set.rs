//! Several volumes as one cache: shares, losses, and volumes that come back.

use crate::support::{key, settings, small_shape};
use std::sync::Arc;
use thalweg_cache::{
    Cache, Description, Error, Part, Volume,
    medium::{Faults, Faulty, Medium},
};

fn media(sizes: &[u64]) -> Vec<Arc<Faulty>> {
    let media = sizes.iter().enumerate().map(|(at, size)| {
        let medium = Arc::new(Faulty::new(*size, at as u64));
        Volume::create_with_id(&*medium, small_shape(), 1 + at as u64).expect("the volume is large enough");
        medium
    });
    media.collect()
}

fn open(media: &[Arc<Faulty>]) -> Cache {
    let media = media.iter().map(|medium| Ok(medium.clone() as Arc<dyn Medium>));
    Cache::over(media.collect(), settings()).expect("the volumes open")
}

fn fill(cache: &Cache, objects: std::ops::Range<u64>) {
    for object in objects {
        let _ = cache.append(key(object), Part::HEAD, Description { version: object, ..Description::default() }, b"x");
    }
}

fn found(cache: &Cache, objects: std::ops::Range<u64>) -> usize {
    objects.filter(|object| matches!(cache.lookup(key(*object), Part::HEAD), Ok(Some(_)))).count()
}

#[test]
fn volumes_have_shares_in_proportion_to_their_sizes() {
    let media = media(&[4 << 20, 8 << 20, 4 << 20]);
    let cache = open(&media);
    fill(&cache, 0..1200);
    let appended: Vec<_> = cache.volumes().iter().map(|volume| volume.statistics().appended).collect();
    for (appended, expected) in appended.iter().zip([300, 600, 300]) {
        assert!(appended.abs_diff(expected) < 60, "{appended} of 1200, and {expected} is the share");
    }
    // Two fragments with the same tag and bucket displace each other, one in a thousand.
    let all = found(&cache, 0..1200);
    assert!(all >= 1195, "{all} of 1200 are found");
    cache.flush().expect("the media work");
    drop(cache);
    assert_eq!(found(&open(&media), 0..1200), all, "the shares are the same after a restart");
}

/// Makes a volume fail until it is taken out.
fn lose(cache: &Cache, medium: &Faulty) {
    medium.set_faults(Faults { unwritable: Some((0, u64::MAX)), ..Faults::default() });
    for object in 100_000..200_000 {
        if cache.statistics().lost_volumes == 1 {
            return;
        }
        let appended = cache.append(key(object), Part::HEAD, Description::default(), &[0; 9_000]);
        assert!(appended.is_ok() || matches!(appended, Err(Error::Io { .. } | Error::Lost(_))));
    }
    panic!("the volume fails and was not taken out");
}

#[test]
fn a_lost_volume_costs_its_share_and_comes_back_empty() {
    let media = media(&[8 << 20, 8 << 20, 8 << 20]);
    let cache = open(&media);
    fill(&cache, 0..900);
    cache.checkpoint().expect("the media work");
    lose(&cache, &media[1]);
    let left = found(&cache, 0..900);
    assert!((500..700).contains(&left), "{left} of 900 are left");
    fill(&cache, 1000..1900);
    let new = found(&cache, 1000..1900);
    assert!(new >= 895, "all new ones have a place, and {new} of 900 are found");
    for object in 0..900 {
        cache.remove(key(object)).expect("a lost volume does not hinder a purge");
    }
    cache.flush().expect("the others work");
    drop(cache);
    media[1].set_faults(Faults::default());
    let cache = open(&media);
    assert_eq!(found(&cache, 0..900), 0, "the volume came back with what was purged while it was away");
}

#[test]
fn a_volume_that_was_missing_at_a_start_comes_back_empty() {
    let media = media(&[8 << 20, 8 << 20]);
    let cache = open(&media);
    fill(&cache, 0..400);
    cache.flush().expect("the media work");
    drop(cache);
    let cache = open(&media[..1]);
    let left = found(&cache, 0..400);
    assert!((120..280).contains(&left), "{left} of 400 are left");
    cache.remove(key(1)).expect("the medium works");
    drop(cache);
    let cache = open(&media);
    assert!(cache.lookup(key(1), Part::HEAD).expect("the media work").is_none());
    assert!(found(&cache, 0..400) <= left);
}

#[test]
fn a_cache_without_volumes_says_so() {
    let media = media(&[4 << 20]);
    let cache = open(&media);
    fill(&cache, 0..10);
    lose(&cache, &media[0]);
    assert!(matches!(cache.lookup(key(1), Part::HEAD), Err(Error::NoVolume)));
    assert!(matches!(cache.append(key(1), Part::HEAD, Description::default(), b""), Err(Error::NoVolume)));
    assert!(cache.remove(key(1)).is_err(), "a purge that is nowhere durable is no success");
    let blank: Arc<dyn Medium> = Arc::new(Faulty::new(4 << 20, 1));
    assert!(matches!(Cache::over(vec![Ok(blank.clone())], settings()), Err(Error::NotAVolume)));
    media[0].set_faults(Faults::default());
    drop(cache);
    let cache = Cache::over(vec![Ok(blank), Ok(media[0].clone())], settings()).expect("one volume is whole");
    assert!(matches!(cache.refused(), [(0, Error::NotAVolume)]));
}
