//! Listings of buckets.

use thalweg_origin::page_entries;

/// Reads a page of a listing: each entry is a name that a path could lead to, and each name
/// comes once.
pub fn listing(data: &[u8]) {
    let Ok(listing) = page_entries(data, "a/") else { return };
    for entry in &listing.entries {
        assert!(!matches!(&*entry.name, b"" | b"." | b".."), "{:?}", entry.name);
        assert!(!entry.name.contains(&b'/'), "{:?}", entry.name);
    }
    assert!(listing.entries.windows(2).all(|pair| pair[0].name < pair[1].name));
}
