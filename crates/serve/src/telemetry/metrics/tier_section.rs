//! The figures of the cache tier on the status page.

use maud::{Markup, html as markup};

use super::words::{bytes, count, duration};
use crate::content::tier_figures::{OriginFigures, OriginState, Shares, TierFigures, VolumeFigures, VolumeState};

/// The sections of a tier at a second.
pub(super) fn markup(tier: &TierFigures, second: i64) -> Markup {
    markup! {
        (mounts(tier))
        (volumes(&tier.volumes, second))
        @if !tier.origins.is_empty() { (origins(&tier.origins, tier.mounts.len() > 1)) }
    }
}

fn mounts(tier: &TierFigures) -> Markup {
    let total = &tier.total;
    let has_peers = total.counts.peer_requests > 0;
    markup! {
        section {
            h2 { "Disk cache" }
            p.facts {
                "Answered without an origin: " strong { (percent(total.hit_ratio)) } " of the requests, "
                strong { (percent(total.byte_hit_ratio)) } " of the bytes. "
                @match tier.cycle_s {
                    Some(cycle_s) => { "What nobody asks for stays for about " strong { (age(cycle_s)) } "." },
                    None => { "The volumes have not been written round yet." },
                }
            }
            div.scroll { table {
                thead { tr {
                    th { "Mount" } th.n { "Requests" } th.n { "Hits" } th.n { "Stale" } th.n { "Validated" } th.n { "Misses" } th.n { "Not stored" }
                    th.n { "Failed" } th.n { "Hit ratio" } th.n { "By bytes" } th.n { "Served" } th.n { "From origins" }
                    @if has_peers { th.n { "From peers" } }
                } }
                tbody {
                    @for mount in &tier.mounts { (row(&mount.mount, &mount.shares, has_peers)) }
                    @if tier.mounts.len() > 1 { (row("all", total, has_peers)) }
                }
            } }
        }
    }
}

/// The counts and shares of a mount. The counts behind the requests add up to them.
fn row(name: &str, shares: &Shares, has_peers: bool) -> Markup {
    let counts = &shares.counts;
    markup! {
        tr {
            th scope="row" { (name) }
            td.n { (count(counts.requests())) }
            td.n { (count(counts.held_hits + counts.hits + counts.collapsed)) }
            td.n { (count(counts.stale + counts.stale_if_error)) }
            td.n { (count(counts.revalidated)) }
            td.n { (count(counts.misses)) }
            td.n { (count(counts.passed)) }
            td.n { (count(counts.failed)) }
            td.n { (percent(shares.hit_ratio)) }
            td.n { (percent(shares.byte_hit_ratio)) }
            td.n { (bytes(counts.served_bytes)) }
            td.n { (bytes(counts.origin_bytes)) }
            @if has_peers { td.n { (bytes(counts.peer_bytes)) } }
        }
    }
}

fn volumes(volumes: &[VolumeFigures], second: i64) -> Markup {
    markup! {
        section {
            h2 { "Volumes" }
            div.scroll { table {
                thead { tr {
                    th { "Volume" } th { "State" } th.n { "Size" } th.n { "Filled" } th.n { "Oldest" } th.n { "Damaged" } th.n { "I/O errors" }
                } }
                tbody { @for volume in volumes { tr {
                    th.name scope="row" { (volume.volume) }
                    td { (volume_state(volume)) }
                    td.n { (bytes(volume.size_bytes)) }
                    td.n { (percent((volume.size_bytes > 0).then(|| volume.filled_bytes as f64 / volume.size_bytes as f64))) }
                    td.n { (volume.oldest_s.map_or("-".to_owned(), |oldest_s| age(age_s(second, oldest_s)))) }
                    td.n { (count(volume.damaged)) }
                    td.n { (count(volume.failures)) }
                } } }
            } }
        }
    }
}

fn volume_state(volume: &VolumeFigures) -> Markup {
    match volume.state {
        VolumeState::Open => markup! { span.good { "open" } },
        VolumeState::Lost => markup! { span.warn { "lost" } },
        VolumeState::Refused => {
            markup! { span.warn title=[volume.reason.as_deref()] { "left out" } }
        }
    }
}

