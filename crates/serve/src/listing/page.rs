//! A listing as HTML: one page that needs nothing else, no script, no font, no image from
//! elsewhere.
//!
//! Names come from the authors of the files, so they are never markup: `maud` escapes text and
//! attributes, addresses are percent-encoded before. The header and the readme are the operator's
//! own and are taken as they are if they are HTML.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::folder::{Folder, Form, Fragment};
use super::frame::{Frame, Shown};
use super::index::{Item, Kind, Tally};
use super::style::Style;
use super::text;
use super::view::{Extent, FILTER_BYTES_MAX, Filter, Format, Sort, View};

const CSS: &str = include_str!("page.css");

/// The icon of pages, a folder, as an address that needs no request.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath \
                    fill='%23c98a1b' d='M1 3.5A1.5 1.5 0 0 1 2.5 2H6l2 2h5.5A1.5 1.5 0 0 1 15 5.5v7a1.5 1.5 0 0 \
                    1-1.5 1.5h-11A1.5 1.5 0 0 1 1 12.5z'/%3E%3C/svg%3E";

/// Folders with fewer entries than this are searched by eye.
const FILTER_ENTRIES_MIN: usize = 50;

/// So many pages to either side of the present one are linked.
const PAGES_BESIDE: u32 = 2;

/// The HTML of a page with these entries. `path` is the folder's on the site.
pub(super) fn html(folder: &Folder, path: &[u8], style: &Style, (shown, items): (Shown, Vec<Item<'_>>)) -> String {
    let Frame { before: mut text, after } = frame(folder, path, shown);
    let has_digests = folder.index.has_digests();
    // A page shows no file twice.
    let listed = items.into_iter().filter(|item| !folder.shows(item.name));
    listed.for_each(|item| push_row(item, style.name_width, has_digests, &mut text));
    text.push_str(&after);
    text
}

/// The HTML around the entries.
pub(super) fn frame(folder: &Folder, path: &[u8], shown: Shown) -> Frame {
    Frame { before: before(folder, path, shown).into_string(), after: after(folder, shown).into_string() }
}

/// From the beginning up to the first entry. What is open here is closed behind the last one.
fn before(folder: &Folder, path: &[u8], Shown { view, pages, matching }: Shown) -> Markup {
    let has_filter = folder.index.len() >= FILTER_ENTRIES_MIN && view.extent != Extent::Whole;
    let has_digests = folder.index.has_digests();
    let title = text::shown(path);
    html! {
        (DOCTYPE) (PreEscaped("\n<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { "Index of " (title) }
            link rel="icon" href=(ICON);
            style { (PreEscaped(CSS)) }
        }
        (PreEscaped("<body>"))
        header {
            (heading(path))
            (summary(&folder.index.tally, view, pages))
            @if has_filter || !view.filter.is_empty() { (filter(view, matching)) }
        }
        @if let Some(header) = &folder.header { section.fragment aria-label="About this folder" { (fragment(header)) } }
        (notice(&folder.index.tally, folder.index.len()))
        (pager(view, pages, "Pages"))
        (PreEscaped("<main><table>"))
        caption.unseen { "Files and folders in " (title) }
        thead { tr { (column(view, Sort::Name)) (column(view, Sort::Size)) (column(view, Sort::Date))
            @if has_digests { th scope="col" { "SHA-256" } }
        } }
        (PreEscaped("<tbody>"))
        @if path != b"/" {
            tr.up { th scope="row" { a href="../" { "Parent folder" } } td {} td {} @if has_digests { td {} } }
        }
    }
}

/// From behind the last entry to the end.
fn after(folder: &Folder, Shown { view, pages, matching }: Shown) -> Markup {
    html! {
        (PreEscaped("</tbody></table>"))
        @if folder.index.len() == 0 { p.empty { "This folder is empty." } } @else if matching == 0 { p.empty { "No name contains this text." } }
        (PreEscaped("</main>"))
        (pager(view, pages, "Pages, again"))
        @if let Some(readme) = &folder.readme { section.fragment aria-label="Readme" { (fragment(readme)) } }
        footer {
            span { "Times are in UTC." }
            @if view.extent != Extent::Whole { a href=(View { format: Format::Json, ..view }.link()) type="application/json" { "JSON" } }
        }
        (PreEscaped("</body></html>"))
    }
}

/// The way from the top to here, and the name of the folder. The links are relative, so that they
/// hold behind a proxy which has put something in front.
fn heading(path: &[u8]) -> Markup {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    let above = &names[..names.len().saturating_sub(1)];
    let up = |place: usize| "../".repeat(names.len() - place);
    html! {
        @if let Some(name) = names.last() {
            nav aria-label="Path" {
                a href=(up(0)) { "Index" }
                @for (place, name) in above.iter().enumerate() {
                    span.slash aria-hidden="true" { "/" }
                    a href=(up(place + 1)) { bdi { (text::shown(name)) } }
                }
                span.slash aria-hidden="true" { "/" }
            }
            h1 { bdi { (text::shown(name)) } }
        } @else {
            h1 { "Index" }
        }
    }
}

fn summary(tally: &Tally, view: View, pages: u32) -> Markup {
    let counted = |number: u64, one: &str, many: &str| {
        (number > 0).then(|| format!("{} {}", text::count(number), if number == 1 { one } else { many }))
    };
    let parts = [
        counted(tally.folders, "folder", "folders"),
        counted(tally.files, "file", "files"),
        (tally.files > 0).then(|| text::size(tally.bytes)),
        (pages > 1).then(|| format!("page {} of {}", text::count(u64::from(view.page) + 1), text::count(pages.into()))),
    ];
    html! { p.summary { (parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")) } }
}

/// A form that shows the entries whose names contain a text. The server does it, so that the page
/// needs no script; the order stays.
fn filter(view: View, matching: usize) -> Markup {
    let text = String::from_utf8_lossy(view.filter.text());
    let all = View { filter: Filter::default(), page: 0, extent: Extent::First, ..view };
    html! {
        search {
            form action="./" {
                @if view.sort != Sort::Name { input type="hidden" name="sort" value=(view.sort.name()); }
                @if view.descending { input type="hidden" name="order" value=(view.direction()); }
                input type="search" name="filter" value=(text) maxlength=(FILTER_BYTES_MAX) placeholder="Part of a name"
                    aria-label="Show names that contain";
                button { "Filter" }
                @if !view.filter.is_empty() {
                    span { (text::count(matching as u64)) @if matching == 1 { " name contains" } @else { " names contain" } " it" }
                    a href=(all.link()) { "Show all" }
                }
            }
        }
    }
}

/// That the list is not the whole, if it is not.
fn notice(tally: &Tally, kept: usize) -> Markup {
    html! {
        @if tally.is_cut_off {
            p.notice role="note" {
                "This list is not complete: the folder has more entries than the " (text::count(tally.folders + tally.files))
                " that its origin was asked for. All can be downloaded by name."
            }
        }
        @if tally.omitted > 0 {
            p.notice role="note" {
                "This folder has more entries than can be listed: only the first " (text::count(kept as u64))
                " entries by name are shown, " (text::count(tally.omitted))
                " are not. They can still be downloaded by name."
            }
        }
    }
}

/// The head of a column, which sorts by it; by what it sorts already, the other way round. A
/// program that follows links would get the same files by each of these.
fn column(view: View, sort: Sort) -> Markup {
    let is_sorted = view.sort == sort;
    // A client that wants sizes or dates wants to see the largest or latest.
    let descending = if is_sorted { !view.descending } else { sort != Sort::Name };
    let link = View { sort, descending, page: 0, extent: Extent::First, ..view }.link();
    let state = is_sorted.then_some(if view.descending { "descending" } else { "ascending" });
    let label = match sort {
        Sort::Name => "Name",
        Sort::Size => "Size",
        Sort::Date => "Modified",
    };
    html! {
        th scope="col" aria-sort=[state] {
            @if view.extent == Extent::Whole {
                (label)
            } @else {
                a href=(link) {
                    (label)
                    @if is_sorted { span.mark aria-hidden="true" { @if view.descending { "▼" } @else { "▲" } } }
                }
            }
        }
    }
}

/// Writes the row of an entry.
pub(super) fn push_row(item: Item<'_>, name_width: usize, has_digests: bool, out: &mut String) {
    let name = text::shown(item.name);
    let short = text::shortened(&name, name_width);
    let is_folder = item.kind == Kind::Folder;
    let when = text::instant(item.modified_s);
    // Each entry is on a line of its own, so that the source can be read and searched by lines.
    let row = html! {
        (PreEscaped("\n"))
        tr class=[is_folder.then_some("d")] {
            th scope="row" {
                a href=(text::address(item)) title=[short.is_some().then_some(&name)] {
                    bdi { (short.as_deref().unwrap_or(&name)) } @if is_folder { "/" }
                }
            }
            @if is_folder {
                td {}
            } @else if item.size < 1000 {
                td { (text::size(item.size)) }
            } @else {
                td title={ (text::count(item.size)) " bytes" } { (text::size(item.size)) }
            }
            td {
                @if let Some(when) = when { time datetime=(when) { (when[..10]) span { " " (when[11..16]) } } }
            }
            @if has_digests { td.sum { @if let Some(digest) = item.digest { code { (text::hex(digest)) } } } }
        }
    };
    out.push_str(&row.into_string());
}

/// Links to the other pages: the first, the last, and those about this one.
fn pager(view: View, pages: u32, label: &str) -> Markup {
    // The first page is the folder itself.
    let link = |page: u32| View { page, extent: Extent::First, ..view }.link();
    let (page, last) = (view.page, pages - 1);
    let near = page.saturating_sub(PAGES_BESIDE)..=page.saturating_add(PAGES_BESIDE).min(last);
    let (first_near, last_near) = (*near.start(), *near.end());
    let numbered = |other: u32| {
        html! {
            li { a href=(link(other)) aria-current=[(other == page).then_some("page")] { (text::count(u64::from(other) + 1)) } }
        }
    };
    html! {
        @if pages > 1 {
            nav.pages aria-label=(label) {
                ul {
                    @if page > 0 { li { a href=(link(page - 1)) rel="prev" { "← Previous" } } }
                    @if first_near > 0 { (numbered(0)) }
                    @if first_near > 1 { li aria-hidden="true" { "…" } }
                    @for other in near { (numbered(other)) }
                    @if last_near + 1 < last { li aria-hidden="true" { "…" } }
                    @if last_near < last { (numbered(last)) }
                    @if page < last { li { a href=(link(page + 1)) rel="next" { "Next →" } } }
                }
            }
        }
    }
}

/// A header or a readme. Text has the name of its file above it, because the list leaves it out.
fn fragment(fragment: &Fragment) -> Markup {
    let Fragment { name, text, form } = fragment;
    match form {
        Form::Html => PreEscaped(text.clone()),
        Form::Text => html! { h2 { a href=(text::path(name)) { bdi { (text::shown(name)) } } } pre { (text) } },
        Form::UnnamedText => html! { pre { (text) } },
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;
    use crate::config::ListingStyle;
    use crate::listing::index::{Builder, Item};

    fn folder(items: &[(&[u8], Kind, u64, i64)]) -> Folder {
        let mut builder = Builder::new(true, 1 << 20);
        for &(name, kind, size, modified_s) in items {
            builder.push(Item { name, kind, size, modified_s, digest: None }, modified_s);
        }
        Folder::of_index(builder.finish())
    }

    fn style(name_width: usize, page_entries: usize) -> Style {
        Style::compile(&ListingStyle { name_width, page_entries, ..ListingStyle::default() }).unwrap()
    }

    /// The page without its style sheet.
    fn page(folder: &Folder, path: &[u8], style: &Style, query: &str) -> String {
        let view = View::parse(Some(query.as_bytes()), true);
        html(folder, path, style, Shown::page(folder, style, view).unwrap()).replace(CSS, "")
    }

    #[test]
    fn pages_are_as_they_were() {
        let mut folder = folder(&[
            (b"debian", Kind::Folder, 0, 1_700_000_000),
            (b"thalweg-1.10.iso", Kind::File, 1_470_103_552, 1_750_000_000),
            (b"thalweg-1.9.iso", Kind::File, 999, 1_600_000_000),
            (b"<script>alert('1')</script> & \"more\"", Kind::File, 1000, -70_000_000_000),
        ]);
        let fragment = |name: &str, text: &str, form| Fragment { name: name.into(), text: text.into(), form };
        folder.header = Some(fragment("HEADER.html", "<p>Welcome</p>", Form::Html));
        folder.readme = Some(fragment("read me.md", "1 < 2 & 3\n", Form::Text));
        insta::assert_snapshot!("top", page(&folder, b"/", &style(0, 1000), ""));
        insta::assert_snapshot!(
            "below",
            page(&folder, "/pub/ä&b/".as_bytes(), &style(12, 3), "sort=date&order=desc&page=2")
        );
        insta::assert_snapshot!("empty", page(&self::folder(&[]), b"/pub/", &style(0, 1000), ""));
    }

    #[test]
    fn a_page_shows_no_file_twice_and_programs_miss_none() {
        let names: [&[u8]; 3] = [b"HEADER.html", b"README.md", b"a.iso"];
        let mut folder = folder(&names.map(|name| (name, Kind::File, 1, 0)));
        let fragment = |name: &str, text: &str, form| Fragment { name: name.into(), text: text.into(), form };
        folder.header = Some(fragment("HEADER.html", "<p>Welcome</p>", Form::Html));
        folder.readme = Some(fragment("README.md", "# <b>Title</b>", Form::Text));
        let style = style(0, 10);
        let text = page(&folder, b"/", &style, "");
        assert_eq!(
            (text.matches("HEADER.html").count(), text.matches("href=\"./README.md\"").count()),
            (0, 1),
            "{text}"
        );
        assert!(text.contains("<pre># &lt;b&gt;Title&lt;/b&gt;</pre>") && text.contains("<p>Welcome</p>"), "{text}");
        let folder = std::sync::Arc::new(folder);
        let view = View::parse(None, false);
        assert_eq!(folder.settled(view, &style), view, "not the page");
        let whole = crate::listing::whole::Whole::new(&folder, b"/", &std::sync::Arc::new(style), view);
        let text: Vec<_> = std::sync::Arc::new(whole).pieces(false).collect();
        let text = String::from_utf8(text.concat()).unwrap();
        assert!(
            names.iter().all(|name| text.contains(&format!("<th scope=\"row\"><a href=\"{}", name.escape_ascii())))
        );
    }

    #[test]
    fn a_large_folder_has_a_filter_that_keeps_the_order() {
        let names: Vec<String> = (0..FILTER_ENTRIES_MIN).map(|number| format!("file {number}")).collect();
        let items: Vec<_> = names.iter().map(|name| (name.as_bytes(), Kind::File, 0, 0)).collect();
        let large = folder(&items);
        assert!(!page(&folder(&items[1..]), b"/", &style(0, 10), "").contains("<form"), "few are seen at once");
        let text = page(&large, b"/", &style(0, 10), "sort=size&order=desc");
        for part in [
            r#"<form action="./">"#,
            r#"<input type="hidden" name="sort" value="size">"#,
            r#"<input type="hidden" name="order" value="desc">"#,
            r#"name="filter" value="" maxlength="64""#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = page(&large, b"/", &style(0, 5), "filter=FILE+4&page=2");
        for part in [
            "11 names contain it",
            r#"href="./">Show all"#,
            r#"value="file 4""#,
            "page 2 of 3",
            "?filter=file%204&amp;page=3",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = page(&folder(&items[1..]), b"/", &style(0, 10), "filter=%22%3E%3Cscript%3E");
        assert!(text.contains(r#"value="&quot;&gt;&lt;script&gt;""#) && text.contains("No name contains"), "{text}");
    }

    #[test]
    fn digests_have_a_column_if_there_are_any() {
        let mut folder = folder(&[(b"a.iso", Kind::File, 1, 0), (b"b.iso", Kind::File, 1, 0)]);
        assert!(!page(&folder, b"/sub/", &style(0, 10), "").contains("SHA-256"));
        folder.index.set_digests(|name, _| (name == b"b.iso").then_some([0xab; 32]));
        let text = page(&folder, b"/sub/", &style(0, 10), "");
        assert!(text.contains("<th scope=\"col\">SHA-256</th>"), "{text}");
        assert_eq!(text.matches(&format!("<code>{}</code>", "ab".repeat(32))).count(), 1, "{text}");
        let row = |line: &&str| line.starts_with("<tr>");
        assert!(text.lines().filter(row).all(|line| line.matches("<td").count() == 3), "{text}");
    }

    #[test]
    fn many_pages_are_linked_by_a_few() {
        let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let items: Vec<_> = names.iter().map(|name| (name.as_bytes(), Kind::File, 0, 0)).collect();
        let folder = folder(&items);
        for (page, expected) in [
            (1, "1* 2 3 … 50 Next →"),
            (2, "← Previous 1 2* 3 4 … 50 Next →"),
            (5, "← Previous 1 … 3 4 5* 6 7 … 50 Next →"),
            (49, "← Previous 1 … 47 48 49* 50 Next →"),
            (50, "← Previous 1 … 48 49 50*"),
        ] {
            let text = self::page(&folder, b"/", &style(0, 1), &format!("page={page}"));
            let start = text.find("<ul>").unwrap();
            let list = &text[start..start + text[start..].find("</ul>").unwrap()];
            let links: Vec<String> = list
                .split("</li>")
                .filter_map(|link| {
                    let shown = link.strip_suffix("</a>").unwrap_or(link).rsplit('>').next()?;
                    let mark = if link.contains("aria-current") { "*" } else { "" };
                    (!shown.is_empty()).then(|| format!("{shown}{mark}"))
                })
                .collect();
            assert_eq!(links.join(" "), expected, "{page}");
        }
        assert!(Shown::page(&folder, &style(0, 1), View { page: 50, ..View::default() }).is_none());
    }

    #[test]
    fn a_folder_that_was_cut_says_so() {
        let folder = Folder::of_index({
            let mut builder = Builder::new(true, 16 << 10);
            for number in 0..10_000 {
                let name = format!("{number:05}");
                let name = name.as_bytes();
                builder.push(Item { name, kind: Kind::File, size: 1, modified_s: 0, digest: None }, 0);
            }
            builder.finish()
        });
        let text = page(&folder, b"/", &style(0, 1000), "");
        let (kept, omitted) = (folder.index.len() as u64, folder.index.tally.omitted);
        assert_eq!(kept + omitted, 10_000);
        let expected =
            format!("only the first {} entries by name are shown, {} are not", text::count(kept), text::count(omitted));
        assert!(text.contains(&expected), "{text}");
    }

    /// The markup alone: tags with empty attributes, without the text between them.
    fn skeleton(page: &str) -> String {
        let mut skeleton = String::new();
        let (mut in_tag, mut in_quotes) = (false, false);
        for char in page.chars() {
            match (in_tag, in_quotes, char) {
                (false, _, '<') => in_tag = true,
                (true, false, '>') => in_tag = false,
                (true, _, '"') => in_quotes = !in_quotes,
                _ => {}
            }
            if (in_tag || char == '>') && (!in_quotes || char == '"') {
                skeleton.push(char);
            }
        }
        assert!(!in_tag && !in_quotes);
        skeleton
    }

    /// Attributes of the page with this name, and their values.
    fn values<'p>(page: &'p str, attribute: &str) -> Vec<&'p str> {
        page.split(&format!(" {attribute}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    fn name() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            any::<u8>(),
            proptest::sample::select(b"<>\"'&;:/\\%=?# -\n`script".to_vec()),
            proptest::sample::select("\u{202e}\u{2028}\u{feff}".bytes().collect::<Vec<_>>()),
        ];
        let pieces = prop_oneof![
            proptest::collection::vec(byte, 1..60),
            proptest::sample::select(vec![
                b"<script>".to_vec(),
                b"\" onmouseover=\"x".to_vec(),
                b"]]>--><!--".to_vec(),
                b"&lt;&#0;&quot".to_vec(),
                "\u{202e}cod.exe\u{2066}".as_bytes().to_vec(),
            ]),
        ];
        pieces
            .prop_map(|bytes| bytes.into_iter().filter(|byte| !matches!(byte, b'/' | 0)).collect::<Vec<_>>())
            .prop_filter("names that exist", |name| !matches!(&name[..], b"" | b"." | b".."))
    }

    proptest! {
        #[test]
        fn no_name_breaks_out_of_its_markup(name in name(), is_folder: bool, name_width in prop_oneof![Just(0usize), 5..20usize]) {
            let kind = if is_folder { Kind::Folder } else { Kind::File };
            let style = style(name_width, 10);
            let path = [b"/".as_slice(), &name, b"/"].concat();
            let page = page(&folder(&[(&name, kind, 5, 0)]), &path, &style, "");
            let harmless = vec![b'x'; text::shown(&name).chars().count()];
            let harmless_path = [b"/".as_slice(), &harmless, b"/"].concat();
            let expected = self::page(&folder(&[(&harmless, kind, 5, 0)]), &harmless_path, &style, "");
            prop_assert_eq!(skeleton(&page), skeleton(&expected));

            let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._~%/?=&;".contains(char);
            let hrefs = values(&page, "href").into_iter().filter(|href| *href != ICON).collect::<Vec<_>>();
            prop_assert!(hrefs.iter().all(|href| href.chars().all(is_plain)), "{:?}", hrefs);
            let addresses: Vec<Vec<u8>> = hrefs.iter().map(|href| percent_decode_str(href).collect()).collect();
            let slash = if is_folder { "/" } else { "" };
            let address = [&name, slash.as_bytes()].concat();
            prop_assert!(addresses.iter().any(|found| found.strip_prefix(b"./").unwrap_or(found) == address));
            let acts = |char: char| char.is_control() && char != '\n' || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            prop_assert!(!page.contains(acts));
        }
    }
}
