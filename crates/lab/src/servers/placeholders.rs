//! Placeholders in commands, addresses and configurations: a known name in braces.
//!
//! Configurations have braces of their own, so that only the known names are replaced in them. In a
//! command or an address, an unknown name is a mistake.

/// The known names, and the meaning of each.
pub(super) const KNOWN: [(&str, &str); 10] = [
    ("root", "the folder that has the trees"),
    ("port", "the port to listen on, at 127.0.0.1"),
    ("work", "an empty folder of the server's own, which has its filled-in templates"),
    ("here", "the folder of this file"),
    ("cpus", "how many CPUs the server has"),
    ("descriptors", "the limit on open files of the server, RLIMIT_NOFILE"),
    ("files", "how many files the suite has, but at most half of `descriptors`"),
    ("connections", "the descriptors that are left for connections: less `files` and 512"),
    ("origin", "the port of the origin for dynamic content, at 127.0.0.1"),
    ("thalweg", "this program"),
];

/// The values, in the order of [`KNOWN`].
pub(super) type Values = [String; KNOWN.len()];

/// `text` with the values of all known names.
pub(super) fn fill(text: &str, values: &Values) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = KNOWN.iter().zip(values).find_map(|((name, _), value)| {
            let after = rest[1..].strip_prefix(name)?.strip_prefix('}')?;
            Some((value, after))
        });
        match known {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// The first name in braces that is not known.
pub(super) fn unknown(text: &str) -> Option<&str> {
    text.split('{').skip(1).find_map(|part| {
        let (name, _) = part.split_once('}')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_name && KNOWN.iter().all(|(known, _)| *known != name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_filled_in_and_other_braces_stay() {
        let values = KNOWN.map(|(name, _)| name.to_uppercase());
        assert_eq!(fill("http { listen {port}; root {root}; } {", &values), "http { listen PORT; root ROOT; } {");
        assert_eq!(fill("{{port}} ${port}", &values), "{PORT} $PORT");
        assert_eq!(fill("{ports} {}", &values), "{ports} {}");
    }

    #[test]
    fn unknown_names_are_found() {
        assert_eq!(unknown("nginx -p {work} -c {wrok}/nginx.conf"), Some("wrok"));
        assert_eq!(unknown("sh -c 'a() { b; }; ${HOME} {work}'"), None);
    }
}
