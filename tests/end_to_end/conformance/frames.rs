//! Transcripts of frames of HTTP/2, compared with `thalweg serve` and with `thalweg run`.

mod connection;
mod frame;
mod hpack;
pub(crate) mod notation;

use std::net::{TcpListener, TcpStream};

use connection::{Connection, Received, Side};
use frame::Frame;
use notation::{Case, Content, End, Expected, Group, Step};

use super::case::{Known, Template, find, folder};
use super::peer::{self, Peer, Tree};
use crate::document::{self, outcome};
use crate::drivers::drivers;
use crate::process::{PATIENCE, Process, thalweg};
use crate::server::{SECRET, Server};

/// The payload of the PING that shows whether a connection is kept.
const PROBE: &[u8; 8] = b"is kept?";

/// All transcripts.
pub(crate) fn groups() -> Vec<Group> {
    let mut groups = server_groups();
    groups.append(&mut client_groups());
    groups
}

/// Transcripts of clients, for the server.
fn server_groups() -> Vec<Group> {
    notation::groups(&folder().join("http2"))
}

/// Transcripts of servers, for the client.
fn client_groups() -> Vec<Group> {
    notation::groups(&folder().join("http2_client"))
}

/// Plays the steps of a case.
fn play(case: &Case, stream: TcpStream, side: Side, known: &mut Tell<'_>) -> Result<Connection, String> {
    let mut connection = Connection::begin(stream, side, case.is_bare)?;
    for step in &case.steps {
        match step {
            Step::Send(sent) => connection.send(&sent.bytes(known)),
            Step::Bytes(bytes) => connection.send(&bytes.expand(known)),
            Step::Finish => connection.finish(),
            Step::Receive(expected) => receive(&mut connection, expected, side, known)?,
            Step::Order(streams) if *streams == connection.ended => {}
            Step::Order(_) => return Err(format!("the streams ended in the order {:?}", connection.ended)),
        }
    }
    Ok(connection)
}

type Tell<'k> = dyn FnMut(Known, &str) -> String + 'k;

/// Takes the frames of an expectation.
fn receive(connection: &mut Connection, expected: &Expected, side: Side, known: &mut Tell<'_>) -> Result<(), String> {
    let stream = expected.stream;
    let mut take = |kind: u8, is_wanted: &dyn Fn(&Frame) -> bool| {
        let wanted = |frame: &Frame| frame.kind == kind && is_wanted(frame);
        match connection.take(wanted) {
            Ok(Some(received)) => Ok(received),
            Ok(None) => Err("the connection has ended".to_owned()),
            Err(fault) => Err(fault),
        }
        .map_err(|fault| format!("kind {kind:#x} of stream {stream} has not come: {fault}; {}", others(connection)))
    };
    let of_stream = |frame: &Frame| frame.stream == stream;
    let is_ack = |frame: &Frame| frame.has(frame::ACK);
    match &expected.content {
        Content::Head { first, fields } => {
            check_head(&take(frame::HEADERS, &of_stream)?, (first, fields, expected.ends), side, known)
        }
        Content::Data(wanted) => {
            let mut body = Vec::new();
            let length = wanted.expand(known).len();
            while expected.ends || body.len() < length {
                let part = take(frame::DATA, &of_stream)?.frame;
                body.extend_from_slice(&part.payload);
                if part.has(frame::END_STREAM) {
                    break;
                }
            }
            ensure(wanted.matches(&body, known), || format!("DATA {}", body[..body.len().min(99)].escape_ascii()))
        }
        Content::Bytes(count) => {
            let (mut came, mut ends) = (0, false);
            while came < *count || (expected.ends && !ends) {
                let part = take(frame::DATA, &of_stream)?.frame;
                came += part.payload.len();
                ends = part.has(frame::END_STREAM);
            }
            ensure(came == *count && ends == expected.ends, || format!("{came} bytes of DATA, ended: {ends}"))
        }
        Content::Reset(code) => {
            let found = frame::number(&take(frame::RST_STREAM, &of_stream)?.frame.payload);
            ensure(found == *code, || format!("RST_STREAM {}", frame::code_name(found)))
        }
        Content::GoAway(code) => {
            let frame = take(frame::GOAWAY, &|_| true)?.frame;
            let is_same = frame.payload.starts_with(&[stream.to_be_bytes(), code.to_be_bytes()].concat());
            ensure(is_same, || frame.describe())
        }
        Content::Acknowledgement => take(frame::SETTINGS_KIND, &is_ack).map(drop),
        Content::Settings(wanted) => {
            let frame = take(frame::SETTINGS_KIND, &|frame| !is_ack(frame))?.frame;
            let entries: Vec<&[u8]> = frame.payload.chunks(6).collect();
            ensure(wanted.chunks(6).all(|entry| entries.contains(&entry)), || frame.describe())
        }
        Content::Pong(wanted) => {
            let frame = take(frame::PING, &is_ack)?.frame;
            ensure(wanted.matches(&frame.payload, known), || frame.describe())
        }
        Content::WindowUpdate(increment) => {
            let frame = take(frame::WINDOW_UPDATE, &of_stream)?.frame;
            ensure(frame.payload == increment.to_be_bytes(), || frame.describe())
        }
        Content::Text(wanted) => {
            connection.drain()?;
            connection.waiting.clear();
            let text = &connection.received;
            ensure(wanted.matches(text, known), || text[..text.len().min(99)].escape_ascii().to_string())
        }
    }
}

/// The parts of a head that are expected, and whether its stream has to end with it.
type Head<'e> = (&'e str, &'e [(String, Option<Template>)], bool);