fn origins(origins: &[OriginFigures], names_mounts: bool) -> Markup {
    markup! {
        section {
            h2 { "Origins" }
            div.scroll { table {
                thead { tr {
                    th { "Origin" } @if names_mounts { th { "Mount" } } th { "State" } th.n { "Requests" } th.n { "Failures" } th.n { "Received" }
                    th.n { "Connections" } th.n { "In progress" } th.n { "Waiting" }
                } }
                tbody { @for origin in origins { tr {
                    th scope="row" { (origin.origin) }
                    @if names_mounts { td { (origin.mount) } }
                    td { (origin_state(origin.state)) }
                    td.n { (count(origin.requests)) }
                    td.n { (count(origin.failed())) }
                    td.n { (bytes(origin.bytes)) }
                    td.n { (count(origin.connections)) }
                    td.n { (count(origin.requests_under_way)) }
                    td.n { (count(origin.requests_waiting)) }
                } } }
            } }
        }
    }
}

fn origin_state(state: OriginState) -> Markup {
    match state {
        OriginState::Up => markup! { span.good { "up" } },
        OriginState::Down => markup! { span.warn { "down" } },
        OriginState::Probing => markup! { span.warn { "probing" } },
    }
}

/// The seconds since a second.
fn age_s(second: i64, since_s: u64) -> u64 {
    u64::try_from(second).unwrap_or(0).saturating_sub(since_s)
}

fn age(seconds: u64) -> String {
    duration(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// A share in percent. One that is not quite all is not shown as all.
fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1}\u{a0}%", (share * 1000.0).floor() / 10.0))
}

#[cfg(test)]
mod tests {
    use thalweg_tier::Counts;

    use super::*;
    use crate::content::tier_figures::TierMount;

    #[test]
    fn shares_are_not_rounded_up() {
        for (share, text) in [(None, "-"), (Some(0.99999), "99.9 %"), (Some(1.0), "100.0 %"), (Some(0.0), "0.0 %")] {
            assert_eq!(percent(share).replace('\u{a0}', " "), text);
        }
    }

    #[test]
    fn the_counts_of_a_row_add_up_to_its_requests() {
        let counts = Counts {
            held_hits: 1,
            hits: 2,
            collapsed: 4,
            stale: 8,
            stale_if_error: 16,
            revalidated: 32,
            misses: 64,
            passed: 128,
            failed: 256,
            partial: 3,
            peer_requests: 1,
            peer_bytes: 77,
            ..Counts::default()
        };
        let mount = |name: &str| TierMount { mount: name.to_owned(), shares: counts.into() };
        let mut total = counts;
        total.add(&counts);
        let mounts = vec![mount("/a/"), mount("/b/")];
        let page = markup(&TierFigures { total: total.into(), mounts, ..TierFigures::default() }, 0).into_string();
        let cells = |row: &str| {
            let row = page.split("<tr>").find(|other| other.contains(&format!(">{row}<"))).expect("a row");
            row.split("<td class=\"n\">").skip(1).map(|cell| cell.split('<').next().unwrap().to_owned()).collect()
        };
        let number = |cell: &String| cell.replace(',', "").parse::<u64>().unwrap();
        for (row, requests) in [("/a/", 511), ("/b/", 511), ("all", 1022)] {
            let cells: Vec<String> = cells(row);
            assert_eq!((cells.len(), number(&cells[0])), (12, requests), "{cells:?}");
            assert_eq!(cells[1..7].iter().map(number).sum::<u64>(), requests, "{cells:?}");
        }
        assert!(page.contains("From peers") && page.contains("77"), "{page}");
    }

    #[test]
    fn states_are_told() {
        let volume = |state| VolumeFigures {
            volume: "/a".to_owned(),
            state,
            reason: Some("it is <gone>".to_owned()),
            size_bytes: 1000,
            filled_bytes: 999,
            damaged: 7,
            unwritten: 0,
            failures: 8,
            oldest_s: Some(1_000_000 - 90_061),
        };
        let tier = TierFigures {
            volumes: vec![volume(VolumeState::Open), volume(VolumeState::Refused)],
            cycle_s: Some(7200),
            ..TierFigures::default()
        };
        let page = markup(&tier, 1_000_000).into_string().replace('\u{a0}', " ");
        for text in ["about <strong>2 h 0 min", "it is &lt;gone&gt;", ">left out<", ">1 day 1 h<", ">99.9 %<", ">open<"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
