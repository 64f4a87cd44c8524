//! HTTP/2 over a simulated network, by clients that write frames and read them by themselves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::Driver;

use super::accounted::{account_for, records};
use super::streams::{report, texts};
use super::tier::{Delivery, Ending, Kind, ScriptedTier, forwarding};
use super::{Outcome, SECOND_NS, Step, folder, large, one, simulate, world};
use crate::config::{Limits, RequestLimit};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A window that no test exhausts.
const WIDE: u32 = 1 << 30;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The beginning of a connection with this window of each stream.
fn preface(window: u32) -> Vec<u8> {
    let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &setting)].concat()
}

fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

/// A request without a body, with these fields beside the usual ones.
fn get(stream: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = fields.iter().flat_map(|(name, value)| literal(name, value));
    let usual = [literal(":method", "GET"), literal(":scheme", "http"), literal(":path", path)].concat();
    let block: Vec<u8> = usual.into_iter().chain(literal(":authority", "h")).chain(fields).collect();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

/// Frames that a client has received.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frames(mut received: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = received.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = rest[..length.min(rest.len())].to_vec();
        frames.push(Frame { kind: head[3], flags: head[4], stream, payload });
        received = &rest[length.min(rest.len())..];
    }
    frames
}

/// The response on a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Response {
    /// The first byte of the header block: 0x88 is a 200.
    status: u8,
    body: Vec<u8>,
    is_whole: bool,
}

const STATUS_200: u8 = 0x88;
const STATUS_206: u8 = 0x8a;
const STATUS_404: u8 = 0x8d;

fn responses(received: &[u8]) -> BTreeMap<u32, Response> {
    let mut responses: BTreeMap<u32, Response> = BTreeMap::new();
    for frame in frames(received) {
        match frame.kind {
            HEADERS => responses.entry(frame.stream).or_default().status = frame.payload[0],
            DATA => responses.entry(frame.stream).or_default().body.extend(&frame.payload),
            _ => continue,
        }
        let response = responses.entry(frame.stream).or_default();
        assert!(!response.is_whole, "a frame behind the end of stream {}", frame.stream);
        response.is_whole = frame.flags & END_STREAM != 0;
    }
    responses
}

/// Several requests at once, and a window wide enough for their responses.
fn several() -> Vec<u8> {
    let parts = [
        preface(WIDE),
        window_update(0, WIDE),
        get(1, "/a", &[]),
        get(3, "/large", &[("range", "bytes=1000000-1000009")]),
        get(5, "/large", &[("priority", "u=1")]),
        get(7, "/missing", &[]),
        get(9, "/empty", &[]),
        get(11, "/large", &[("range", "bytes=0-4,100-109")]),
    ];
    parts.concat()
}

#[track_caller]
fn check_several(outcome: &Outcome, context: &str) {
    let responses = responses(&outcome.received);
    assert!(responses.values().all(|response| response.is_whole), "{context}");
    assert_eq!(responses[&1], Response { status: STATUS_200, body: b"the letter a\n".into(), is_whole: true });
    assert_eq!((responses[&3].status, &responses[&3].body[..]), (STATUS_206, &large()[1_000_000..1_000_010]));
    assert_eq!((responses[&5].status, responses[&5].body == large()), (STATUS_200, true), "{context}");
    assert_eq!(responses[&7].status, STATUS_404);
    assert_eq!(responses[&9], Response { status: STATUS_200, body: Vec::new(), is_whole: true });
    assert_eq!(responses[&11].status, STATUS_206);
    let multipart = String::from_utf8_lossy(&responses[&11].body).into_owned();
    assert_eq!(multipart.matches("Content-Range: bytes ").count(), 2, "{multipart}");
}

#[test]
fn requests_are_answered_wherever_the_input_is_cut() {
    let folder = folder();
    let all = several();
    let scripts = (1..all.len()).step_by(7).map(|cut| {
        let (first, second) = all.split_at(cut);
        vec![Step::Send(first.into()), Step::Rest(5_000_000), Step::Send(second.into()), Step::Finish]
    });
    let (outcomes, _) = simulate(SimConfig::calm(1), &Limits::default(), folder.path(), scripts.collect());
    for (number, outcome) in outcomes.iter().enumerate() {
        assert!(outcome.orderly);
        check_several(outcome, &format!("cut at {}", 1 + 7 * number));
    }
}

