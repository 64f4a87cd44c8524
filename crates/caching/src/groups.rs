//! Cache groups (RFC 9875): names under which responses of one origin are invalidated together.

use sfv::{BareItem, List, ListEntry, Parser};

use crate::fields::FieldLines;

/// Most groups that are read of one field. RFC 9875, 2.1 asks for at least 32.
pub const GROUPS_MAX: usize = 128;

/// Longest name of a group that is read. RFC 9875, 2.1 asks for at least 32 characters.
pub const GROUP_BYTES_MAX: usize = 256;

/// The groups that a response belongs to; their names are compared with case, within its origin.
#[must_use]
pub fn cache_groups(fields: &impl FieldLines) -> Vec<String> {
    member_groups(fields, "cache-groups")
}

/// The strings in a structured list. A field that is no list is ignored (RFC 9651, 4.2), and
/// so are members that are no strings, beyond the bounds, or there twice. Parameters have no
/// meaning.
pub(crate) fn member_groups(fields: &impl FieldLines, name: &str) -> Vec<String> {
    let mut groups = Vec::new();
    if !fields.has(name) {
        return groups;
    }
    let value = fields.all(name).collect::<Vec<_>>().join(&b", "[..]);
    let members: List = Parser::new(&value).parse().unwrap_or_default();
    for member in members {
        let ListEntry::Item(item) = member else { continue };
        let BareItem::String(group) = item.bare_item else { continue };
        let group = String::from(group);
        if group.len() <= GROUP_BYTES_MAX && groups.len() < GROUPS_MAX && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    #[test]
    fn groups_of_a_response() {
        let check = |lines: &[&str], expected: &[&str]| {
            assert_eq!(cache_groups(&fields(lines)), expected, "{lines:?}");
        };
        // RFC 9875, 2.
        check(&[], &[]);
        check(&["Cache-Groups: \"scripts\""], &["scripts"]);
        check(&["Cache-Groups: \"a\", \"B c\";x=1, \"b c\""], &["a", "B c", "b c"]);
        check(&["Cache-Groups: \"a\"", "cache-groups: \"b\", \"a\""], &["a", "b"]);
        check(&["Cache-Groups: \"a\", token, 1, (\"b\")"], &["a"]);
        check(&["Cache-Groups: \"a"], &[]);
        check(&["Cache-Groups: \"a\",,"], &[]);
    }

    #[test]
    fn bounds() {
        let count = |value: String| cache_groups(&fields(&[&format!("Cache-Groups: {value}")])).len();
        let many = |count: usize| (0..count).map(|number| format!("\"{number}\"")).collect::<Vec<_>>().join(", ");
        assert_eq!(count(many(GROUPS_MAX)), GROUPS_MAX);
        assert_eq!(count(many(GROUPS_MAX + 1)), GROUPS_MAX);
        assert_eq!(count(format!("\"{}\"", "a".repeat(GROUP_BYTES_MAX))), 1);
        assert_eq!(count(format!("\"{}\"", "a".repeat(GROUP_BYTES_MAX + 1))), 0);
    }
}
