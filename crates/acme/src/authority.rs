//! The authority: calls to it, repeated where ACME says so, and their errors by kind.

use std::path::Path;
use std::time::SystemTime;

use instant_acme::{Account, AccountBuilder, Error};

use crate::problem::{Problem, printable};
use crate::refusal::{kind, refusal};
use crate::transport::Transport;

/// The attempts at a call whose nonce was refused. Each of them is up to three of `instant-acme`.
const NONCE_ATTEMPTS: usize = 5;

/// Calls of one authority.
pub(crate) struct Authority {
    transport: Transport,
}

impl Authority {
    pub(crate) fn new(roots: Option<&Path>) -> Result<Self, Problem> {
        Ok(Self { transport: Transport::new(roots)? })
    }

    /// The way to an account.
    pub(crate) fn accounts(&self) -> AccountBuilder {
        Account::builder_with_http(Box::new(self.transport.clone()))
    }

    /// When the last answer suggests to come back.
    pub(crate) fn retry_after(&self) -> Option<SystemTime> {
        self.transport.last().retry_after
    }

    /// Carries out a call, again if its nonce was refused (RFC 8555, 6.5); `operation` names it, as
    /// a noun.
    pub(crate) fn call<T>(
        &self,
        operation: &'static str,
        mut call: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Problem> {
        for _ in 1..NONCE_ATTEMPTS {
            match call() {
                Err(Error::Api(document)) if kind(&document) == "badNonce" => {}
                result => return result.map_err(|error| self.problem(operation, error)),
            }
        }
        call().map_err(|error| self.problem(operation, error))
    }

    /// The result of a call that is not to be repeated.
    pub(crate) fn call_result<T>(&self, operation: &'static str, result: Result<T, Error>) -> Result<T, Problem> {
        result.map_err(|error| self.problem(operation, error))
    }

    fn problem(&self, operation: &'static str, error: Error) -> Problem {
        let answer = self.transport.last();
        match error {
            Error::Api(document) => refusal(&document, operation, &answer.url, answer.retry_after),
            Error::Other(error) => match error.downcast::<Problem>() {
                Ok(problem) => *problem,
                Err(error) => Problem::Malformed { url: answer.url, error: printable(&error.to_string()) },
            },
            error => Problem::Malformed { url: answer.url, error: printable(&error.to_string()) },
        }
    }
}