#[test]
fn a_rough_network_changes_nothing() {
    let folder = folder();
    for seed in 0..20 {
        let scripts = vec![vec![Step::Send(several()), Step::Finish]; 5];
        let (outcomes, totals) = simulate(SimConfig::rough(seed), &Limits::default(), folder.path(), scripts);
        for outcome in &outcomes {
            assert!(outcome.orderly, "seed {seed}");
            check_several(outcome, &format!("seed {seed}"));
        }
        assert_eq!((totals.requests, totals.responses), (30, [25, 0, 5, 0]), "seed {seed}");
        let received: usize = outcomes.iter().map(|outcome| outcome.received.len()).sum();
        assert_eq!(totals.bytes, received as u64, "seed {seed}");
    }
}

#[test]
fn responses_are_recorded_though_they_leave_in_turns() {
    let folder = folder();
    for seed in 0..5 {
        let parts = [
            preface(WIDE),
            window_update(0, WIDE),
            get(1, "/large", &[("priority", "i")]),
            get(3, "/large", &[("priority", "i"), ("range", "bytes=500000-")]),
            get(5, "/a", &[]),
        ];
        let mut driver = Sim::new(SimConfig::rough(seed));
        let start = driver.now();
        let scripts = vec![vec![Step::Send(parts.concat()), Step::Finish]];
        let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        let (registry, pages) = account_for(&mut world, folder.path());
        run(&mut driver, &mut world).unwrap();
        let outcome = world.outcomes(start).remove(0);
        assert!(responses(&outcome.received).values().all(|response| response.is_whole));
        let mut lines = records(&pages);
        lines.sort();
        assert_eq!(lines, ["/a 200 13#", "/large 200 1500000#", "/large 206 1000000#"], "seed {seed}");
        assert_eq!(registry.mounts()[0].totals().under_way, 0);
    }
}

#[test]
fn streams_of_equal_priority_share_the_connection_if_the_client_wants_it() {
    let folder = folder();
    let order = |priority: &str| {
        let fields = [("priority", priority)];
        let parts =
            [preface(WIDE), window_update(0, WIDE), get(1, "/large", &fields), get(3, "/large", &fields)].concat();
        let outcome = one(SimConfig::calm(1), folder.path(), vec![Step::Send(parts), Step::Finish]);
        let streams: Vec<u32> =
            frames(&outcome.received).iter().filter(|frame| frame.kind == DATA).map(|frame| frame.stream).collect();
        streams.windows(2).filter(|pair| pair[0] != pair[1]).count()
    };
    assert_eq!(order("u=3"), 1, "one after the other");
    assert!(order("i") > 50, "in turns");
}

#[test]
fn a_body_waits_for_its_windows() {
    let folder = folder();
    let steps = vec![
        Step::Send([preface(3), get(1, "/a", &[])].concat()),
        Step::Rest(SECOND_NS),
        Step::Send(window_update(1, 4)),
        Step::Rest(SECOND_NS),
        Step::Send(window_update(1, 100)),
        Step::Rest(SECOND_NS),
        Step::Finish,
    ];
    let outcome = one(SimConfig::calm(1), folder.path(), steps);
    let pieces: Vec<usize> =
        frames(&outcome.received).iter().filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).collect();
    assert_eq!(pieces, [3, 4, 6]);
    assert_eq!(responses(&outcome.received)[&1].body, b"the letter a\n");
}

#[test]
fn a_window_that_stays_shut_ends_the_connection() {
    let folder = folder();
    let limits = Limits::default();
    for drip in [false, true] {
        let mut steps = vec![Step::Send([preface(0), get(1, "/large", &[])].concat())];
        if drip {
            for _ in 0..200 {
                steps.extend([Step::Rest(SECOND_NS), Step::Send(window_update(1, 1))]);
            }
        }
        let (outcomes, _) = simulate(SimConfig::calm(1), &limits, folder.path(), vec![steps]);
        assert!(outcomes[0].lasted < limits.stall_time + limits.linger_time + limits.stall_time, "drip: {drip}");
        assert!(frames(&outcomes[0].received).iter().any(|frame| frame.kind == GOAWAY), "drip: {drip}");
    }
}

