//! A client and a server connected in memory, and frames that break the rules.

use super::*;
use crate::hpack::{Encoder, FieldList, Indexing, ListBounds, SIZE_INITIAL, encode_stateless};
use crate::{HostFault, Method};

fn config() -> Config {
    let settings = Settings {
        enable_push: false,
        concurrent_streams_max: 4,
        header_list_max: 16 << 10,
        no_old_priorities: true,
        ..Settings::INITIAL
    };
    Config { settings, connection_window: WINDOW_INITIAL, list: ListBounds::default() }
}

/// An event without borrowed parts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Headers(u32, Vec<(String, String)>, bool),
    Data(u32, Vec<u8>, bool),
    Reset(u32, ErrorCode, bool),
    Other(&'static str),
}

/// One side with what it has to send.
struct Side {
    connection: Connection<u32>,
    list: FieldList,
    out: Vec<u8>,
}

impl Side {
    fn new(role: Role, config: Config) -> Self {
        let mut out = Vec::new();
        Side { connection: Connection::new(role, config, &mut out), list: FieldList::default(), out }
    }

    /// Reads input in pieces of so many bytes.
    fn read(&mut self, input: &[u8], piece: usize) -> Result<Vec<Seen>, Fault> {
        let mut seen = Vec::new();
        for mut rest in input.chunks(piece) {
            loop {
                let progress = self.connection.read(rest, &mut self.list, &mut self.out)?;
                rest = &rest[progress.consumed..];
                let Some(event) = progress.event else { break };
                seen.push(look(&event));
            }
            assert!(rest.is_empty(), "a reader that wants more has taken all");
        }
        Ok(seen)
    }
}

fn look(event: &Event<'_>) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        Event::Headers { stream, fields, ends } => {
            Seen::Headers(*stream, fields.iter().map(|(name, value)| (text(name), text(value))).collect(), *ends)
        }
        Event::Data { stream, bytes, ends } => Seen::Data(*stream, bytes.to_vec(), *ends),
        Event::Reset { stream, code, fault } => Seen::Reset(*stream, *code, fault.is_some()),
        Event::WindowOpened => Seen::Other("window"),
        Event::Settings => Seen::Other("settings"),
        Event::GoAway { .. } => Seen::Other("goaway"),
        Event::Pong(_) => Seen::Other("pong"),
    }
}

const REQUEST: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/a"), (":authority", "example.org")];

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| encode_stateless(name.as_bytes(), value.as_bytes(), &mut block));
    block
}

/// A client and a server that have exchanged their settings.
fn connected() -> (Side, Side) {
    let (mut client, mut server) = (Side::new(Role::Client, config()), Side::new(Role::Server, config()));
    assert_eq!(server.read(&std::mem::take(&mut client.out), usize::MAX), Ok(vec![Seen::Other("settings")]));
    assert_eq!(client.read(&std::mem::take(&mut server.out), usize::MAX), Ok(vec![Seen::Other("settings")]));
    assert_eq!(server.read(&std::mem::take(&mut client.out), usize::MAX), Ok(vec![]));
    (client, server)
}

#[test]
fn a_request_and_its_response_in_pieces_of_any_size() {
    for piece in [1, 2, 7, 100, usize::MAX] {
        let (mut client, mut server) = connected();
        let mut encoder = Encoder::new(SIZE_INITIAL);
        for number in [1, 3, 5] {
            let stream = client.connection.open(7).expect("a stream");
            assert_eq!(stream, number);
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value) in REQUEST {
                encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Yes, &mut block);
            }
            assert!(client.connection.headers(stream, &block, true, &mut client.out));
            let seen = server.read(&std::mem::take(&mut client.out), piece).expect("a request");
            let fields = REQUEST.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            assert_eq!(seen, [Seen::Headers(stream, fields, true)]);
            let mut heads = HeadFields::new();
            let head = heads.request(&server.list, true).expect("a head");
            assert_eq!((head.method, head.target, head.host()), (Method::Get, &b"/a"[..], Some("example.org")));

            let response = self::block(&[(":status", "200"), ("content-length", "5")]);
            assert!(server.connection.headers(stream, &response, false, &mut server.out));
            let head = server.connection.data(stream, 5, true);
            server.out.extend_from_slice(&head);
            server.out.extend_from_slice(b"hello");
            server.connection.release(stream, &mut server.out);
            assert_eq!(server.connection.stream_count(), 0);
            let seen = client.read(&std::mem::take(&mut server.out), piece).expect("a response");
            assert!(matches!(&seen[0], Seen::Headers(_, fields, false) if fields[0].1 == "200"), "{seen:?}");
            let mut body = Vec::new();
            for event in &seen[1..] {
                let Seen::Data(_, bytes, _) = event else { panic!("{event:?}") };
                body.extend_from_slice(bytes);
            }
            assert_eq!(body, b"hello");
            assert!(matches!(seen.last(), Some(Seen::Data(_, _, true))));
            client.connection.release(stream, &mut client.out);
            assert!(client.connection.is_idle() && client.out.is_empty());
        }
    }
}

