//! Templates of redirects and rewrites: text with placeholders for parts of the requested path.
//!
//! A template is checked when a configuration is: no placeholder may stand where it could change
//! the host, so that a request cannot choose where clients are sent.

use percent_encoding::percent_encode;

use crate::content::name::PATH_ESCAPED;

/// Longest template.
const BYTES_MAX: usize = 2048;

/// A checked template.
#[derive(Debug)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Place(Placeholder),
}

/// A part of the request that a template takes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placeholder {
    /// The path beneath the folder of the rule.
    Path,
    /// The same up to its last slash, with it.
    Folder,
    /// The characters that the asterisk of the rule's pattern stands for.
    Star,
    /// The query with its question mark, if there is one.
    Query,
}

const PLACEHOLDERS: [(&str, Placeholder); 4] = [
    ("{path}", Placeholder::Path),
    ("{folder}", Placeholder::Folder),
    ("{*}", Placeholder::Star),
    ("{query}", Placeholder::Query),
];

/// The parts of a request, decoded but for the query.
#[derive(Clone, Copy)]
pub(super) struct Captures<'r> {
    /// Does not begin with a slash.
    pub(super) path: &'r [u8],
    pub(super) star: &'r [u8],
    pub(super) query: Option<&'r [u8]>,
}

impl<'r> Captures<'r> {
    fn of(self, placeholder: Placeholder) -> &'r [u8] {
        match placeholder {
            Placeholder::Path => self.path,
            Placeholder::Folder => {
                &self.path[..self.path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1)]
            }
            Placeholder::Star => self.star,
            Placeholder::Query => self.query.unwrap_or_default(),
        }
    }
}

impl Template {
    /// The template of an address to redirect to: a URL of http or https, or a path of the site.
    pub(super) fn address(text: &str, has_star: bool) -> Result<Self, String> {
        const EXPECTED: &str = "expected for example \"https://new.example.org/{path}\" or \"/new/{path}\"";
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let path_at = match rest {
            Some(rest) => {
                let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
                if authority.contains(['{', '}']) {
                    return Err(format!(
                        "{text:?} has a placeholder in or directly behind the host, so that a request could choose the \
                         host; put a slash behind the host"
                    ));
                }
                let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
                if authority.is_empty() || !authority.bytes().all(is_host) {
                    return Err(format!("{text:?} has no host, or an invalid one; {EXPECTED}"));
                }
                text.len() - rest.len() + authority.len()
            }
            None if text.starts_with('/') && !text.starts_with("//") && !text.starts_with("/\\") => 0,
            None => return Err(format!("{text:?} is not an address; {EXPECTED}")),
        };
        let template = Self::parse(text, has_star)?;
        if let Some(bad) = text[path_at..].chars().find(|char| !char.is_ascii_graphic() || "\"<>\\^`|".contains(*char))
        {
            return Err(format!("{text:?} contains {bad:?}; write it percent-encoded, as in a URL"));
        }
        Ok(template)
    }

