//! Accounting of responses, compared with the bytes that clients have received.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::Driver;

use super::{Outcome, PIPELINE, PIPELINE_METHODS, SECOND_NS, Step, World, folder, naive, send, world};
use crate::config::{Limits, LogTarget, ServerConfig};
use crate::telemetry::accounting::Accounting;
use crate::telemetry::log::{Message, RecordQueue};
use crate::telemetry::record::Record;
use crate::telemetry::registry::{MountTotals, Registry};

/// Runs clients against a server with accounting. Returns its record of each response, as `target
/// status bytes`, with a `!` behind those that were cut short and a `#` behind downloads; the
/// totals of its mount; and the outcomes of the clients.
fn account(config: SimConfig, folder: &Path, scripts: Vec<Vec<Step>>) -> (Vec<String>, MountTotals, Vec<Outcome>) {
    account_within(&Limits::default(), config, folder, scripts)
}

/// The same with other limits than the usual ones.
fn account_within(
    limits: &Limits,
    config: SimConfig,
    folder: &Path,
    scripts: Vec<Vec<Step>>,
) -> (Vec<String>, MountTotals, Vec<Outcome>) {
    let mut driver = Sim::new(config);
    let start = driver.now();
    let (mut world, _) = world(&mut driver, limits, folder, scripts);
    let (registry, pages) = account_for(&mut world, folder);
    run(&mut driver, &mut world).unwrap();
    let outcomes = world.outcomes(start);
    (records(&pages), registry.mounts()[0].totals(), outcomes)
}

/// Has a server account for its responses: its registry, and the pages of records.
pub(super) fn account_for(world: &mut World<'_>, folder: &Path) -> (Arc<Registry>, Receiver<Message>) {
    let (to, from) = sync_channel(100);
    let registry = Arc::new(Registry::new(1, false));
    let mut config_of_mounts = ServerConfig::new(folder, Vec::<std::net::SocketAddr>::new());
    config_of_mounts.log.access = Some(LogTarget::Stdout);
    let accounting = Accounting::new(0, RecordQueue::new(to), Arc::clone(&registry), &config_of_mounts);
    world.service.set_accounting(accounting);
    (registry, from)
}

/// The records of responses, as `target status bytes`, with a `!` behind those that were cut short
/// and a `#` behind downloads.
pub(super) fn records(pages: &Receiver<Message>) -> Vec<String> {
    let mut lines = Vec::new();
    for message in pages.try_iter() {
        let Message::Page(page) = message else { panic!("{message:?}") };
        let mut records = page.bytes.as_slice();
        while let Some(Record { request, status, end, .. }) = Record::take(&mut records) {
            let target = request.map_or("-".into(), |request| String::from_utf8_lossy(request.target));
            let cut = if end.is_complete { "" } else { "!" };
            let download = if end.is_download { "#" } else { "" };
            lines.push(format!("{target} {status} {}{cut}{download}", end.body_bytes));
        }
    }
    lines
}

#[test]
fn each_response_is_accounted_with_the_bytes_sent_of_it() {
    let folder = folder();
    for seed in 0..40 {
        let scripts = vec![vec![send(PIPELINE), Step::Finish]; 5];
        let (mut lines, tally, outcomes) = account(SimConfig::rough(seed), folder.path(), scripts);
        lines.sort();
        let page_bytes = naive::take_all(&outcomes[0].received, PIPELINE_METHODS)[2].body.len();
        let page = format!("/missing 404 {page_bytes}");
        let expected = ["/a 200 13#", "/a 200 13#", "/large 200 0", "/large 206 10", &page];
        assert_eq!(lines, expected.map(|line| [line; 5]).concat(), "seed {seed}");
        let received: usize = outcomes.iter().map(|outcome| outcome.received.len()).sum();
        let bytes = received as u64;
        assert_eq!(tally, MountTotals { requests: 25, bytes, downloads: 10, under_way: 0 }, "seed {seed}");
    }
}

#[test]
fn ranges_that_hold_the_last_byte_are_the_downloads() {
    let folder = folder();
    let get = |range: &str| send(&format!("GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes={range}\r\n\r\n"));
    let steps = vec![get("0-999999"), get("1000000-"), get("-1"), get("0-"), get("0-1499998"), Step::Finish];
    let (lines, tally, _) = account(SimConfig::calm(1), folder.path(), vec![steps]);
    let expected = ["1000000", "500000#", "1#", "1500000#", "1499999"].map(|rest| format!("/large 206 {rest}"));
    assert_eq!(lines, expected);
    assert_eq!(tally.downloads, 3);
}

#[test]
fn an_abandoned_download_is_accounted_as_far_as_it_came() {
    let folder = folder();
    let mut config = SimConfig::calm(1);
    config.socket_buffer_bytes = 64 << 10;
    config.bandwidth = Some(100_000);
    let get = send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    let scripts = vec![vec![get, Step::Rest(7 * SECOND_NS), Step::Pause, Step::Rest(500 * SECOND_NS), Step::Resume]];
    let (lines, tally, outcomes) = account(config, folder.path(), scripts);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let bytes: usize = line.strip_prefix("/large 200 ").unwrap().strip_suffix('!').unwrap().parse().unwrap();
    let received = outcomes[0].received.len();
    // As exact as sends are reported: a part at a time.
    assert!(bytes <= received && received - bytes < 700_000, "{bytes} of {received}");
    assert_eq!((tally.downloads, tally.under_way), (0, 0));
}

#[test]
fn a_response_to_no_request_is_accounted_too() {
    let folder = folder();
    let scripts = vec![vec![send("GET /a HTTP/1.1\nHost: h\r\n\r\n")], vec![send("GET /a HT")]];
    let (lines, tally, outcomes) = account(SimConfig::calm(1), folder.path(), scripts);
    let expected = outcomes.iter().map(|outcome| {
        let response = &naive::take_all(&outcome.received, &["GET"])[0];
        format!("- {} {}", response.status, response.body.len())
    });
    assert_eq!(lines, expected.collect::<Vec<_>>());
    assert_eq!(tally.requests, 2);
}

#[test]
fn a_refused_connection_is_accounted_and_is_no_request() {
    let folder = folder();
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let mut config = SimConfig::calm(1);
    config.bandwidth = Some(1_000_000);
    let scripts = vec![vec![send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n"), Step::Finish]; 3];
    let (mut lines, tally, outcomes) = account_within(&limits, config, folder.path(), scripts);
    lines.sort();
    assert_eq!(lines, ["- 503 196", "- 503 196", "/large 200 1500000#"]);
    let received: usize = outcomes.iter().map(|outcome| outcome.received.len()).sum();
    assert_eq!(tally, MountTotals { requests: 1, bytes: received as u64, downloads: 1, under_way: 0 });
}