#[test]
fn a_reset_ends_its_stream_alone() {
    let folder = folder();
    let steps = vec![
        Step::Send([preface(100_000), window_update(0, WIDE), get(1, "/large", &[]), get(3, "/large", &[])].concat()),
        Step::Rest(SECOND_NS),
        Step::Send([frame(RST_STREAM, 0, 1, &8u32.to_be_bytes()), window_update(3, WIDE), get(5, "/a", &[])].concat()),
        Step::Rest(SECOND_NS),
        Step::Finish,
    ];
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = driver.now();
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), vec![steps]);
    let (_, pages) = account_for(&mut world, folder.path());
    run(&mut driver, &mut world).unwrap();
    let outcome = world.outcomes(start).remove(0);
    let responses = responses(&outcome.received);
    assert_eq!((responses[&1].is_whole, responses[&1].body.len()), (false, 100_000));
    assert!(responses[&3].body == large() && responses[&5].is_whole);
    let mut lines = records(&pages);
    lines.sort();
    assert_eq!(lines, ["/a 200 13#", "/large 200 100000!", "/large 200 1500000#"]);
}

#[test]
fn an_origin_that_fails_half_way_has_its_stream_reset_and_reported() {
    let folder = folder();
    let of = |pieces, ending| Delivery::of(Kind::Fragments, pieces, 1_000_000, ending);
    for (ending, reason) in [(Ending::Failure, "the simulated origin has failed"), (Ending::Silence, "in time")] {
        let deliveries = [("/fails", of(30, ending)), ("/whole", of(60, Ending::Complete))];
        let input = [preface(WIDE), window_update(0, WIDE), get(1, "/fails", &[]), get(3, "/whole", &[])].concat();
        let mut driver = Sim::new(SimConfig::calm(1));
        let start = driver.now();
        let scripts = vec![vec![Step::Send(input), Step::Finish]];
        let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        let reports = report(&mut world);
        let (registry, pages) = account_for(&mut world, folder.path());
        world.forward(&ScriptedTier::new(deliveries), &forwarding(&["GET"]));
        run(&mut driver, &mut world).unwrap();
        let outcome = world.outcomes(start).remove(0);
        let resets = frames(&outcome.received).into_iter().filter(|frame| frame.kind == RST_STREAM);
        let resets: Vec<_> = resets.map(|frame| (frame.stream, frame.payload)).collect();
        assert_eq!(resets, [(1, vec![0, 0, 0, 2])], "{reason}");
        let responses = responses(&outcome.received);
        assert!(responses[&3].is_whole && responses[&3].body.len() == 60_000, "{reason}");
        let texts = texts(&reports);
        assert!(texts.iter().any(|text| text.contains(reason)), "{texts:?}");
        let mut lines = records(&pages);
        lines.sort();
        assert_eq!(lines, ["/fails 200 30000!", "/whole 200 60000#"], "{reason}");
        assert_eq!(registry.mounts()[0].totals().under_way, 0);
    }
}

#[test]
fn a_client_that_takes_long_frames_gets_them() {
    let folder = folder();
    let longest = |announced: Option<u32>| {
        let setting = announced.map(|bytes| frame(SETTINGS, 0, 0, &[&[0, 5][..], &bytes.to_be_bytes()].concat()));
        let parts = [preface(WIDE), setting.unwrap_or_default(), window_update(0, WIDE), get(1, "/large", &[])];
        let outcome = one(SimConfig::calm(1), folder.path(), vec![Step::Send(parts.concat()), Step::Finish]);
        let response = &responses(&outcome.received)[&1];
        assert!(response.is_whole && response.body == large());
        let data = frames(&outcome.received).into_iter().filter(|frame| frame.kind == DATA);
        data.map(|frame| frame.payload.len()).max()
    };
    assert_eq!(longest(None), Some(16 << 10));
    assert_eq!(longest(Some(40_000)), Some(40_000));
    assert_eq!(longest(Some((1 << 24) - 1)), Some(128 << 10));
}