#[test]
fn windows_bound_what_is_sent_and_are_returned() {
    let (mut client, mut server) = connected();
    let stream = client.connection.open(0).expect("a stream");
    client.connection.headers(stream, &block(&REQUEST), true, &mut client.out);
    server.read(&std::mem::take(&mut client.out), usize::MAX).expect("a request");
    server.connection.headers(stream, &block(&[(":status", "200")]), false, &mut server.out);
    server.connection.set_wants_to_send(stream, true);
    let (mut sent, mut received) = (0, 0);
    for _ in 0..100 {
        while server.connection.next_sender() == Some(stream) {
            let len = server.connection.sendable(stream);
            assert!((1..=PAYLOAD_MAX_INITIAL).contains(&len));
            sent += u64::from(len);
            let head = server.connection.data(stream, len, false);
            server.out.extend_from_slice(&head);
            server.out.extend(std::iter::repeat_n(b'x', len as usize));
        }
        assert!(sent - received <= u64::from(WINDOW_INITIAL));
        for event in client.read(&std::mem::take(&mut server.out), 1000).expect("data") {
            if let Seen::Data(_, bytes, _) = event {
                received += bytes.len() as u64;
                client.connection.consume(stream, bytes.len() as u32, &mut client.out);
            }
        }
        server.read(&std::mem::take(&mut client.out), usize::MAX).expect("window updates");
    }
    assert_eq!(sent, received);
    assert!(sent > 50 * u64::from(WINDOW_INITIAL) / 2, "{sent}");
}

#[test]
fn streams_send_by_urgency_then_in_order_or_in_turn() {
    let (mut client, mut server) = connected();
    let plain = Priority::default();
    let shared = Priority { incremental: true, ..plain };
    for priority in [shared, shared, plain, Priority { urgency: 1, ..plain }] {
        let stream = client.connection.open(0).expect("a stream");
        client.connection.headers(stream, &block(&REQUEST), true, &mut client.out);
        server.read(&std::mem::take(&mut client.out), usize::MAX).expect("a request");
        server.connection.headers(stream, &block(&[(":status", "200")]), false, &mut server.out);
        server.connection.set_priority(stream, priority);
        server.connection.set_wants_to_send(stream, true);
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        let stream = server.connection.next_sender().expect("a sender");
        order.push(stream);
        server.connection.data(stream, 10, order.len() < 3);
    }
    assert_eq!(order, [7, 5, 1], "the most urgent, the one that does not share, then those that do");
    let (mut one, mut other) = (0, 0);
    for _ in 0..10 {
        match server.connection.next_sender() {
            Some(1) => one += 1,
            Some(3) => other += 1,
            stream => panic!("{stream:?}"),
        }
    }
    assert_eq!((one, other), (5, 5));
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(kind, flags, stream, payload, &mut out);
    out
}

/// Kind, stream and payload.
type SentFrame = (u8, u32, Vec<u8>);

