//! The status page: the figures that an operator, or a user of a mirror, wants to see at a glance.
//!
//! It is complete without JavaScript, and then reloads at intervals; with JavaScript, its parts are
//! replaced in place. It has a light and a dark theme, and fits small and large screens.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::document::{CertificateFigures, DayFigures, Mount, State, Status, TlsFigures, TopFile};
use super::tier_section;
use super::words::{bits, bytes, count, decimal, duration, moment};

/// The content security policy: the page may use its own style, and load itself again by its own
/// script.
pub(crate) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; \
                                         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                                         frame-ancestors 'none'";

/// Replaces the page's parts in place.
pub(crate) const SCRIPT: &str = include_str!("page.js");

const STYLE: &str = include_str!("page.css");

/// Seconds after which a page without JavaScript is loaded again.
const REFRESH_S: u32 = 10;

/// The page.
pub(crate) fn html(status: &Status) -> String {
    markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                noscript { meta http-equiv="refresh" content=(REFRESH_S); }
                // A browser requests an icon if the page names none.
                link rel="icon" href="data:,";
                title { (count(status.now.downloads)) " downloads · Thalweg status" }
                style { (PreEscaped(STYLE)) }
                script src="/status.js" defer {}
            }
            body { main { (content(status)) } }
        }
    }
    .into_string()
}

fn content(status: &Status) -> Markup {
    markup! {
        header {
            h1 { "Thalweg" }
            (state(status.state))
            p.facts {
                "up " (duration(status.uptime_s)) ", since " (moment(&status.started)) " · as of " (moment(&status.time))
                " · version " (status.version)
            }
        }
        (tiles(status))
        section {
            h2 { "The last two minutes" }
            div.pair {
                (curve("Requests per second", &status.curve.requests_per_s, decimal))
                (curve("Sent per second", &status.curve.bytes_per_s, |rate| bytes(rate.round() as u64)))
            }
        }
        (responses(status))
        @if status.mounts.len() > 1 { (mounts(&status.mounts)) }
        @if let Some(tier) = &status.disk_cache { (tier_section::markup(tier, status.second)) }
        (days(&status.days))
        (top_files(&status.top_files, status.mounts.len() > 1))
        (loops(status))
        @if let Some(tls) = &status.tls { (handshakes(tls)) }
        @if let Some(state) = &status.certificate { (certificate(state)) }
        (trouble(status))
        footer {
            "Days are in UTC. The same figures: " a href="/status.json" { "JSON" } ", " a href="/metrics" { "metrics for Prometheus" }
            ", " a href="/healthz" { "health" } "."
        }
    }
}

fn state(state: State) -> Markup {
    match state {
        State::Serving => markup! { span.badge.good { "serving" } },
        State::Draining => markup! { span.badge.warn { "draining" } },
    }
}

fn tiles(status: &Status) -> Markup {
    let today = status.days.first().map(|day| day.total).unwrap_or_default();
    let now = &status.now;
    markup! {
        dl.tiles {
            (tile("Downloads in progress", &count(now.downloads), &format!("connections open: {}", count(now.connections))))
            (tile("Sent per second", &bytes(now.bytes_per_s as u64), &bits(now.bytes_per_s)))
            (tile("Requests per second", &decimal(now.requests_per_s), &format!("{} since the start", count(status.total.requests))))
            (tile("Downloads today", &count(today.downloads), &files(today.unique_files)))
            (tile("Sent today", &bytes(today.bytes), &format!("{} since the start", bytes(status.total.bytes))))
        }
    }
}

fn files(unique: u64) -> String {
    format!("{} distinct file{}", count(unique), if unique == 1 { "" } else { "s" })
}

fn tile(name: &str, figure: &str, beside: &str) -> Markup {
    markup! { div { dt { (name) } dd.figure { (figure) } dd.beside { (beside) } } }
}

