//! The inventory of a store: each object once, with all that is stored of it.
//!
//! A large body is stored under a key of its own, which only the head of its object names: the
//! store by itself would tell of it apart. Both are put together here, over volumes that are open
//! for reading alone and over those of a running tier.

use std::collections::{BTreeMap, HashMap};

use thalweg_cache::{Cache, Key, Stored, StoredHead};

use crate::head::bodies;

/// An object, and what is stored of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The key of its head; of fragments whose head is gone, their own.
    pub key: Key,
    /// Its name, if its head is there.
    pub name: Option<Box<str>>,
    /// Fragments of all its variants.
    pub fragments: u64,
    /// Bytes that are stored, with those of the head.
    pub bytes: u64,
    /// Bytes of its largest variant.
    pub object_bytes: u64,
    /// When the latest part was stored, in seconds since 1970.
    pub stored_s: u64,
    /// Hits as the store counts them for its eviction, from 0 to 3.
    pub hits: u8,
    /// A soft purge has made it stale.
    pub is_stale: bool,
}

/// The objects that are wanted of a store.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// Whether an object of this name is; objects without a name are if this is of `None`.
    pub is_named: &'w dyn Fn(Option<&str>) -> bool,
    /// Most objects: memory is bounded by it.
    pub objects_max: usize,
    /// Of more objects, those with the most hits are told; otherwise, those that are found first.
    pub hottest: bool,
}

/// The objects of a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// By their keys; the hottest ones first if those are wanted.
    pub objects: Vec<StoredObject>,
    /// There are more.
    pub is_cut_off: bool,
}

impl StoredObject {
    fn of(key: Key) -> Self {
        Self { key, name: None, fragments: 0, bytes: 0, object_bytes: 0, stored_s: 0, hits: 0, is_stale: false }
    }

    /// Hits, then the time: the larger, the hotter.
    fn heat(&self) -> (u8, u64) {
        (self.hits, self.stored_s)
    }
}

/// Walks over stores twice: over the heads, and over all parts. Look-ups go on meanwhile. A body
/// may be in another store than its head.
pub fn inventory(caches: &[&Cache], wanted: Wanted<'_>) -> Inventory {
    let mut objects: BTreeMap<Key, (StoredObject, Vec<Key>)> = BTreeMap::new();
    let mut is_cut_off = false;
    let objects_max = wanted.objects_max.max(1);
    // Room to choose the hottest from.
    let kept_max = if wanted.hottest { objects_max.saturating_mul(2) } else { objects_max };
    let mut note_head = |StoredHead { name, rest, stored }: StoredHead<'_>| {
        if !(wanted.is_named)(name) {
            return;
        }
        let is_known = objects.contains_key(&stored.key);
        if !is_known && objects.len() >= kept_max {
            is_cut_off = true;
            if !wanted.hottest {
                return;
            }
            cool(&mut objects, kept_max - objects_max);
        }
        let (object, keys) = objects.entry(stored.key).or_insert_with(|| (StoredObject::of(stored.key), Vec::new()));
        let bodies = bodies(rest).unwrap_or_default();
        object.name = name.map(Into::into);
        object.is_stale = stored.is_stale;
        object.hits = stored.hits;
        object.stored_s = stored.stored_s;
        let bodies_max = bodies.iter().map(|(_, length)| *length).max();
        object.object_bytes = bodies_max.unwrap_or(stored.description.object_bytes);
        *keys = bodies.into_iter().filter_map(|(key, _)| key).collect();
    };
    for cache in caches {
        cache.list_heads(&mut note_head);
    }
    let owners: HashMap<Key, Key> =
        objects.iter().flat_map(|(key, (_, bodies))| bodies.iter().map(move |body| (*body, *key))).collect();
    let are_orphans_wanted = (wanted.is_named)(None);
    let mut note_part = |stored: Stored| {
        let owner = owners.get(&stored.key).copied().unwrap_or(stored.key);
        let is_new = !objects.contains_key(&owner);
        if is_new && (!are_orphans_wanted || objects.len() >= objects_max) {
            is_cut_off |= are_orphans_wanted;
            return;
        }
        let (object, _) = objects.entry(owner).or_insert_with(|| (StoredObject::of(owner), Vec::new()));
        object.fragments += u64::from(stored.part.number().is_some());
        object.bytes += u64::from(stored.bytes);
        object.stored_s = object.stored_s.max(stored.stored_s);
        object.hits = object.hits.max(stored.hits);
        if is_new {
            object.object_bytes = stored.description.object_bytes;
        }
    };
    for cache in caches {
        cache.list(&mut note_part);
    }
    let mut objects: Vec<_> = objects.into_values().map(|(object, _)| object).collect();
    if wanted.hottest {
        objects.sort_by(|a, b| b.heat().cmp(&a.heat()).then_with(|| a.name.cmp(&b.name)));
        is_cut_off |= objects.len() > objects_max;
        objects.truncate(objects_max);
    }
    Inventory { objects, is_cut_off }
}

