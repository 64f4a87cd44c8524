//! The cache tier of the server: one request in, one answer out, for the whole process.
//!
//! The tier has a thread of its own. Loops of the server [ask](Tier::ask) it and are called back;
//! nothing in it waits on their threads. It decides by RFC 9111 what a request gets from the store
//! and what from the origin, fetches each fragment once for any number of readers, which proceed
//! each at its own pace, validates, invalidates and purges.
//!
//! Deliberately not here: the loops, heads and framing of responses to clients, conditions and
//! ranges of clients (a loop has the same rules for objects of all origins), and configuration
//! files.
//!
//! | module | owns |
//! | --- | --- |
//! | `ask`, `answer` | what loops and the tier tell each other |
#![forbid(unsafe_code)]

mod answer;
mod ask;
mod tier;

pub use answer::{Answer, BodyPiece, Content, Failure, Fragments, Object, Reader, Relay, Response};
pub use ask::{Answered, Ask, Wake};
pub use tier::Tier;