/// The server's reaction to frames behind a client's preface: the fault of the connection, if
/// there is one, and the frames that it sends.
fn serve(frames: &[Vec<u8>]) -> (Option<ErrorCode>, Vec<SentFrame>) {
    let mut server = Side::new(Role::Server, config());
    let mut input = PREFACE.to_vec();
    input.extend(frame(4, 0, 0, &[]));
    server.read(&input, usize::MAX).expect("a preface");
    server.out.clear();
    let fault = server.read(&frames.concat(), 3).err().map(|fault| fault.code);
    let mut sent = Vec::new();
    let mut rest = &server.out[..];
    while let Some((head, behind)) = rest.split_first_chunk() {
        let head = FrameHead::read(head);
        let (payload, behind) = behind.split_at(head.len as usize);
        sent.push((head.kind, head.stream, payload.to_vec()));
        rest = behind;
    }
    (fault, sent)
}

#[test]
fn faults_of_the_connection_end_it() {
    use ErrorCode as E;
    let get = || frame(1, 5, 1, &block(&REQUEST));
    let open = || frame(1, 4, 1, &block(&REQUEST));
    let cases: Vec<(&str, Vec<Vec<u8>>, E)> = vec![
        ("SETTINGS of a stream", vec![frame(4, 0, 1, &[])], E::PROTOCOL_ERROR),
        ("a part of a setting", vec![frame(4, 0, 0, &[0; 5])], E::FRAME_SIZE_ERROR),
        ("an acknowledgement with entries", vec![frame(4, 1, 0, &[0; 6])], E::FRAME_SIZE_ERROR),
        ("push neither on nor off", vec![frame(4, 0, 0, &[0, 2, 0, 0, 0, 2])], E::PROTOCOL_ERROR),
        ("a window too large", vec![frame(4, 0, 0, &[0, 4, 0x80, 0, 0, 0])], E::FLOW_CONTROL_ERROR),
        ("frames too small", vec![frame(4, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff])], E::PROTOCOL_ERROR),
        ("PING of a stream", vec![frame(6, 0, 1, &[0; 8])], E::PROTOCOL_ERROR),
        ("a short PING", vec![frame(6, 0, 0, &[0; 6])], E::FRAME_SIZE_ERROR),
        ("a short GOAWAY", vec![frame(7, 0, 0, &[0; 7])], E::FRAME_SIZE_ERROR),
        ("GOAWAY of a stream", vec![frame(7, 0, 1, &[0; 8])], E::PROTOCOL_ERROR),
        ("a window opened by nothing", vec![frame(8, 0, 0, &[0; 4])], E::PROTOCOL_ERROR),
        ("a short WINDOW_UPDATE", vec![frame(8, 0, 0, &[0; 3])], E::FRAME_SIZE_ERROR),
        ("a window opened too far", vec![frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])], E::FLOW_CONTROL_ERROR),
        ("WINDOW_UPDATE on an idle stream", vec![frame(8, 0, 1, &[0, 0, 0, 1])], E::PROTOCOL_ERROR),
        ("RST_STREAM on an idle stream", vec![frame(3, 0, 1, &[0; 4])], E::PROTOCOL_ERROR),
        ("a short RST_STREAM", vec![get(), frame(3, 0, 1, &[0; 3])], E::FRAME_SIZE_ERROR),
        ("RST_STREAM without a stream", vec![frame(3, 0, 0, &[0; 4])], E::PROTOCOL_ERROR),
        ("DATA on an idle stream", vec![frame(0, 0, 1, b"x")], E::PROTOCOL_ERROR),
        ("DATA without a stream", vec![frame(0, 0, 0, b"x")], E::PROTOCOL_ERROR),
        ("padding longer than DATA", vec![open(), frame(0, 8, 1, &[5, 0, 0])], E::PROTOCOL_ERROR),
        ("padding longer than HEADERS", vec![frame(1, 0xd, 1, &[9, 0x82])], E::PROTOCOL_ERROR),
        ("HEADERS without a stream", vec![frame(1, 5, 0, &block(&REQUEST))], E::PROTOCOL_ERROR),
        ("HEADERS on a server's stream", vec![frame(1, 5, 2, &block(&REQUEST))], E::PROTOCOL_ERROR),
        ("streams in descending order", vec![frame(1, 5, 5, &block(&REQUEST)), get()], E::STREAM_CLOSED),
        ("a header block that cannot be decoded", vec![frame(1, 5, 1, &[0xff; 8])], E::COMPRESSION_ERROR),
        ("CONTINUATION by itself", vec![frame(9, 4, 1, &[0x82])], E::PROTOCOL_ERROR),
        ("a frame inside a header block", vec![frame(1, 1, 1, &[0x82]), frame(6, 0, 0, &[0; 8])], E::PROTOCOL_ERROR),
        ("CONTINUATION of another", vec![frame(1, 1, 1, &[0x82]), frame(9, 4, 3, &[0x84])], E::PROTOCOL_ERROR),
        ("PUSH_PROMISE of a client", vec![get(), frame(5, 4, 1, &[0, 0, 0, 2])], E::PROTOCOL_ERROR),
        ("a frame too large", vec![frame(0x42, 0, 0, &[0; 16385])], E::FRAME_SIZE_ERROR),
        (
            "DATA beyond the window",
            vec![[open(), frame(0, 0, 1, &[0; 16384]).repeat(4)].concat()],
            E::FLOW_CONTROL_ERROR,
        ),
        ("PRIORITY without a stream", vec![frame(2, 0, 0, &[0; 5])], E::PROTOCOL_ERROR),
        ("PRIORITY_UPDATE of a stream", vec![frame(16, 0, 1, &[0, 0, 0, 1])], E::PROTOCOL_ERROR),
    ];
    for (name, frames, code) in cases {
        let (fault, sent) = serve(&frames);
        assert_eq!(fault, Some(code), "{name}");
        let (kind, _, payload) = sent.last().expect("GOAWAY");
        assert_eq!((*kind, &payload[4..8]), (7, &code.0.to_be_bytes()[..]), "{name}");
    }
}

