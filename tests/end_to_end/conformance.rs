//! Transcripts of HTTP, compared with `thalweg serve` on both drivers and with nginx, byte by byte.
//!
//! The cases are text in `tests/conformance/`, beside the description of their format.
//! `docs/conformance.md` is written from them: `THALWEG_WRITE=1 cargo test -p thalweg-cli --test
//! end_to_end conformance` does that, and records nginx's responses.

pub(crate) mod case;
mod frames;
mod peer;
mod table;
pub(crate) mod talk;

use case::{After, Body, Case, Expected, Group, Step};
use peer::{Nginx, Peer, Tree};
use talk::{Conversation, Response};

use crate::process::thalweg;
use crate::server::{SECRET, Server};

/// The result of a case.
struct Outcome {
    /// Status codes, and what became of the connection.
    answer: String,
    /// The differences from the expectation.
    faults: Vec<String>,
}

/// The expectation for cases that allow a choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Ours: what we have chosen.
    Ours,
    /// Another's: anything that is as good.
    Any,
}

/// Plays a case.
fn play(case: &Case, peer: &Peer, choice: Choice) -> Outcome {
    let mut conversation = Conversation::begin(peer.address);
    let (mut statuses, mut faults) = (Vec::new(), Vec::new());
    for step in &case.steps {
        match step {
            Step::Send(bytes) => conversation.send(&bytes.expand(&mut |what, path| peer.known(what, path))),
            Step::Finish => conversation.finish(),
            Step::Receive(expected) => match conversation.response(matches!(expected.body, Body::None)) {
                Ok(Some(response)) => {
                    statuses.push(response.status);
                    check(expected, &response, peer, choice, &mut faults);
                }
                Ok(None) => faults.push("no response".to_owned()),
                Err(fault) => {
                    faults.push(fault);
                    break;
                }
            },
        }
    }
    let (kept, others) = conversation.end(case.afters[0] == After::Closed).unwrap_or_else(|fault| {
        faults.push(fault);
        (false, Vec::new())
    });
    let after = if kept { After::Kept } else { After::Closed };
    if !others.is_empty() {
        faults.push(format!("more responses than requests: {others:?}"));
        statuses.extend(others.iter().map(|response| response.status));
    }
    if !choice.allows(&case.afters, after) {
        faults.push(format!("the connection is {}", after.name()));
    }
    if case::find(&conversation.received, SECRET.as_bytes()).is_some() {
        faults.push("the secret".to_owned());
    }
    let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
    let statuses = if statuses.is_empty() { "none".to_owned() } else { statuses.join(" ") };
    Outcome { answer: format!("{statuses} {}", after.name()), faults }
}

impl Choice {
    fn allows<T: PartialEq>(self, wanted: &[T], is: T) -> bool {
        match self {
            Self::Ours => wanted[0] == is,
            Self::Any => wanted.contains(&is),
        }
    }
}

fn check(expected: &Expected, response: &Response, peer: &Peer, choice: Choice, faults: &mut Vec<String>) {
    let mut known = |what, path: &str| peer.known(what, path);
    if !choice.allows(&expected.statuses, response.status) {
        faults.push(format!("status {}", response.status));
    }
    // RFC 9110, 6.6.1: an origin server with a clock sends it in all responses but 1xx and 5xx.
    if (200..500).contains(&response.status) && !response.field("Date").is_some_and(is_date) {
        faults.push(format!("Date {:?}", response.all("Date")));
    }
    for (name, wanted) in &expected.fields {
        let values = response.all(name);
        let holds = match (wanted, &values[..]) {
            (None, values) => values.is_empty(),
            (Some(wanted), [value]) => wanted.matches(value.as_bytes(), &mut known),
            _ => false,
        };
        if !holds {
            faults.push(format!("{name} {values:?}"));
        }
    }
    match &expected.body {
        Body::Any | Body::None => {}
        Body::Is(wanted) if wanted.matches(&response.body, &mut known) => {}
        Body::Is(_) => faults.push(format!("body {}", response.body[..response.body.len().min(200)].escape_ascii())),
        Body::Parts(wanted) => match talk::parts(response) {
            Err(fault) => faults.push(fault),
            Ok(parts) => {
                let same = |((range, text), (is_range, is_text)): (&(String, case::Template), &(String, Vec<u8>))| {
                    range == is_range && text.matches(is_text, &mut known)
                };
                if parts.len() != wanted.len() || !wanted.iter().zip(&parts).all(same) {
                    faults.push(format!("parts {parts:?}"));
                }
            }
        },
    }
}

/// Whether it has the form of `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
fn is_date(text: &str) -> bool {
    let pattern = "aaa, 00 aaa 0000 00:00:00 GMT";
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, form)| match form {
            b'a' => byte.is_ascii_alphabetic(),
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

/// All cases against a server of ours; twice, the second time from its cache.
fn holds(driver: &str) {
    let tree = Tree::new();
    let configuration = peer::configure(tree.folder.path());
    let configuration = configuration.to_str().expect("temporary folders have plain names");
    let server = Server::start(&tree.root, &["--driver", driver, "--config", configuration], thalweg)
        .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"));
    let peer = Peer::new(server.authority().parse().expect("an address"));
    let mut wrong = Vec::new();
    for round in ["first", "again"] {
        for case in case::groups().iter().flat_map(|group| &group.cases) {
            let outcome = play(case, &peer, Choice::Ours);
            if !outcome.faults.is_empty() {
                let Case { place, title, .. } = case;
                wrong.push(format!(
                    "{place} {title} ({driver}, {round}): {}: {}",
                    outcome.answer,
                    outcome.faults.join("; ")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} transcripts do not hold:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn transcripts_hold_over_the_ring() {
    holds("auto");
}

#[test]
fn transcripts_hold_over_epoll() {
    holds("epoll");
}

/// Each case states nginx's response, with the reason of a difference. The responses are compared
/// with those of the same version of nginx; another version may differ.
#[test]
fn nginx_answers_as_put_down() {
    let (tree, mut wrong) = (Tree::new(), Vec::new());
    let nginx = Nginx::start(tree.folder.path());
    let groups = case::groups();
    for case in groups.iter().flat_map(|group| &group.cases) {
        let as_put_down = |outcome: &Outcome| {
            let differs = (!outcome.faults.is_empty()).then_some(outcome.answer.as_str());
            differs == case.nginx.as_ref().map(|difference| difference.answer.as_str())
        };
        let mut outcome = play(case, &nginx.peer, Choice::Any);
        // How it ends a connection that it has not read to the end is a matter of time too.
        for _ in 0..3 {
            if as_put_down(&outcome) {
                break;
            }
            outcome = play(case, &nginx.peer, Choice::Any);
        }
        if !as_put_down(&outcome) {
            wrong.push(format!(
                "{} {}: nginx {}: {}",
                case.place,
                case.title,
                outcome.answer,
                outcome.faults.join("; ")
            ));
        }
    }
    if Nginx::version() == table::NGINX {
        assert!(wrong.is_empty(), "{} answers of nginx are not as put down:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn the_document_is_what_the_transcripts_say() {
    table::check(&case::groups(), &frames::groups());
}

/// Fewer would be a mistake in reading them.
#[test]
fn there_are_enough_transcripts() {
    let groups = case::groups();
    let count = |title: &str| -> usize {
        groups.iter().filter(|group| group.title.contains(title)).map(|group: &Group| group.cases.len()).sum()
    };
    assert!(count("") >= 200, "{}", count(""));
    assert!(count("smuggling") >= 60, "{}", count("smuggling"));
    assert!(count("Traversal") >= 50, "{}", count("Traversal"));
}
