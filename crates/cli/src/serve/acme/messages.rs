//! The messages between the server and the process that obtains certificates.
//!
//! The process sends one event, and waits for the reply before it sends another. A chain of
//! certificates is larger than a message of the channel may be: messages are JSON in parts, each
//! behind a byte that says whether another part follows.

use std::io;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thalweg_sys::handover::{Channel, MESSAGE_BYTES_MAX};

/// An event for the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Event {
    /// Answer an http-01 challenge (RFC 8555, 8.3).
    AnswerHttp { token: String, key_authorization: String },
    /// Answer it no more.
    WithdrawHttp { token: String },
    /// Answer a tls-alpn-01 challenge (RFC 8737) with this certificate and key in PEM.
    AnswerAlpn { name: String, chain: String, key: String },
    /// Answer it no more.
    WithdrawAlpn { name: String },
    /// Serve with this certificate and key in PEM.
    Install { chain: String, key: String },
    /// Write a line for the operator.
    Report { is_failure: bool, text: String },
    /// Show the state of the certificate: the end of its validity in seconds since 1970-01-01 UTC,
    /// if there is one, and why the last attempt to obtain one has failed, if it has.
    Show { expires_second: Option<i64>, failure: Option<String> },
}

/// A message to the process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The server has applied the event.
    Applied,
    /// The server has not, for this reason.
    Refused(String),
    /// The settings have changed. This replies to no event.
    Reload,
}

/// The first byte of a part.
const MORE: u8 = b'+';
const LAST: u8 = b'.';

/// Most bytes of a message.
const BYTES_MAX: usize = 1 << 20;

/// Sends a message.
///
/// # Errors
/// The other end has gone.
pub(super) fn send(channel: &Channel, message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut parts = text.chunks(MESSAGE_BYTES_MAX - 1).peekable();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { MORE } else { LAST };
        channel.send(&[&[kind], part].concat(), &[])?;
    }
    Ok(())
}

/// The parts of a message that has not come to its end.
#[derive(Debug)]
pub(super) struct Assembler<T> {
    text: Vec<u8>,
    message: PhantomData<fn() -> T>,
}

impl<T> Default for Assembler<T> {
    fn default() -> Self {
        Self { text: Vec::new(), message: PhantomData }
    }
}

impl<T: DeserializeOwned> Assembler<T> {
    /// Adds a part; the message if it was the last.
    ///
    /// # Errors
    /// The message is malformed or too large.
    pub(super) fn add(&mut self, part: &[u8]) -> io::Result<Option<T>> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "a malformed message");
        let (&kind, rest) = part.split_first().ok_or_else(malformed)?;
        self.text.extend_from_slice(rest);
        match kind {
            MORE if self.text.len() <= BYTES_MAX => Ok(None),
            LAST => Ok(Some(serde_json::from_slice(&std::mem::take(&mut self.text))?)),
            _ => Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_sys::handover::Incoming;

    use super::*;

    #[test]
    fn messages_of_any_length_arrive_whole() {
        let (one, other) = Channel::pair().unwrap();
        let mut incoming = Assembler::<Event>::default();
        for length in [0, 1, MESSAGE_BYTES_MAX, 3 * MESSAGE_BYTES_MAX + 7] {
            let sent = Event::Install { chain: "c".repeat(length), key: "\"\n\u{1f511}".to_owned() };
            send(&one, &sent).unwrap();
            let received = loop {
                let Incoming::Message(part, _) = other.try_receive().unwrap() else { panic!("a part is missing") };
                if let Some(message) = incoming.add(&part).unwrap() {
                    break message;
                }
            };
            assert_eq!(received, sent);
        }
    }

    #[test]
    fn malformed_messages_are_errors() {
        let add = |parts: &[&[u8]]| {
            let mut incoming = Assembler::<Reply>::default();
            parts.iter().map(|part| incoming.add(part)).collect::<io::Result<Vec<_>>>().is_err()
        };
        assert!(!add(&[b".\"Applied\""]));
        assert!(add(&[b""]) && add(&[b"\"Applied\""]) && add(&[b"."]) && add(&[b".\"Unknown\""]));
        let long = [&b"+"[..], &vec![b' '; BYTES_MAX]].concat();
        assert!(add(&[&long, &long]));
    }
}