#[test]
fn faults_of_a_stream_reset_it() {
    use ErrorCode as E;
    let get = || frame(1, 5, 1, &block(&REQUEST));
    let open = || frame(1, 4, 1, &block(&REQUEST));
    let depends = [[0, 0, 0, 1, 9].to_vec(), block(&REQUEST)].concat();
    let cases: Vec<(&str, Vec<Vec<u8>>, E)> = vec![
        ("DATA behind the end", vec![get(), frame(0, 1, 1, b"x")], E::STREAM_CLOSED),
        ("HEADERS behind the end", vec![get(), get()], E::STREAM_CLOSED),
        ("trailers that end nothing", vec![open(), open()], E::PROTOCOL_ERROR),
        ("a window opened by nothing", vec![open(), frame(8, 0, 1, &[0; 4])], E::PROTOCOL_ERROR),
        ("a window opened too far", vec![open(), frame(8, 0, 1, &[0x7f, 0xff, 0xff, 0xff])], E::FLOW_CONTROL_ERROR),
        ("a stream that depends on itself", vec![frame(1, 0x25, 1, &depends)], E::PROTOCOL_ERROR),
        ("PRIORITY on itself", vec![frame(2, 0, 1, &[0, 0, 0, 1, 0])], E::PROTOCOL_ERROR),
        ("a short PRIORITY", vec![frame(2, 0, 1, &[0; 4])], E::FRAME_SIZE_ERROR),
    ];
    for (name, frames, code) in cases {
        let (fault, sent) = serve(&frames);
        assert_eq!(fault, None, "{name}");
        assert_eq!(sent, [(3, 1, code.0.to_be_bytes().to_vec())], "{name}");
    }
    let many: Vec<_> = (0..5).map(|number| frame(1, 5, 2 * number + 1, &block(&REQUEST))).collect();
    assert_eq!(serve(&many).1, [(3, 9, E::REFUSED_STREAM.0.to_be_bytes().to_vec())], "a stream beyond the limit");
}

#[test]
fn frames_that_are_not_understood_are_ignored() {
    let ping = frame(6, 0, 0, b"12345678");
    let frames = [frame(0x42, 0xff, 7, b"x"), frame(4, 0, 0, &[0xff; 6]), frame(6, 0xfe, 0, b"12345678"), ping];
    let (fault, sent) = serve(&frames);
    assert_eq!(fault, None);
    let kinds: Vec<u8> = sent.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, [4, 6, 6], "SETTINGS and both PINGs are acknowledged");
}