/// Lets go of so many objects, those that are cooler than the others.
fn cool(objects: &mut BTreeMap<Key, (StoredObject, Vec<Key>)>, count: usize) {
    let mut heats: Vec<_> = objects.values().map(|(object, _)| (object.heat(), object.key)).collect();
    heats.sort_unstable();
    for (_, key) in heats.into_iter().take(count) {
        objects.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use thalweg_cache::medium::Allocation;
    use thalweg_cache::{Description, Head, Part, Settings, Shape};

    use super::*;

    /// The bytes of a head with one variant, whose body is under a key of its own.
    fn with_body_at(key: Key, length: u64) -> Vec<u8> {
        let mut rest = vec![1, 1, 0, 200, 0];
        rest.extend([0; 16]);
        rest.extend([0; 5]);
        rest.extend(1_u16.to_le_bytes());
        rest.extend([4, 0]);
        rest.extend(b"Etag\x03\0\0\0\"a\"");
        rest.push(1);
        rest.extend(key.0);
        rest.extend(length.to_le_bytes());
        rest
    }

    fn store(folder: &tempfile::TempDir) -> Cache {
        let path = folder.path().join("volume");
        Cache::create(&path, 16 << 20, Allocation::Sparse, Shape { stripe_bytes: 1 << 20, ..Shape::default() })
            .unwrap();
        let cache = Cache::open(&[path], Settings::default()).unwrap();
        let description = |object_bytes| Description { version: 1, object_bytes, ..Description::default() };
        for (name, hits) in [("a.example/large", 1), ("a.example/other", 3), ("b.example/x", 2)] {
            let (key, body) = (Key::of(name.as_bytes()), Key::of(format!("{name}\0body").as_bytes()));
            let head = Head { name, rest: &with_body_at(body, 2000) }.encode().unwrap();
            cache.append(key, Part::HEAD, description(0), &head).unwrap();
            for number in 0..2 {
                cache.append(body, Part::fragment(number), description(2000), &[0; 1000]).unwrap();
            }
            (0..hits).for_each(|_| assert!(cache.lookup(key, Part::HEAD).unwrap().is_some()));
        }
        // Its head is gone.
        cache.append(Key::of(b"orphan"), Part::fragment(0), description(9000), &[0; 500]).unwrap();
        cache.flush().unwrap();
        cache
    }

    fn names(inventory: &Inventory) -> Vec<&str> {
        inventory.objects.iter().map(|object| object.name.as_deref().unwrap_or("-")).collect()
    }

    #[test]
    fn an_object_whose_body_has_a_key_of_its_own_is_one_row() {
        let folder = tempfile::TempDir::new().unwrap();
        let cache = store(&folder);
        let all = inventory(&[&cache], Wanted { is_named: &|_| true, objects_max: 100, hottest: false });
        let mut found = names(&all);
        found.sort_unstable();
        assert_eq!((found, all.is_cut_off), (vec!["-", "a.example/large", "a.example/other", "b.example/x"], false));
        let large = all.objects.iter().find(|object| object.name.as_deref() == Some("a.example/large")).unwrap();
        assert_eq!((large.fragments, large.object_bytes), (2, 2000));
        assert!(large.bytes > 2000 && large.key == Key::of(b"a.example/large"));
        let orphan = all.objects.iter().find(|object| object.name.is_none()).unwrap();
        assert_eq!((orphan.fragments, orphan.bytes, orphan.object_bytes), (1, 500, 9000));
    }

    #[test]
    fn objects_are_chosen_by_name_and_bounded_and_the_hottest_are_kept() {
        let folder = tempfile::TempDir::new().unwrap();
        let cache = store(&folder);
        let is_of_a = |name: Option<&str>| name.is_some_and(|name| name.starts_with("a.example/"));
        let of_a = inventory(&[&cache], Wanted { is_named: &is_of_a, objects_max: 100, hottest: false });
        assert_eq!((of_a.objects.len(), of_a.is_cut_off), (2, false));
        let one = inventory(&[&cache], Wanted { is_named: &is_of_a, objects_max: 1, hottest: false });
        assert_eq!((one.objects.len(), one.is_cut_off), (1, true));
        for (objects_max, expected) in [
            (1, &["a.example/other"][..]),
            (2, &["a.example/other", "b.example/x"]),
            (9, &["a.example/other", "b.example/x", "a.example/large"]),
        ] {
            let wanted = Wanted { is_named: &|name| name.is_some(), objects_max, hottest: true };
            let hottest = inventory(&[&cache], wanted);
            assert_eq!(names(&hottest), expected, "{objects_max}");
        }
    }
}
