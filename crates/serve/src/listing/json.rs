//! A listing as JSON, for programs. `docs/listings.md` describes it.

use std::borrow::Cow;

use serde::Serialize;

use super::folder::Folder;
use super::frame::{Frame, Shown};
use super::index::{Item, Kind};
use super::text;
use super::view::{Extent, View};

/// Names the form; a change that breaks readers changes the number.
const SCHEMA: &str = "thalweg.listing/1";

#[derive(Serialize)]
struct Document<'d> {
    schema: &'static str,
    path: &'d str,
    sort: &'static str,
    order: &'static str,
    folders: u64,
    files: u64,
    bytes: u64,
    /// Of the folders and files, so many are on no page.
    omitted: u64,
    /// There if the folder has more entries, whose number is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<bool>,
    /// There if names are filtered: the text, and how many contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matching: Option<u64>,
    page: u64,
    pages: u64,
    previous: Option<String>,
    next: Option<String>,
    /// The last member, so that the entries can be written behind all others.
    entries: [(); 0],
}

#[derive(Serialize)]
struct Entry<'d> {
    name: Cow<'d, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    size: Option<u64>,
    modified: Option<String>,
    href: String,
    /// There if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// The JSON of a page with these entries, with a line feed behind it. `path` is the folder's on the
/// site.
pub(super) fn json(folder: &Folder, path: &[u8], (shown, items): (Shown, Vec<Item<'_>>)) -> String {
    let Frame { before: mut text, after } = frame(folder, path, shown);
    items.into_iter().enumerate().for_each(|(place, item)| push_entry(item, place == 0, &mut text));
    text.push_str(&after);
    text
}

/// The JSON around the entries.
pub(super) fn frame(folder: &Folder, path: &[u8], shown: Shown) -> Frame {
    let Shown { view, pages, matching } = shown;
    let tally = &folder.index.tally;
    let filter = String::from_utf8_lossy(view.filter.text());
    // A program that goes back to the first page would get all without naming it.
    let named = View { extent: Extent::Named, ..view };
    let document = Document {
        schema: SCHEMA,
        path: &String::from_utf8_lossy(path),
        sort: view.sort.name(),
        order: view.direction(),
        folders: tally.folders,
        files: tally.files,
        bytes: tally.bytes,
        omitted: tally.omitted,
        incomplete: tally.is_cut_off.then_some(true),
        filter: (!filter.is_empty()).then_some(&*filter),
        matching: (!filter.is_empty()).then_some(matching as u64),
        page: u64::from(view.page) + 1,
        pages: pages.into(),
        previous: (view.page > 0).then(|| View { page: view.page - 1, ..named }.link()),
        next: shown.next().map(View::link),
        entries: [],
    };
    // Strings and numbers cannot fail to be written.
    let text = serde_json::to_string(&document).unwrap_or_default();
    Frame { before: text.strip_suffix(END).unwrap_or(&text).to_owned(), after: format!("{END}\n") }
}

/// The end of a document, behind the last entry.
const END: &str = "]}";

/// Writes an entry, behind others or as the first one.
pub(super) fn push_entry(item: Item<'_>, is_first: bool, out: &mut String) {
    if !is_first {
        out.push(',');
    }
    out.push_str(&serde_json::to_string(&entry(item)).unwrap_or_default());
}

fn entry(item: Item<'_>) -> Entry<'_> {
    Entry {
        // Names that are not UTF-8 cannot be written in JSON; the address has their bytes.
        name: String::from_utf8_lossy(item.name),
        kind: match item.kind {
            Kind::Folder => "folder",
            Kind::File => "file",
        },
        size: (item.kind == Kind::File).then_some(item.size),
        modified: text::instant(item.modified_s),
        href: text::address(item),
        sha256: item.digest.map(text::hex),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ListingStyle;
    use crate::listing::index::Builder;
    use crate::listing::style::Style;

    #[test]
    fn documents_are_as_they_were() {
        let mut builder = Builder::new(true, 1 << 20);
        for (name, kind, size, modified_s) in [
            (b"sub".as_slice(), Kind::Folder, 0, 1_700_000_000),
            (b"quote\" \\ \n</script>", Kind::File, u64::MAX, 0),
            (b"\xff\xfe", Kind::File, 1, i64::MAX),
            (b"last", Kind::File, 0, -1),
        ] {
            builder.push(Item { name, kind, size, modified_s, digest: None }, modified_s);
        }
        let folder = Folder::of_index(builder.finish());
        let style = ListingStyle { page_entries: 3, ..ListingStyle::default() };
        let style = Style::compile(&style).unwrap();
        let document = |query: &str| {
            let view = View::parse(Some(query.as_bytes()), true);
            Some(json(&folder, b"/pub/\xff/", Shown::page(&folder, &style, view)?))
        };
        let first = document("format=json").unwrap();
        insta::assert_snapshot!("first", first);
        insta::assert_snapshot!("second", document("format=json&sort=size&order=desc&page=2").unwrap());
        assert_eq!(document("format=json&page=3"), None);
        let mut index = folder.index;
        index.set_digests(|name, _| (name == b"last").then_some([0xa5; 32]));
        let folder = Folder::of_index(index);
        let view = View::parse(Some(b"format=json&filter=A"), true);
        let text = json(&folder, b"/", Shown::page(&folder, &style, view).unwrap());
        let filtered: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&filtered["filter"], &filtered["matching"]), (&"a".into(), &1.into()), "{text}");
        assert_eq!(filtered["entries"][0]["sha256"], "a5".repeat(32));
        let value: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert_eq!(value["entries"][2]["name"], "quote\" \\ \n</script>");
    }
}