/// Each attack ends after a bounded number of frames.
#[test]
fn floods_end_the_connection() {
    let get = |stream: u32| frame(1, 5, stream, &block(&REQUEST));
    let rapid = |number: u32| [get(2 * number + 1), frame(3, 0, 2 * number + 1, &[0; 4])].concat();
    let provoked = |number: u32| [get(2 * number + 1), frame(8, 0, 2 * number + 1, &[0; 4])].concat();
    type Attack<'a> = (&'a str, &'a dyn Fn(u32) -> Vec<u8>);
    let attacks: [Attack<'_>; 7] = [
        ("PING", &|_| frame(6, 0, 0, &[0; 8])),
        ("SETTINGS", &|_| frame(4, 0, 0, &[])),
        ("empty DATA", &|number| if number == 0 { frame(1, 4, 1, &block(&REQUEST)) } else { frame(0, 0, 1, &[]) }),
        ("WINDOW_UPDATE", &|_| frame(8, 0, 0, &[0, 0, 0, 1])),
        ("rapid reset", &rapid),
        ("resets provoked", &provoked),
        ("CONTINUATION", &|number| {
            frame(if number == 0 { 1 } else { 9 }, 0, 1, if number == 0 { &[0x82] } else { &[] })
        }),
    ];
    for (name, attack) in attacks {
        let mut server = Side::new(Role::Server, config());
        server.read(&[PREFACE, &frame(4, 0, 0, &[])[..]].concat(), usize::MAX).expect("a preface");
        let ended = (0..5000).find_map(|number| {
            server.out.clear();
            server.read(&attack(number), usize::MAX).err().map(|fault| (number, fault.code))
        });
        let (frames, code) = ended.unwrap_or_else(|| panic!("{name} goes on"));
        assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM, "{name}");
        assert!(frames <= 2001, "{name}: {frames}");
    }
}

/// MadeYouReset: streams that a client has reset by its own fault count until their work is over.
#[test]
fn a_reset_stream_counts_until_it_is_released() {
    let mut server = Side::new(Role::Server, config());
    server.read(&[PREFACE, &frame(4, 0, 0, &[])[..]].concat(), usize::MAX).expect("a preface");
    for number in 0..4 {
        let stream = 2 * number + 1;
        let input = [frame(1, 5, stream, &block(&REQUEST)), frame(8, 0, stream, &[0; 4])].concat();
        let seen = server.read(&input, usize::MAX).expect("a reset of the stream alone");
        assert_eq!(seen[1], Seen::Reset(stream, ErrorCode::PROTOCOL_ERROR, true));
    }
    server.out.clear();
    assert_eq!(server.read(&frame(1, 5, 9, &block(&REQUEST)), usize::MAX), Ok(vec![]));
    assert_eq!(server.out[3], 3, "refused");
    server.connection.release(1, &mut server.out);
    let seen = server.read(&frame(1, 5, 11, &block(&REQUEST)), usize::MAX).expect("a request");
    assert!(matches!(seen[0], Seen::Headers(11, ..)));
}

