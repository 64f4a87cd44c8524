//! Cache-Control (RFC 9111, 5.2; RFC 5861; RFC 8246) and Pragma: the directives of a request and of
//! a response.
//!
//! Of a directive that comes more than once the first counts (4.2.1); a directive that is invalid
//! is read as the more careful choice. Which directives win over which is for those that use them.

use std::borrow::Cow;

use thalweg_wire::trim_ows;

use crate::fields::{FieldLines, is_token, list_elements, token_or_string};
use crate::seconds::{SECONDS_MAX, delta_seconds};

/// A directive whose argument is a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The directive is absent.
    #[default]
    Absent,
    /// The seconds, at most [`SECONDS_MAX`].
    Seconds(u32),
    /// The directive has no number. The response counts as stale (RFC 9111, 4.2.1).
    Invalid,
}

impl Limit {
    /// The seconds, if the directive is there and valid.
    #[must_use]
    pub const fn seconds(self) -> Option<u32> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Absent | Self::Invalid => None,
        }
    }

    fn set(&mut self, argument: Option<&[u8]>) {
        if *self == Self::Absent {
            *self = argument.and_then(delta_seconds).map_or(Self::Invalid, Self::Seconds);
        }
    }
}

/// A directive that is about a whole response, or about fields of it that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FieldScope {
    /// The directive is absent.
    #[default]
    Absent,
    /// The directive is about the whole response.
    Whole,
    /// The directive is about the named fields, in lower case.
    Fields(Vec<Box<str>>),
}

impl FieldScope {
    /// The named fields.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        match self {
            Self::Fields(names) => names,
            Self::Absent | Self::Whole => &[],
        }
    }

    /// Adds what another directive of that name says: the whole response wins over fields. A list
    /// without a single valid name, or with an invalid one, is read as the whole response.
    fn add(&mut self, argument: Option<&[u8]>) {
        let Some(list) = argument else {
            *self = Self::Whole;
            return;
        };
        let mut names = match std::mem::take(self) {
            Self::Whole => {
                *self = Self::Whole;
                return;
            }
            Self::Fields(names) => names,
            Self::Absent => Vec::new(),
        };
        for name in list_elements(list) {
            match std::str::from_utf8(name) {
                Ok(text) if is_token(name) => names.push(text.to_ascii_lowercase().into()),
                _ => {
                    *self = Self::Whole;
                    return;
                }
            }
        }
        *self = if names.is_empty() { Self::Whole } else { Self::Fields(names) };
    }
}

/// The directives of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// `max-age`
    pub max_age: Limit,
    /// `s-maxage`
    pub s_maxage: Limit,
    /// `stale-while-revalidate` (RFC 5861, 3)
    pub stale_while_revalidate: Limit,
    /// `stale-if-error` (RFC 5861, 4)
    pub stale_if_error: Limit,
    /// `no-cache`
    pub no_cache: FieldScope,
    /// `private`
    pub private: FieldScope,
    /// `no-store`
    pub no_store: bool,
    /// `public`
    pub public: bool,
    /// `must-revalidate`
    pub must_revalidate: bool,
    /// `proxy-revalidate`
    pub proxy_revalidate: bool,
    /// `must-understand`
    pub must_understand: bool,
    /// `immutable` (RFC 8246)
    pub immutable: bool,
    /// `no-transform`
    pub no_transform: bool,
}

impl ResponseDirectives {
    /// Reads all Cache-Control fields of a response. Unknown directives are skipped.
    #[must_use]
    pub fn of(fields: &impl FieldLines) -> Self {
        let mut found = Self::default();
        for directive in fields.all("cache-control").flat_map(list_elements).filter_map(Directive::parse) {
            found.add(directive.name, directive.argument());
        }
        found
    }

    /// Reads all Surrogate-Control fields of a response (W3C Note "Edge Architecture Specification"
    /// of 2001, 2.2). They may have the directives of Cache-Control, too, as at CDNs.
    ///
    /// A directive with a parameter is for the cache of that name (2.3): this one announces none.
    /// `no-store-remote` counts as `no-store`, since the distance to the origin is not known.
    pub(crate) fn of_surrogates(fields: &impl FieldLines) -> Self {
        let mut found = Self::default();
        let elements = fields.all("surrogate-control").flat_map(list_elements);
        for directive in elements.filter(|element| !element.contains(&b';')).filter_map(Directive::parse) {
            let argument = directive.argument();
            let is = |name: &str| directive.name.eq_ignore_ascii_case(name.as_bytes());
            let plus = argument.as_deref().and_then(|text| text.iter().position(|&byte| byte == b'+'));
            match (argument.as_deref(), plus) {
                (Some(text), Some(plus)) if is("max-age") => {
                    found.max_age.set(Some(&text[..plus]));
                    found.stale_while_revalidate.set(Some(&text[plus + 1..]));
                    found.stale_if_error.set(Some(&text[plus + 1..]));
                }
                _ if is("no-store-remote") => found.no_store = true,
                _ => found.add(directive.name, argument),
            }
        }
        found
    }