    /// The template of a path of the site that is served, not percent-encoded.
    pub(super) fn path(text: &str, has_star: bool) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err(format!("{text:?} is not a path of the site; expected for example \"/new/{{path}}\""));
        }
        if text.contains("{query}") {
            return Err(format!("{text:?} contains {{query}}, and the path of a file has no query"));
        }
        let names = || text[1..].split_terminator('/');
        if text.starts_with("//") || names().any(|name| matches!(name, "" | "." | "..")) || text.contains('\0') {
            return Err(format!("{text:?} has a part that is empty, \".\" or \"..\"; no path of a file has one"));
        }
        Self::parse(text, has_star)
    }

    fn parse(text: &str, has_star: bool) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("longer than {BYTES_MAX} bytes"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let found = PLACEHOLDERS.into_iter().find(|(name, _)| rest[at..].starts_with(name));
            let Some((name, placeholder)) = found else {
                return Err(format!(
                    "{:?} is no placeholder; there are {{path}}, {{folder}}, {{*}} and {{query}}",
                    &rest[at..rest[at..].find('}').map_or(rest.len(), |end| at + end + 1)]
                ));
            };
            if placeholder == Placeholder::Star && !has_star {
                return Err("{*} needs a rule whose `files` has one * and no other wildcard, such as \"*.htm\"".into());
            }
            if at > 0 {
                parts.push(Part::Text(rest[..at].into()));
            }
            parts.push(Part::Place(placeholder));
            rest = &rest[at + name.len()..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Ok(Self(parts))
    }

    /// Writes the address. What comes from the request is percent-encoded, so that it cannot end
    /// the field; its query consists of characters of a URI already (RFC 3986, 3.4).
    pub(super) fn write_address(&self, captures: Captures<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Place(Placeholder::Query) => {
                    if let Some(query) = captures.query {
                        out.push(if out.contains(&b'?') { b'&' } else { b'?' });
                        out.extend_from_slice(query);
                    }
                }
                Part::Place(placeholder) => {
                    let escaped = percent_encode(captures.of(*placeholder), PATH_ESCAPED);
                    escaped.for_each(|part| out.extend_from_slice(part.as_bytes()));
                }
            }
        }
    }

    /// Writes the canonical name. Whether it is one: parts of a request that were harmless where
    /// they stood may be `..` here.
    #[must_use]
    pub(super) fn write_name(&self, captures: Captures<'_>, out: &mut Vec<u8>) -> bool {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Place(placeholder) => out.extend_from_slice(captures.of(*placeholder)),
            }
        }
        // The topmost folder's name is a slash; other names do not begin with one.
        if out.len() > 1 {
            out.remove(0);
        }
        let path = out.strip_suffix(b"/").unwrap_or(out);
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        **out == *b"/" || path.split(|&byte| byte == b'/').all(is_name)
    }

    /// The text in front of the first placeholder.
    pub(super) fn beginning(&self) -> &str {
        match self.0.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captures<'r>(path: &'r str, star: &'r str, query: Option<&'r str>) -> Captures<'r> {
        Captures { path: path.as_bytes(), star: star.as_bytes(), query: query.map(str::as_bytes) }
    }

    #[track_caller]
    fn check_address(template: &str, captures: Captures<'_>, expected: &str) {
        let mut out = Vec::new();
        Template::address(template, true).unwrap().write_address(captures, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{template}");
    }

    #[test]
    fn addresses_take_in_parts_of_the_request() {
        let plain = captures("a/b c.iso", "b c", Some("x=1&y"));
        check_address("https://new.example/", plain, "https://new.example/");
        check_address("https://new.example", plain, "https://new.example");
        check_address("https://new.example:8443/d/{path}", plain, "https://new.example:8443/d/a/b%20c.iso");
        check_address("http://[::1]/{path}{query}", plain, "http://[::1]/a/b%20c.iso?x=1&y");
        check_address("/n/{path}?from=old{query}", plain, "/n/a/b%20c.iso?from=old&x=1&y");
        check_address("/n/{folder}{*}.html", plain, "/n/a/b%20c.html");
        check_address("/n/{path}{query}", captures("", "", None), "/n/");
        check_address("/n/{path}{query}", captures("", "", Some("")), "/n/?");
    }

    #[test]
    fn nothing_from_a_request_ends_the_field_or_changes_the_host() {
        let hostile = captures("a\r\nSet-Cookie: b\\%?#\"/\u{e9}", "\0", None);
        check_address("/{path}", hostile, "/a%0D%0ASet-Cookie:%20b%5C%25%3F%23%22/%C3%A9");
        check_address("/x{*}", hostile, "/x%00");
        check_address("https://h/{path}", captures("@evil.example/", "", None), "https://h/@evil.example/");
    }

    #[test]
    fn addresses_that_could_lead_anywhere_are_refused() {
        for (template, part) in [
            ("", "not an address"),
            ("new.example", "not an address"),
            ("//new.example/", "not an address"),
            ("/\\new.example/", "not an address"),
            ("ftp://new.example/", "not an address"),
            ("javascript:alert(1)", "not an address"),
            ("{path}", "not an address"),
            ("https://", "no host"),
            ("https:///a", "no host"),
            ("https://user@h/", "no host"),
            ("https://h e/", "no host"),
            ("https://h{path}", "choose the host"),
            ("https://{path}/", "choose the host"),
            ("https://{*}.example/", "choose the host"),
            ("https://h/\r\nX: y", "percent-encoded"),
            ("https://h/a b", "percent-encoded"),
            ("https://h/\u{e9}", "percent-encoded"),
            ("/{paht}", "\"{paht}\" is no placeholder"),
            ("/{", "is no placeholder"),
            ("/a}", "is no placeholder"),
        ] {
            let error = Template::address(template, true).unwrap_err();
            assert!(error.contains(part), "{template}: {error}");
        }
        assert!(Template::address("/{*}", false).unwrap_err().contains("needs a rule"));
    }

    #[track_caller]
    fn check_name(template: &str, captures: Captures<'_>, expected: Option<&str>) {
        let mut out = Vec::new();
        let is_name = Template::path(template, true).unwrap().write_name(captures, &mut out);
        assert_eq!(is_name.then(|| String::from_utf8(out).unwrap()).as_deref(), expected, "{template}");
    }

    #[test]
    fn names_stay_beneath_the_site() {
        check_name("/new/{path}", captures("a/b", "", None), Some("new/a/b"));
        check_name("/new/{path}", captures("a/b/", "", None), Some("new/a/b/"));
        check_name("/new/{path}", captures("", "", None), Some("new/"));
        check_name("/{path}", captures("", "", None), Some("/"));
        check_name("/new/{folder}{*}.html", captures("a/b.htm", "b", None), Some("new/a/b.html"));
        check_name("/app.html", captures("a/b", "", None), Some("app.html"));
        for star in [".", "..", "", "a\0"] {
            check_name("/new/{*}", captures("", star, None), if star.is_empty() { Some("new/") } else { None });
        }
        check_name("/new/{*}/x", captures("", "", None), None);
        check_name("/new/.{*}", captures("", ".", None), None);
        for (template, part) in [
            ("new", "not a path"),
            ("/../a", "\"..\""),
            ("/a//b", "empty"),
            ("//a", "empty"),
            ("/a{query}", "no query"),
        ] {
            let error = Template::path(template, true).unwrap_err();
            assert!(error.contains(part), "{template}: {error}");
        }
    }
}
