//! A listing as HTML: one page that needs nothing else, no script, no font, no image from elsewhere.
//!
//! Names come from whoever put the files there, so nothing of them is markup: `maud` escapes text and attributes, addresses
//! are percent-encoded before. The header and the readme are the operator's own and are taken as they are if they are HTML.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::index::{Item, Kind, Tally};
use super::read::{Folder, Fragment};
use super::style::Style;
use super::text;
use super::view::{Format, Sort, View};

const CSS: &str = include_str!("page.css");

/// So many pages to either side of the present one are linked.
const PAGES_BESIDE: u32 = 2;

/// The HTML of a view; `None` if it has no such page. `path` is the folder's on the site.
pub(super) fn html(folder: &Folder, path: &[u8], style: &Style, view: View) -> Option<String> {
    let items = folder.index.page(view, style.page_entries)?;
    // A folder has fewer entries than 2^32.
    let pages = folder.index.pages(style.page_entries) as u32;
    let title = text::shown(path);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                header {
                    (breadcrumb(path))
                    (summary(&folder.index.tally, view, pages))
                }
                @if let Some(header) = &folder.header { section.fragment aria-label="About this folder" { (fragment(header)) } }
                (notice(&folder.index.tally, folder.index.len()))
                main {
                    table {
                        caption.unseen { "Files and folders in " (title) }
                        thead { tr { (column(view, Sort::Name)) (column(view, Sort::Size)) (column(view, Sort::Date)) } }
                        tbody {
                            @if path != b"/" {
                                tr.up { th scope="row" { a href="../" { "Parent folder" } } td {} td {} }
                            }
                            @for item in items { (row(item, style.name_width)) }
                        }
                    }
                    @if folder.index.len() == 0 { p.empty { "This folder is empty." } }
                }
                (pager(view, pages))
                @if let Some(readme) = &folder.readme { section.fragment aria-label="Readme" { (fragment(readme)) } }
                footer {
                    span { "Times are in UTC." }
                    a href=(View { format: Format::Json, ..view }.link()) type="application/json" { "JSON" }
                }
            }
        }
    };
    Some(markup.into_string())
}

/// The way from the top to here. Its links are relative, so that they hold behind a proxy which has put something in front.
fn breadcrumb(path: &[u8]) -> Markup {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    let up = |steps: usize| if steps == 0 { "./".to_owned() } else { "../".repeat(steps) };
    html! {
        nav aria-label="Path" {
            h1 {
                a href=(up(names.len())) aria-current=[names.is_empty().then_some("page")] { "Index" }
                @for (place, name) in names.iter().enumerate() {
                    @let is_last = place + 1 == names.len();
                    span.slash aria-hidden="true" { "/" }
                    a href=(up(names.len() - place - 1)) aria-current=[is_last.then_some("page")] {
                        bdi { (text::shown(name)) }
                    }
                }
            }
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

/// That the list is not the whole, if it is not.
fn notice(tally: &Tally, kept: usize) -> Markup {
    html! {
        @if tally.omitted > 0 {
            p.notice role="note" {
                "This folder holds more than can be listed: only the first " (text::count(kept as u64))
                " entries by name are shown, " (text::count(tally.omitted))
                " are not. They can be downloaded all the same, by their names."
            }
        }
    }
}

/// The head of a column, which sorts by it; by what it sorts already, the other way round.
fn column(view: View, sort: Sort) -> Markup {
    let is_sorted = view.sort == sort;
    // Who asks for sizes or dates wants to see the largest or latest.
    let descending = if is_sorted { !view.descending } else { sort != Sort::Name };
    let link = View { sort, descending, page: 0, ..view }.link();
    let state = is_sorted.then_some(if view.descending { "descending" } else { "ascending" });
    let label = match sort {
        Sort::Name => "Name",
        Sort::Size => "Size",
        Sort::Date => "Modified",
    };
    html! {
        th scope="col" aria-sort=[state] {
            a href=(link) {
                (label)
                @if is_sorted { span.mark aria-hidden="true" { @if view.descending { "▼" } @else { "▲" } } }
            }
        }
    }
}

fn row(item: Item<'_>, name_width: usize) -> Markup {
    let name = text::shown(item.name);
    let short = text::shortened(&name, name_width);
    let is_folder = item.kind == Kind::Folder;
    let when = text::instant(item.modified_s);
    html! {
        tr.d[is_folder] {
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
        }
    }
}

/// Links to the other pages: the first, the last, and those about this one.
fn pager(view: View, pages: u32) -> Markup {
    let link = |page: u32| View { page, ..view }.link();
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
            nav.pages aria-label="Pages" {
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

fn fragment(fragment: &Fragment) -> Markup {
    match fragment {
        Fragment::Html(markup) => PreEscaped(markup.clone()),
        Fragment::Text(text) => html! { pre { (text) } },
    }
}
