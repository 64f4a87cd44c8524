//! Views: the part of a folder that a request names, its order and its form, by the query of a
//! listing's address.
//!
//! A parameter that means nothing here is passed over, as any other page would do: a listing has to
//! be there for links that carry more. The one thing that can fail is a page that does not exist,
//! which is found out later.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode, percent_encode};

/// A page of a folder, its order, its form, and the text that names have to contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct View {
    pub(crate) sort: Sort,
    pub(crate) descending: bool,
    /// From 0 on; one less than in the address.
    pub(crate) page: u32,
    pub(crate) extent: Extent,
    pub(crate) format: Format,
    pub(crate) filter: Filter,
}

/// How much of a folder a request gets, if it has more entries than a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Extent {
    /// The page that its query names.
    Named,
    /// The first page: a browser's request that names none.
    #[default]
    First,
    /// All entries: a program's request that names no page. Programs do not follow links to other
    /// pages, and would take the first one for the folder.
    Whole,
}

/// The text that names have to contain, without regard to the case of ASCII letters; an empty one
/// is in all names. It is in lower case, and bounded, since each text is a page of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Filter {
    bytes: [u8; FILTER_BYTES_MAX],
    length: u8,
}

/// Longest text of a filter; the rest of a longer one is passed over, which shows more.
pub(crate) const FILTER_BYTES_MAX: usize = 64;

impl Default for Filter {
    fn default() -> Self {
        Self { bytes: [0; FILTER_BYTES_MAX], length: 0 }
    }
}

impl Filter {
    /// Reads the value of a form's field (application/x-www-form-urlencoded).
    fn parse(value: &[u8]) -> Self {
        let spaced: Vec<u8> = value.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
        let mut filter = Self::default();
        let decoded = percent_decode(&spaced).take(FILTER_BYTES_MAX);
        for (byte, decoded) in filter.bytes.iter_mut().zip(decoded) {
            *byte = decoded.to_ascii_lowercase();
            filter.length += 1;
        }
        filter
    }

    /// The text, in lower case.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Whether it is in all names.
    pub(crate) fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// The property that entries are ordered by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Sort {
    #[default]
    Name,
    Date,
    Size,
}

/// The form of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    #[default]
    Html,
    Json,
}

impl Format {
    /// The media type of a page.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

impl View {
    /// Reads a query: ours (`sort=size&order=desc&page=2&format=json`) or that of Apache's listings
    /// (`C=S;O=D`), which scripts and bookmarks know. Of a parameter that comes twice the last
    /// counts. A client that does not name HTML among the media types that it accepts is a program.
    pub(crate) fn parse(query: Option<&[u8]>, names_html: bool) -> Self {
        let extent = if names_html { Extent::First } else { Extent::Whole };
        let mut view = Self { extent, ..Self::default() };
        for part in query.unwrap_or_default().split(|byte| matches!(byte, b'&' | b';')) {
            let Some(equals) = part.iter().position(|&byte| byte == b'=') else { continue };
            match (&part[..equals], &part[equals + 1..]) {
                (b"sort", b"name") | (b"C", b"N") => view.sort = Sort::Name,
                (b"sort", b"date") | (b"C", b"M") => view.sort = Sort::Date,
                (b"sort", b"size") | (b"C", b"S") => view.sort = Sort::Size,
                (b"order", b"asc") | (b"O", b"A") => view.descending = false,
                (b"order", b"desc") | (b"O", b"D") => view.descending = true,
                (b"filter", text) => view.filter = Filter::parse(text),
                (b"format", b"json") => view.format = Format::Json,
                (b"format", b"html") => view.format = Format::Html,
                (b"page", number) => {
                    if let Some(number) = page(number) {
                        (view.page, view.extent) = (number, Extent::Named);
                    }
                }
                _ => {}
            }
        }
        view
    }

