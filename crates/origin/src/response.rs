//! The answer of an origin.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_wire::Version;

use crate::body::Body;
use crate::failure::Attempt;
use crate::fields::{FieldLine, first};

/// A response. Its body arrives while it is read.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The fields, without those of the connection; those of one name come together.
    pub fields: Vec<FieldLine>,
    /// The length of the body in bytes, if it is known; for HEAD that of the body of a GET.
    pub length: Option<u64>,
    /// The body.
    pub body: Body,
    /// The name of the origin that answered.
    pub origin: Arc<str>,
    /// Its place in the group.
    pub origin_index: usize,
    /// The version of HTTP by which the answer came; `None` if by none.
    pub version: Option<Version>,
    /// The address that it answered from, if over a network.
    pub address: Option<SocketAddr>,
    /// More about the answer than its fields say.
    pub note: Option<Note>,
    /// Attempts before this one, for a log.
    pub tried: Vec<Attempt>,
}

/// Knowledge about an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The path is a folder, which can be listed. The status is 301 if a slash is missing at the
    /// end of the path, and 404 otherwise.
    Folder,
    /// The reason that an S3 server gave for an error, which is not that the object is missing: a
    /// 404 with it says nothing about the object.
    S3(S3Problem),
}

/// The reason of an S3 server for an error, and what helps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3Problem {
    /// The code, such as `ExpiredToken`; empty if the answer had none, as that to a HEAD.
    pub code: String,
    /// The server's sentence.
    pub message: String,
    /// Advice of ours, if there is one for the code.
    pub advice: Option<&'static str>,
    /// The server's clock ahead of this host's, in seconds.
    pub clock_ahead_s: i64,
}

impl fmt::Display for S3Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = if self.code.is_empty() { "no code" } else { &self.code };
        write!(f, "the S3 server refused the request ({code})")?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if let Some(advice) = self.advice {
            write!(f, "; {advice}")?;
        }
        if self.clock_ahead_s.abs() > 60 {
            write!(f, "; its clock differs from this host's by {} s", self.clock_ahead_s)?;
        }
        Ok(())
    }
}

impl Response {
    /// The value of the first field of that name, in whatever case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        first(&self.fields, name)
    }
}

/// An answer before it is known as one of a group.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<FieldLine>,
    pub(crate) length: Option<u64>,
    pub(crate) body: Body,
    pub(crate) version: Option<Version>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) note: Option<Note>,
}

/// Whether a status says that the origin failed, so that another one should be asked.
pub fn is_failure(status: u16) -> bool {
    matches!(status, 500 | 502..=504)
}
