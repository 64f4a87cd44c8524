//! Stored objects as operators name them and see them, in a volume or in a running server: patterns
//! of names, and rows of JSON.

use serde_json::{Value, json};
use thalweg_tier::StoredObject;

/// An object as JSON.
pub(crate) fn row(object: &StoredObject) -> Value {
    json!({
        "key": object.key.to_string(), "name": object.name, "fragments": object.fragments, "stored_bytes": object.bytes,
        "object_bytes": object.object_bytes, "stored_s": object.stored_s, "hits": object.hits, "stale": object.is_stale,
    })
}

/// A pattern of names: with a host, or the path on all hosts.
fn without_scheme(pattern: &str) -> &str {
    let rest = pattern.strip_prefix("https://").or_else(|| pattern.strip_prefix("http://"));
    rest.unwrap_or(pattern)
}

/// The parts of a name and of a pattern that are compared: the paths alone, if the pattern has no
/// host, or the name has none since its site answers for all hosts.
fn compared<'a>(name: &'a str, pattern: &'a str) -> (&'a str, &'a str) {
    let path = |text: &'a str| text.find('/').map_or("", |slash| &text[slash..]);
    let pattern = without_scheme(pattern);
    if pattern.starts_with('/') || name.starts_with('/') { (path(name), path(pattern)) } else { (name, pattern) }
}

/// Whether a name begins with a prefix of an operator's.
pub(crate) fn begins_with(name: &str, prefix: &str) -> bool {
    let (name, prefix) = compared(name, prefix);
    name.starts_with(prefix)
}

/// Whether a URL of an operator's is that of a name.
pub(crate) fn is_named(name: &str, url: &str) -> bool {
    let (name, url) = compared(name, url);
    name == url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_with_a_host_or_the_path_on_all_hosts() {
        let name = "a.example/debian/x";
        for (prefix, begins) in [
            ("a.example/debian/", true),
            ("https://a.example/deb", true),
            ("http://a.example/debian/x", true),
            ("/debian/", true),
            ("debian/", false),
            ("b.example/", false),
            ("/x", false),
            ("", true),
        ] {
            assert_eq!(begins_with(name, prefix), begins, "{prefix}");
        }
        for (url, is) in [("https://a.example/debian/x", true), ("/debian/x", true), ("/debian/", false), ("x", false)]
        {
            assert_eq!(is_named(name, url), is, "{url}");
        }
        // A site without a host answers for all of them.
        for (url, is) in [("https://a.example/x", true), ("b.example/x", true), ("/x", true), ("a.example/y", false)] {
            assert_eq!((is_named("/x", url), begins_with("/x", url)), (is, is), "{url}");
        }
    }
}