/// A curve over the last seconds, with its highest point in words.
fn curve(name: &str, values: &[f64], words: fn(f64) -> String) -> Markup {
    const WIDTH: f64 = super::document::CURVE_S as f64;
    const HEIGHT: f64 = 40.0;
    let highest = values.iter().copied().fold(0.0, f64::max);
    let scale = if highest > 0.0 { HEIGHT / highest } else { 0.0 };
    let first = WIDTH - values.len() as f64;
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(index, value)| format!("{:.0},{:.1}", first + index as f64 + 1.0, HEIGHT - value * scale))
        .collect();
    let line = points.join(" ");
    let area = format!("{:.0},{HEIGHT:.0} {line} {WIDTH:.0},{HEIGHT:.0}", first + 1.0);
    markup! {
        figure {
            figcaption { (name) " " span.peak { "up to " (words(highest)) } }
            svg viewBox=(format!("0 -1 {WIDTH} {}", HEIGHT + 2.0)) preserveAspectRatio="none" role="img"
                aria-label=(format!("{name}, up to {}", words(highest))) {
                @if !values.is_empty() { polygon points=(area) {} polyline points=(line) {} }
            }
        }
    }
}

/// Responses by class since the start, and the requests and connections that were refused on
/// purpose.
fn responses(status: &Status) -> Markup {
    let total = &status.total;
    let classes = &total.responses;
    let figures = [
        ("2xx", classes.ok),
        ("3xx", classes.moved),
        ("4xx", classes.refused),
        ("5xx", classes.failed),
        ("Refused by network", total.requests_denied),
        ("Refused by rate", total.requests_limited),
        ("Connections refused by network", total.connections_denied),
    ];
    markup! {
        section {
            h2 { "Responses since the start" }
            div.scroll { table {
                thead { tr { @for (name, _) in figures { th.n { (name) } } } }
                tbody { tr { @for (_, number) in figures { td.n { (count(number)) } } } }
            } }
        }
    }
}

fn mounts(mounts: &[Mount]) -> Markup {
    markup! {
        section {
            h2 { "By mount" }
            div.scroll { table {
                thead { tr {
                    th { "Mount" } th.n { "Now" } th.n { "Downloads today" } th.n { "Files today" } th.n { "Sent today" } th.n { "Sent in total" }
                } }
                tbody { @for mount in mounts { tr {
                    th scope="row" { (mount.mount) }
                    td.n { (count(mount.downloads_now)) }
                    td.n { (count(mount.today.downloads)) }
                    td.n { (count(mount.today.unique_files)) }
                    td.n { (bytes(mount.today.bytes)) }
                    td.n { (bytes(mount.bytes)) }
                } } }
            } }
        }
    }
}

fn days(days: &[DayFigures]) -> Markup {
    let most = days.iter().map(|day| day.total.bytes).max().unwrap_or(0).max(1);
    markup! {
        section {
            h2 { "By day" }
            div.scroll { table {
                thead { tr {
                    th { "Day" } th.n { "Sent" } th.bar { span.hidden { "Share of the busiest day" } } th.n { "Downloads" } th.n { "At once" }
                    th.n { "Files" } th.n { "Requests" }
                } }
                tbody { @for day in days { tr {
                    th scope="row" { time datetime=(day.day) { (day.day) } }
                    td.n { (bytes(day.total.bytes)) }
                    td.bar { span style=(format!("width:{:.1}%", day.total.bytes as f64 / most as f64 * 100.0)) {} }
                    td.n { (count(day.total.downloads)) }
                    td.n { (count(day.downloads_peak)) }
                    td.n { (count(day.total.unique_files)) }
                    td.n { (count(day.total.requests)) }
                } } }
            } }
        }
    }
}

fn top_files(files: &[TopFile], names_mounts: bool) -> Markup {
    markup! {
        section {
            h2 { "Most downloaded today" }
            @if files.is_empty() { p.none { "No downloads yet." } } @else {
                div.scroll { table {
                    thead { tr { th { "File" } @if names_mounts { th { "Mount" } } th.n { "Downloads" } th.n { "Sent" } } }
                    tbody { @for file in files { tr {
                        th.name scope="row" { bdi { (file.file) } }
                        @if names_mounts { td { (file.mount) } }
                        td.n { (count(file.downloads)) }
                        td.n { (bytes(file.bytes)) }
                    } } }
                } }
            }
        }
    }
}