#[test]
fn messages_keep_to_the_rules() {
    let good: [&[(&str, &str)]; 3] = [
        &REQUEST,
        &[(":method", "CONNECT"), (":authority", "example.org:443")],
        &[(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), ("te", "trailers"), ("host", "a")],
    ];
    for fields in good {
        let list = listed(fields);
        assert!(HeadFields::new().request(&list, true).is_ok(), "{fields:?}");
    }
    let with = |more: &[(&'static str, &'static str)]| [&REQUEST, more].concat();
    let bad: Vec<Vec<(&str, &str)>> = vec![
        REQUEST[1..].to_vec(),
        REQUEST[..2].to_vec(),
        with(&[(":method", "GET")]),
        with(&[(":status", "200")]),
        with(&[(":unknown", "x")]),
        with(&[("x", "y"), (":path", "/")]),
        with(&[("connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("te", "gzip")]),
        with(&[("Upper", "x")]),
        with(&[("", "x")]),
        with(&[("a b", "x")]),
        with(&[("a", "x\r\ny")]),
        with(&[("a", " x")]),
        with(&[("a", "x\t")]),
        with(&[("host", "other")]),
        with(&[("content-length", "5")]),
        with(&[("content-length", "0"), ("content-length", "0")]),
        with(&[("content-length", "+0")]),
        vec![(":method", "GET"), (":scheme", "http"), (":path", "")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/a b")],
        vec![(":method", "G T"), (":scheme", "http"), (":path", "/")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a/b")],
    ];
    for fields in bad {
        let list = listed(&fields);
        assert!(HeadFields::new().request(&list, true).is_err(), "{fields:?}");
    }
    let response = |fields: &[(&str, &str)]| {
        let list = listed(fields);
        let mut heads = HeadFields::new();
        heads.response(&list, false).map(|head| head.status)
    };
    assert_eq!(response(&[(":status", "206"), ("etag", "\"x\"")]), Ok(206));
    for fields in
        [&[("etag", "x")][..], &[(":status", "20")], &[(":status", "2xx")], &[(":status", "200"), (":path", "/")]]
    {
        assert!(response(fields).is_err(), "{fields:?}");
    }
}

#[test]
fn a_host_in_doubt_is_the_clients_fault_and_no_violation() {
    let check = |fields: &[(&str, &str)], expected: Result<Option<&str>, RequestFault>| {
        let list = listed(&[&[(":method", "GET"), (":scheme", "http"), (":path", "/")], fields].concat());
        let mut room = HeadFields::new();
        let host = room.request(&list, true).map(|head| head.host().map(str::to_owned));
        assert_eq!(host, expected.map(|host| host.map(str::to_owned)), "{fields:?}");
    };
    check(&[("host", "a")], Ok(Some("a")));
    check(&[(":authority", "a"), ("host", "A")], Ok(Some("a")));
    check(&[], Ok(None));
    check(&[("host", "a"), ("host", "b")], Err(HostFault::Repeated.into()));
    check(&[("host", "a"), ("host", "a")], Err(HostFault::Repeated.into()));
    check(&[(":authority", "a"), ("host", "a"), ("host", "a")], Err(HostFault::Repeated.into()));
    check(&[("host", "a/b")], Err(HostFault::Invalid.into()));
    check(&[(":authority", "a@b")], Err(HostFault::Invalid.into()));
    check(&[(":authority", "a"), ("host", "b")], Err(Malformed(":authority and host differ").into()));
}

/// A block that is larger than the bounds, whatever its frames are, is read to its end: its stream
/// can be refused, and the next block finds the entries of this one.
#[test]
fn a_block_that_is_too_large_leaves_the_connection_as_it_is() {
    let indexed = |name: &str, value: &str| {
        [&[0x40, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    let large: Vec<u8> =
        (0..300).flat_map(|number| indexed(&format!("n{}", number % 9), &"v".repeat(number % 120 + 1))).collect();
    let all = [block(&REQUEST), large.repeat(4), indexed("last", "entry")].concat();
    for piece in [100, 1000, 16_000] {
        let (_, mut server) = connected();
        let pieces = all.len().div_ceil(piece);
        let frames: Vec<u8> = all
            .chunks(piece)
            .enumerate()
            .flat_map(|(at, part)| {
                let flags = if at == 0 { 1 } else { 0 } | if at == pieces - 1 { 4 } else { 0 };
                frame(if at == 0 { 1 } else { 9 }, flags, 1, part)
            })
            .collect();
        if piece == 100 {
            server.connection.earn_time(1000);
        }
        let seen = server.read(&frames, 7000).expect("no fault of the connection");
        assert_eq!(seen, [Seen::Headers(1, Vec::new(), true)], "{piece}");
        assert!(server.list.is_too_large());
        let next = [block(&REQUEST), vec![0xbe]].concat();
        let seen = server.read(&frame(1, 5, 3, &next), usize::MAX).expect("a request");
        let Seen::Headers(3, fields, true) = &seen[0] else { panic!("{seen:?}") };
        assert_eq!(fields.last(), Some(&("last".to_owned(), "entry".to_owned())), "{piece}");
    }
}

fn listed(fields: &[(&str, &str)]) -> FieldList {
    let mut block = Vec::new();
    let mut encoder = Encoder::new(0);
    encoder.begin(&mut block);
    for (name, value) in fields {
        // Names in upper case are written as they are.
        block.extend([0, name.len() as u8]);
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    let mut list = FieldList::default();
    crate::hpack::Decoder::new(SIZE_INITIAL).decode(&block, &mut list).expect("a block");
    list
}