    /// Adds a directive; an argument that could not be read is empty.
    pub(crate) fn add(&mut self, name: &[u8], argument: Option<Cow<'_, [u8]>>) {
        let argument = argument.as_deref();
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("max-age") {
            self.max_age.set(argument);
        } else if is("s-maxage") {
            self.s_maxage.set(argument);
        } else if is("stale-while-revalidate") {
            self.stale_while_revalidate.set(argument);
        } else if is("stale-if-error") {
            self.stale_if_error.set(argument);
        } else if is("no-cache") {
            self.no_cache.add(argument);
        } else if is("private") {
            self.private.add(argument);
        } else if let Some(flag) = self.flag(name) {
            *flag = true;
        }
    }

    /// The directives that are there or not, whatever argument they have.
    fn flag(&mut self, name: &[u8]) -> Option<&mut bool> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            6 if is("public") => Some(&mut self.public),
            8 if is("no-store") => Some(&mut self.no_store),
            9 if is("immutable") => Some(&mut self.immutable),
            12 if is("no-transform") => Some(&mut self.no_transform),
            15 if is("must-revalidate") => Some(&mut self.must_revalidate),
            15 if is("must-understand") => Some(&mut self.must_understand),
            16 if is("proxy-revalidate") => Some(&mut self.proxy_revalidate),
            _ => None,
        }
    }
}

/// The directives of a request. Those with an invalid argument count as absent: a request may
/// do without any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `max-age`
    pub max_age: Option<u32>,
    /// `min-fresh`
    pub min_fresh: Option<u32>,
    /// `max-stale`; without an argument it is [`SECONDS_MAX`].
    pub max_stale: Option<u32>,
    /// `stale-if-error` (RFC 5861, 4)
    pub stale_if_error: Option<u32>,
    /// `no-cache`, or `Pragma: no-cache` in a request without Cache-Control (RFC 9111, 5.4).
    pub no_cache: bool,
    /// `no-store`
    pub no_store: bool,
    /// `only-if-cached`
    pub only_if_cached: bool,
}

impl RequestDirectives {
    /// Reads all Cache-Control and Pragma fields of a request.
    #[must_use]
    pub fn of(fields: &impl FieldLines) -> Self {
        let mut found = Self::default();
        for directive in fields.all("cache-control").flat_map(list_elements).filter_map(Directive::parse) {
            found.add(&directive);
        }
        if !found.no_cache && !fields.has("cache-control") {
            let mut pragmas = fields.all("pragma").flat_map(list_elements);
            found.no_cache = pragmas.any(|pragma| pragma.eq_ignore_ascii_case(b"no-cache"));
        }
        found
    }

    fn add(&mut self, directive: &Directive<'_>) {
        let is = |other: &str| directive.name.eq_ignore_ascii_case(other.as_bytes());
        let seconds = || directive.argument().as_deref().and_then(delta_seconds);
        if is("max-age") {
            self.max_age = self.max_age.or_else(seconds);
        } else if is("min-fresh") {
            self.min_fresh = self.min_fresh.or_else(seconds);
        } else if is("max-stale") {
            let any = directive.value.is_none().then_some(SECONDS_MAX);
            self.max_stale = self.max_stale.or(any).or_else(seconds);
        } else if is("stale-if-error") {
            self.stale_if_error = self.stale_if_error.or_else(seconds);
        } else {
            self.no_cache |= is("no-cache");
            self.no_store |= is("no-store");
            self.only_if_cached |= is("only-if-cached");
        }
    }
}