fn loops(status: &Status) -> Markup {
    markup! {
        section {
            h2 { "By loop" }
            div.scroll { table {
                thead { tr {
                    th { "Loop" } th.n { "Connections" } th.n { "Requests" } th.n { "Sent" } th.n { "Cached files" } th.n { "In memory" } th.n { "Cache misses" }
                } }
                tbody { @for one in &status.loops { tr {
                    th scope="row" { (one.loop_index) }
                    td.n { (count(one.connections)) }
                    td.n { (count(one.requests)) }
                    td.n { (bytes(one.bytes)) }
                    td.n { (count(one.cache_entries)) }
                    td.n { (bytes(one.cache_bytes)) }
                    td.n { (count(one.cache_misses)) }
                } } }
            } }
        }
    }
}

fn handshakes(tls: &TlsFigures) -> Markup {
    let completed = tls.handshakes.tls12 + tls.handshakes.tls13;
    markup! {
        section {
            h2 { "TLS handshakes" }
            div.scroll { table {
                thead { tr {
                    th.n { "TLS 1.3" } th.n { "TLS 1.2" } th.n { "Full" } th.n { "Resumed" } th.n { "Failed" } th.n { "Ended for newer ones" }
                } }
                tbody { tr {
                    td.n { (count(tls.handshakes.tls13)) }
                    td.n { (count(tls.handshakes.tls12)) }
                    td.n { (count(completed.saturating_sub(tls.resumed))) }
                    td.n { (count(tls.resumed)) }
                    td.n { (count(tls.failed)) }
                    td.n { (count(tls.shed)) }
                } }
            } }
        }
    }
}

fn certificate(state: &CertificateFigures) -> Markup {
    markup! {
        section {
            h2 { "Certificate" }
            @match &state.expires {
                Some(expires) => p { "Valid until " (moment(expires)) "." },
                None => p { "There is none yet; a self-signed one is in use." },
            }
            @if let Some(failure) = &state.failure { p { strong { "The last attempt has failed: " } (failure) } }
        }
    }
}

/// Figures that an operator should look into, if there are any.
fn trouble(status: &Status) -> Markup {
    let log = &status.log;
    let responses = &status.total.responses;
    let troubles = [
        (log.lines_lost, "lines of the access log were lost, because the file could not be written"),
        (
            log.records_dropped,
            "requests are missing in the access log and in these statistics, because the log thread fell behind",
        ),
        (status.total.turned_away, "connections were refused, because no connection slot was free"),
        (
            status.total.files_changed_while_sent,
            "responses were reset, because their file was modified while it was sent: replace files by a rename",
        ),
        (responses.failed, "responses were 5xx: the server failed or ran out of a resource"),
    ];
    markup! {
        @if troubles.iter().any(|(number, _)| *number > 0) {
            section.trouble {
                h2 { "Warnings" }
                ul { @for (number, what) in troubles.iter().filter(|(number, _)| *number > 0) {
                    li { strong { (count(*number)) } " " (what) "." }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::collector::tests::collector;

    #[test]
    fn targets_of_clients_stay_text() {
        let (mut collector, ..) = collector();
        collector.advance(thalweg_sys::Instant::from_ns(1), 1_000_000);
        let mut status = collector.status(1_000_000);
        let file = "/<script>alert(\"1\")</script>&amp;\u{202e}.iso".to_owned();
        status.top_files = vec![TopFile { mount: "/".to_owned(), file, downloads: 1, bytes: 1 }];
        (status.total.responses.refused, status.total.responses.failed) = (4321, 87);
        (status.total.requests_denied, status.total.requests_limited) = (65, 1234);
        status.log.lines_lost = 3;
        let page = html(&status);
        assert!(page.contains("/&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;"), "{page}");
        assert_eq!(page.matches("<script").count(), 1);
        for figure in ["4,321", "87", "65", "1,234"] {
            assert!(page.contains(&format!("<td class=\"n\">{figure}</td>")), "{figure}: {page}");
        }
        assert!(page.contains("Warnings") && page.contains("<strong>3</strong> lines"), "{page}");
    }
}