#[test]
fn a_file_that_is_modified_while_its_frames_are_gathered_is_cut_off() {
    const BYTES: usize = 4 << 20;
    let folder = folder();
    let path = folder.path().join("changes");
    fs::write(&path, vec![b'a'; BYTES]).unwrap();
    // A change within one tick of the file system's clock would not be seen.
    let before = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    let run_with = |edit: bool| {
        let mut driver = Sim::new(SimConfig { bandwidth: Some(20_000_000), ..SimConfig::calm(1) });
        let start = driver.now();
        let input = [preface(WIDE), window_update(0, WIDE), get(1, "/changes", &[])].concat();
        let scripts = vec![vec![Step::Send(input), Step::Finish]];
        let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        if edit {
            let path = path.clone();
            let rewrite = Box::new(move || fs::write(path, vec![b'b'; BYTES]).unwrap());
            world.edits.push_back((start.plus_ns(100_000_000), rewrite));
        }
        run(&mut driver, &mut world).unwrap();
        world.outcomes(start).remove(0)
    };
    let whole = run_with(false);
    assert!(whole.orderly && responses(&whole.received)[&1].body == vec![b'a'; BYTES]);
    let cut = run_with(true);
    let response = &responses(&cut.received)[&1];
    assert!(!cut.orderly && !response.is_whole);
    assert!(response.body.len() > 1 << 20 && response.body.iter().all(|&byte| byte == b'a'));
}

#[test]
fn a_server_that_leaves_says_so_and_finishes() {
    let folder = folder();
    let steps = vec![
        Step::Send([preface(WIDE), window_update(0, WIDE), get(1, "/large", &[])].concat()),
        Step::Receive(10_000),
        Step::Drain(10 * SECOND_NS),
    ];
    let outcome = one(SimConfig::rough(3), folder.path(), steps);
    assert!(outcome.orderly);
    assert!(frames(&outcome.received).iter().any(|frame| frame.kind == GOAWAY));
    assert!(responses(&outcome.received)[&1].body == large());
}

#[test]
fn faults_of_the_client_end_the_connection_with_a_reason() {
    let folder = folder();
    let cases = [
        [preface(WIDE), frame(HEADERS, END_HEADERS, 0, &[])].concat(),
        [preface(WIDE), frame(DATA, 0, 1, b"x")].concat(),
        [preface(WIDE), frame(SETTINGS, 0, 0, b"x")].concat(),
        [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), get(1, "/a", &[])].concat(),
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let outcome = one(SimConfig::calm(1), folder.path(), vec![Step::Send(case)]);
        assert!(outcome.orderly, "case {number}");
        let last = frames(&outcome.received).pop().unwrap();
        assert_eq!(last.kind, GOAWAY, "case {number}");
        assert_ne!(last.payload[4..8], [0; 4], "case {number}");
    }
}

/// The header block of a request, with these bytes behind the usual fields.
fn block_with(more: &[u8]) -> Vec<u8> {
    let usual = [literal(":method", "GET"), literal(":scheme", "http"), literal(":path", "/a")].concat();
    [usual, literal(":authority", "h"), more.to_vec()].concat()
}