/// One element of Cache-Control: `name` or `name=value`.
struct Directive<'a> {
    name: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> Directive<'a> {
    /// Reads an element. Whitespace before the `=` is an error of the sender that changes nothing
    /// about the name; behind the `=` it makes the argument invalid.
    fn parse(element: &'a [u8]) -> Option<Self> {
        let (name, value) = match element.iter().position(|&byte| byte == b'=') {
            Some(at) => (trim_ows(&element[..at]), Some(&element[at + 1..])),
            None => (element, None),
        };
        is_token(name).then_some(Self { name, value })
    }

    /// The argument as a token or as a quoted string: recipients read both (RFC 9111, 5.2).
    /// An argument that is neither is read as an empty one, which no directive takes for valid.
    fn argument(&self) -> Option<Cow<'a, [u8]>> {
        self.value.map(|value| token_or_string(value).unwrap_or(Cow::Borrowed(b"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    #[test]
    fn lifetimes() {
        let check = |lines: &[&str], expected: Limit| {
            assert_eq!(ResponseDirectives::of(&fields(lines)).max_age, expected, "{lines:?}");
        };
        let line = |value: &str, expected| check(&[&format!("Cache-Control: {value}")], expected);
        // RFC 9111, 5.2 and 1.2.2.
        line("max-age=3600", Limit::Seconds(3600));
        line("MaX-aGe=3600", Limit::Seconds(3600));
        line("max-age=003600", Limit::Seconds(3600));
        line("max-age=\"3600\"", Limit::Seconds(3600));
        line("max-age=2147483647", Limit::Seconds(2_147_483_647));
        line("max-age=2147483648", Limit::Seconds(SECONDS_MAX));
        line("max-age=2147483649", Limit::Seconds(SECONDS_MAX));
        line("max-age=99999999999", Limit::Seconds(SECONDS_MAX));
        line("unknown, max-age=3600, other=1", Limit::Seconds(3600));
        line("public", Limit::Absent);
        line("x-max-age=3600", Limit::Absent);
        // 4.2.1: invalid freshness information.
        for value in ["'3600'", "-3600", "3600.0", "3600.5", "a3600", "3600a", "\"3600", "", "+1", " 3600", "36 00"] {
            line(&format!("max-age={value}"), Limit::Invalid);
        }
        line("max-age", Limit::Invalid);
        line("max-age =3600", Limit::Seconds(3600));
        // Quoted strings of other directives.
        line("other=\"max-age=3600\", max-age=1", Limit::Seconds(1));
        line("max-age=1, other=\"max-age=3600\"", Limit::Seconds(1));
        line("other=\"a, max-age=3600, b\", max-age=\"1\"", Limit::Seconds(1));
        line("other=\"max-age=3600", Limit::Absent);
        // 4.2.1: the first of several.
        line("max-age=3600, max-age=1800", Limit::Seconds(3600));
        line("max-age=x, max-age=1800", Limit::Invalid);
        check(&["Cache-Control: max-age=1", "Cache-Control: max-age=1800"], Limit::Seconds(1));
    }

    #[test]
    fn scopes() {
        let check = |value: &str, expected: Option<&[&str]>| {
            let scope = ResponseDirectives::of(&fields(&[&format!("Cache-Control: {value}")])).no_cache;
            let names: Vec<Box<str>> = expected.unwrap_or_default().iter().map(|&name| name.into()).collect();
            let expected = match expected {
                None => FieldScope::Absent,
                Some([]) => FieldScope::Whole,
                Some(_) => FieldScope::Fields(names),
            };
            assert_eq!(scope, expected, "{value}");
        };
        // RFC 9111, 5.2.2.4.
        check("max-age=1", None);
        check("No-CaChE", Some(&[]));
        check("no-cache=\"A, b\"", Some(&["a", "b"]));
        check("no-cache=a", Some(&["a"]));
        check("no-cache=\"a\", no-cache=\"b\"", Some(&["a", "b"]));
        check("no-cache=\"a\", no-cache", Some(&[]));
        check("no-cache, no-cache=\"a\"", Some(&[]));
        check("no-cache=\"\"", Some(&[]));
        check("no-cache=\"a b\"", Some(&[]));
        check("no-cache=\"a", Some(&[]));
    }

    #[test]
    fn flags() {
        let directives = ResponseDirectives::of(&fields(&[
            "Cache-Control: nO-StOrE, public=yes, immutable",
            "cache-control: proxy-revalidate,must-understand,,must-revalidate, no-transform",
        ]));
        let flags = [
            directives.no_store,
            directives.public,
            directives.immutable,
            directives.proxy_revalidate,
            directives.must_understand,
            directives.must_revalidate,
            directives.no_transform,
        ];
        assert_eq!(flags, [true; 7]);
        assert!(!ResponseDirectives::of(&fields(&["Cache-Control: no-stor, x=no-store"])).no_store);
    }

    #[test]
    fn requests() {
        let check = |lines: &[&str], expected: RequestDirectives| {
            assert_eq!(RequestDirectives::of(&fields(lines)), expected, "{lines:?}");
        };
        let none = RequestDirectives::default();
        // RFC 9111, 5.2.1.
        check(&["Cache-Control: max-age=0"], RequestDirectives { max_age: Some(0), ..none });
        check(&["Cache-Control: max-age=x"], none);
        check(&["Cache-Control: min-fresh=5"], RequestDirectives { min_fresh: Some(5), ..none });
        check(&["Cache-Control: max-stale=5"], RequestDirectives { max_stale: Some(5), ..none });
        check(&["Cache-Control: max-stale"], RequestDirectives { max_stale: Some(SECONDS_MAX), ..none });
        check(&["Cache-Control: max-stale=x"], none);
        check(&["Cache-Control: stale-if-error=9"], RequestDirectives { stale_if_error: Some(9), ..none });
        check(
            &["Cache-Control: no-store, only-if-cached"],
            RequestDirectives { no_store: true, only_if_cached: true, ..none },
        );
        // 5.4.
        check(&["Pragma: foo, No-Cache"], RequestDirectives { no_cache: true, ..none });
        check(&["Pragma: no-cache", "Cache-Control: max-age=5"], RequestDirectives { max_age: Some(5), ..none });
        check(&["Pragma: foo"], none);
    }
}