    /// The query that selects this view, with its question mark. Defaults are left out; without any
    /// other setting the link is the folder itself.
    pub(crate) fn link(self) -> String {
        let mut parts = Vec::new();
        if self.format == Format::Json {
            parts.push("format=json".to_owned());
        }
        if self.sort != Sort::Name {
            parts.push(format!("sort={}", self.sort.name()));
        }
        if self.descending {
            parts.push("order=desc".to_owned());
        }
        if !self.filter.is_empty() {
            parts.push(format!("filter={}", percent_encode(self.filter.text(), NON_ALPHANUMERIC)));
        }
        // A program that follows links from page to page has to stay with them.
        if self.page > 0 || self.extent == Extent::Named {
            parts.push(format!("page={}", u64::from(self.page) + 1));
        }
        if parts.is_empty() { "./".to_owned() } else { format!("?{}", parts.join("&")) }
    }

    /// The direction as it is written in addresses.
    pub(crate) fn direction(self) -> &'static str {
        if self.descending { "desc" } else { "asc" }
    }
}

impl Sort {
    /// As it is written in addresses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Date => "date",
            Self::Size => "size",
        }
    }
}

fn page(number: &[u8]) -> Option<u32> {
    let number: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
    number.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: View) {
        assert_eq!(View::parse(Some(query.as_bytes()), true), expected, "{query}");
    }

    fn named(page: u32) -> View {
        View { page, extent: Extent::Named, ..View::default() }
    }

    #[test]
    fn queries() {
        let plain = View::default();
        let by = |sort, descending| View { sort, descending, ..plain };
        assert_eq!(View::parse(None, true), plain);
        for query in
            ["", "&", "a", "a=b", "sort", "sort=", "sort=colour", "page=0", "page=-1", "page=99999999999", "O=X"]
        {
            check(query, plain);
        }
        check("sort=size&order=desc", by(Sort::Size, true));
        check("sort=date", by(Sort::Date, false));
        check("sort=date&sort=name&order=desc&order=asc", plain);
        check("C=S;O=D", by(Sort::Size, true));
        check("C=M&O=A", by(Sort::Date, false));
        check("C=N;O=D", by(Sort::Name, true));
        check("utm=1&page=2&format=json", View { format: Format::Json, ..named(1) });
        check("page=4294967295", named(u32::MAX - 1));
        check("page=3&page=x", named(2));
    }

    #[test]
    fn a_program_gets_all_unless_it_names_a_page() {
        let all = View { extent: Extent::Whole, ..View::default() };
        for (query, expected) in [
            ("", all),
            ("page=0", all),
            ("page=x&format=json", View { format: Format::Json, ..all }),
            ("filter=", all),
            ("page=1", named(0)),
            ("page=2&sort=date", View { sort: Sort::Date, ..named(1) }),
        ] {
            assert_eq!(View::parse(Some(query.as_bytes()), false), expected, "{query}");
        }
        assert_eq!(View::parse(None, false), all);
        assert_eq!((all.link().as_str(), named(0).link().as_str()), ("./", "?page=1"));
    }

    #[test]
    fn filters_are_decoded_and_bounded() {
        for (value, expected) in [
            ("", "".as_bytes()),
            ("Debian+12", b"debian 12"),
            ("%41%2B%26", b"a+&"),
            ("100%", b"100%"),
            ("%ff", b"\xff"),
            (&"x".repeat(1000), &[b'x'; FILTER_BYTES_MAX]),
        ] {
            let view = View::parse(Some(format!("filter={value}&page=2").as_bytes()), true);
            assert_eq!((view.filter.text(), view.page), (expected, 1), "{value}");
        }
    }

    #[test]
    fn a_link_leads_back_to_its_view() {
        for sort in [Sort::Name, Sort::Date, Sort::Size] {
            for (descending, page, format) in [
                (false, 0, Format::Html),
                (true, 0, Format::Json),
                (true, 6, Format::Html),
                (false, u32::MAX - 1, Format::Json),
            ] {
                for filter in ["", "a b&c=d;", "50%+1", "\u{e9}\0"] {
                    let filter =
                        Filter::parse(percent_encode(filter.as_bytes(), NON_ALPHANUMERIC).to_string().as_bytes());
                    let extent = if page == 0 { Extent::First } else { Extent::Named };
                    let view = View { sort, descending, page, extent, format, filter };
                    let link = view.link();
                    assert_eq!(View::parse(link.strip_prefix('?').map(str::as_bytes), true), view, "{link}");
                }
            }
        }
        assert_eq!(View::default().link(), "./");
    }
}