fn check_head(is: &Received, (first, fields, ends): Head<'_>, side: Side, known: &mut Tell<'_>) -> Result<(), String> {
    let all = |name: &str| -> Vec<&str> {
        is.fields.iter().filter(|(has, _)| has == name).map(|(_, value)| value.as_str()).collect()
    };
    let one = |name: &str| all(name).join(" and ");
    let (name, begins) = match side {
        Side::Client => (":status", one(":status")),
        Side::Server => (":method and :path", format!("{} {}", one(":method"), one(":path"))),
    };
    ensure(begins == first, || format!("{name} {begins}"))?;
    ensure(is.frame.has(frame::END_STREAM) == ends, || {
        format!("HEADERS of {begins}: the stream's end is not as it should be")
    })?;
    // RFC 9110, 6.6.1: an origin server with a clock sends it in all responses but 1xx and 5xx.
    let has_date = side == Side::Server || begins.starts_with('5') || all("date").len() == 1;
    ensure(has_date, || "no Date".to_owned())?;
    for (name, wanted) in fields {
        let values = all(name);
        let holds = match (wanted, &values[..]) {
            (None, values) => values.is_empty(),
            (Some(wanted), [value]) => wanted.matches(value.as_bytes(), known),
            _ => false,
        };
        ensure(holds, || format!("{name} {values:?}"))?;
    }
    Ok(())
}

fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// The frames that were not expected. Windows may be opened at any time.
fn others(connection: &Connection) -> String {
    let others = connection.waiting.iter().filter(|received| received.frame.kind != frame::WINDOW_UPDATE);
    others.map(|received| received.frame.describe()).collect::<Vec<_>>().join(", ")
}

/// Plays a case of a client to the end.
fn holds(case: &Case, peer: &Peer) -> Result<(), String> {
    let stream = TcpStream::connect(peer.address).expect("a server that listens accepts");
    let mut connection = play(case, stream, Side::Client, &mut |what, path| peer.known(what, path))?;
    match &case.end {
        End::Kept => {
            connection.send(&Frame::new(frame::PING, 0, 0, PROBE).to_bytes(None));
            let is_answer =
                |frame: &Frame| frame.kind == frame::PING && frame.has(frame::ACK) && frame.payload == PROBE;
            ensure(connection.take(is_answer)?.is_some(), || format!("closed; {}", others(&connection)))?;
        }
        End::Closed => connection.drain().map_err(|_| format!("not closed; {}", others(&connection)))?,
        End::Outcome(_) => return Err("an outcome of no request of ours".to_owned()),
    }
    ensure(others(&connection).is_empty(), || format!("more frames: {}", others(&connection)))?;
    ensure(find(&connection.received, SECRET.as_bytes()).is_none(), || "the secret".to_owned())
}

/// All cases against a server of ours; twice, the second time from its cache.
#[test]
fn frames_are_answered_over_both_drivers() {
    for driver in drivers() {
        let tree = Tree::new();
        let configuration = peer::configure(tree.folder.path());
        let configuration = configuration.to_str().expect("temporary folders have plain names");
        let server = Server::start(&tree.root, &["--driver", driver, "--config", configuration], thalweg)
            .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"));
        let peer = Peer::new(server.authority().parse().expect("an address"));
        let mut wrong = Vec::new();
        for round in ["first", "again"] {
            for case in server_groups().iter().flat_map(|group| &group.cases) {
                if let Err(fault) = holds(case, &peer) {
                    wrong.push(format!("{} {} ({driver}, {round}): {fault}", case.place, case.title));
                }
            }
        }
        assert!(wrong.is_empty(), "{} transcripts do not hold:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Plays a case of a server against a load of one request.
fn ends_as_expected(case: &Case, driver: &str) -> Result<(), String> {
    let End::Outcome(expected) = &case.end else { return Err("no outcome".to_owned()) };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/file", listener.local_addr().expect("an address"));
    let fixed = [
        "--http",
        "2",
        "--requests",
        "1",
        "--workers",
        "1",
        "--timeout",
        "2s",
        "--json",
        "--driver",
        driver,
        "--retry-refused",
        "0",
    ];
    let client = Process::start(&mut thalweg(&[&["run", url.as_str()], &fixed[..]].concat()));
    // The first connection only shows that the target listens.
    let stream = loop {
        let (stream, _) = listener.accept().expect("a client connects");
        if stream.peek(&mut [0]).is_ok_and(|count| count > 0) {
            break stream;
        }
    };
    let connection = play(case, stream, Side::Server, &mut |_, path| panic!("nothing is known of {path}"))?;
    let trial = document::trial(&client.wait(PATIENCE));
    drop(connection);
    ensure(outcome(&trial, expected) == 1, || format!("the outcomes are {}", trial["outcomes"]))
}

#[test]
fn frames_end_requests_over_both_drivers() {
    let mut wrong = Vec::new();
    for driver in drivers() {
        for case in client_groups().iter().flat_map(|group| &group.cases) {
            if let Err(fault) = ends_as_expected(case, driver) {
                wrong.push(format!("{} {} ({driver}): {fault}", case.place, case.title));
            }
        }
    }
    assert!(wrong.is_empty(), "{} transcripts do not hold:\n{}", wrong.len(), wrong.join("\n"));
}

/// Fewer would be a mistake in reading them.
#[test]
fn there_are_enough_transcripts_of_frames() {
    let count = |groups: &[Group]| groups.iter().map(|group| group.cases.len()).sum::<usize>();
    assert!(count(&server_groups()) >= 100, "{}", count(&server_groups()));
    assert!(count(&client_groups()) >= 15, "{}", count(&client_groups()));
}