/// Frames that cost the server work or memory, and ask for nothing.
fn floods() -> [(&'static str, Vec<u8>); 7] {
    const FRAMES: u32 = 20_000;
    let streams = || (0..FRAMES).map(|number| 2 * number + 1);
    let cancel = 8u32.to_be_bytes();
    let reset = |stream| [get(stream, "/large", &[]), frame(RST_STREAM, 0, stream, &cancel)].concat();
    // An increment of 0 has the server reset the stream (CVE-2025-8671).
    let provoke = |stream| [get(stream, "/large", &[]), window_update(stream, 0)].concat();
    let all = |frames: Vec<Vec<u8>>| [preface(WIDE), frames.concat()].concat();
    let endless_block = std::iter::once(frame(HEADERS, END_STREAM, 1, &block_with(&[])))
        .chain((0..FRAMES).map(|_| frame(9, 0, 1, &literal("x", "0123456789"))));
    let post = frame(HEADERS, END_HEADERS, 1, &block_with(&[]));
    [
        ("rapid reset", all(streams().map(reset).collect())),
        ("provoked resets", all(streams().map(provoke).collect())),
        ("PING", all((0..FRAMES).map(|_| frame(6, 0, 0, &[0; 8])).collect())),
        ("SETTINGS", all((0..FRAMES).map(|_| frame(SETTINGS, 0, 0, &[])).collect())),
        ("CONTINUATION", all(endless_block.collect())),
        ("empty DATA", all(std::iter::once(post).chain((0..FRAMES).map(|_| frame(DATA, 0, 1, &[]))).collect())),
        ("PRIORITY_UPDATE", all((0..FRAMES).map(|_| frame(16, 0, 0, &[0, 0, 0, 1, b'u', b'=', b'1'])).collect())),
    ]
}

#[test]
fn floods_end_their_connection_and_hold_nobody_up() {
    let folder = folder();
    for (name, flood) in floods() {
        let others = vec![Step::Send([preface(WIDE), get(1, "/a", &[])].concat()), Step::Rest(SECOND_NS), Step::Finish];
        let scripts = vec![vec![Step::Send(flood)], others];
        let (outcomes, _) = simulate(SimConfig::calm(1), &Limits::default(), folder.path(), scripts);
        let last = frames(&outcomes[0].received).pop().unwrap();
        assert_eq!((last.kind, &last.payload[4..8]), (GOAWAY, &[0, 0, 0, 11][..]), "{name}: not ENHANCE_YOUR_CALM");
        assert_eq!(responses(&outcomes[1].received)[&1].body, b"the letter a\n", "{name}");
    }
}

#[test]
fn a_block_that_unfolds_is_not_kept() {
    let folder = folder();
    // An entry of 4,000 bytes for the dynamic table, and 4,000 references to it.
    let entry = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'v'; 4000], &[0xbe; 4000]].concat();
    let block = block_with(&entry);
    let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block);
    let steps = vec![Step::Send([preface(WIDE), request, get(3, "/a", &[])].concat()), Step::Finish];
    let outcome = one(SimConfig::calm(1), folder.path(), steps);
    let responses = responses(&outcome.received);
    // 431 is no entry of the static table.
    assert_eq!((responses[&1].status, responses[&1].is_whole), (0x08, true));
    assert_eq!(responses[&3].body, b"the letter a\n");
}

#[test]
fn an_idle_client_is_told_that_the_server_leaves() {
    let folder = folder();
    let steps = vec![
        Step::Send([preface(WIDE), get(1, "/a", &[])].concat()),
        Step::Rest(SECOND_NS),
        Step::Drain(30 * SECOND_NS),
    ];
    let outcome = one(SimConfig::calm(1), folder.path(), steps);
    assert!(outcome.orderly && outcome.lasted.as_secs() < 10, "{:?}", outcome.lasted);
    let last = frames(&outcome.received).pop().unwrap();
    assert_eq!((last.kind, &last.payload[..]), (GOAWAY, &[0, 0, 0, 1, 0, 0, 0, 0][..]));
}

#[test]
fn streams_of_a_client_share_its_rate_of_requests() {
    let folder = folder();
    let requests_per_client = RequestLimit { rate: Some("1/h".parse().unwrap()), burst: 2 };
    let limits = Limits { requests_per_client, ..Limits::default() };
    let gets = (0..5).map(|number| get(1 + 2 * number, "/a", &[]));
    let parts: Vec<_> = [preface(WIDE)].into_iter().chain(gets).collect();
    let (outcomes, totals) =
        simulate(SimConfig::calm(1), &limits, folder.path(), vec![vec![Step::Send(parts.concat()), Step::Finish]]);
    // Those that wait for the disk are counted once all the same.
    assert_eq!((totals.responses, totals.requests_limited), ([2, 0, 3, 0], 3));
    let responses = responses(&outcomes[0].received);
    let good: Vec<u32> =
        responses.iter().filter(|(_, one)| one.status == STATUS_200).map(|(stream, _)| *stream).collect();
    assert_eq!(good, [1, 3]);
}
