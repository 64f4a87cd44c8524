//! One attempt over a connection: a lease, the request, and the head of the response within its
//! time limit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::connection::Outgoing;
use crate::failure::{Failure, FailureKind, Phase};
use crate::fields;
use crate::pool::{Lease, Pool};

/// A failed attempt, with what decides about another one.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) failure: Failure,
    /// The origin has certainly not begun to process the request.
    pub(crate) is_unsent: bool,
    /// The connection had carried requests before.
    pub(crate) is_reused: bool,
    /// It is the failure of another request's connection, and counted there.
    pub(crate) is_of_another: bool,
    pub(crate) address: Option<SocketAddr>,
}

impl AttemptFailure {
    /// A failure before anything was sent.
    pub(crate) fn unsent(failure: Failure) -> Self {
        Self { failure, is_unsent: true, is_reused: false, is_of_another: false, address: None }
    }
}

/// Sends a request over a connection of the pool. The response's body arrives for as long as the
/// lease is held.
pub(crate) async fn exchange(
    pool: &Arc<Pool>,
    outgoing: &Outgoing,
    is_fresh: bool,
    head_time: Duration,
) -> Result<(Response<Incoming>, Lease), AttemptFailure> {
    let leased = pool.lease(is_fresh).await.map_err(|error| AttemptFailure {
        is_of_another: error.is_of_another,
        ..AttemptFailure::unsent(error.failure)
    });
    let mut lease = leased?;
    let (is_reused, address) = (lease.is_reused, lease.address());
    let failed = |failure, is_unsent| AttemptFailure { failure, is_unsent, is_reused, is_of_another: false, address };
    match timeout(head_time, lease.send(outgoing)).await {
        Ok(Ok(response)) => match fields::framing_fault(&response) {
            None => Ok((response, lease)),
            Some(fault) => {
                // Nothing that follows on it can be trusted.
                lease.retire();
                Err(failed(Failure::new(FailureKind::Protocol, fault), false))
            }
        },
        Ok(Err(error)) => {
            // A stream that the server resets says nothing about the others.
            if error.failure.kind != FailureKind::Protocol {
                lease.retire();
            }
            Err(failed(error.failure, error.is_unsent))
        }
        Err(_) => {
            lease.retire();
            Err(failed(Failure::timeout(Phase::Head, format!("no response within {head_time:?}")), false))
        }
    }
}
