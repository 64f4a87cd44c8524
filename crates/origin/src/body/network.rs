//! A body that arrives on a connection.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use crate::connection::body_failure;
use crate::failure::{Failure, Phase};
use crate::pool::Lease;

pub(crate) struct NetworkBody {
    incoming: Incoming,
    lease: Option<Lease>,
    between_bytes: Duration,
    is_ended: bool,
}

impl NetworkBody {
    pub(crate) fn new(incoming: Incoming, lease: Lease, between_bytes: Duration) -> Self {
        Self { incoming, lease: Some(lease), between_bytes, is_ended: false }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        while !self.is_ended {
            match timeout(self.between_bytes, self.incoming.frame()).await {
                // Trailers are left out.
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Some(Ok(bytes)),
                    _ => {}
                },
                Ok(Some(Err(error))) => {
                    self.is_ended = true;
                    if let Some(lease) = self.lease.take() {
                        lease.retire();
                    }
                    return Some(Err(body_failure(&error)));
                }
                Ok(None) => self.is_ended = true,
                Err(_) => {
                    self.is_ended = true;
                    if let Some(lease) = self.lease.take() {
                        lease.retire();
                    }
                    let text = format!("no bytes came for {:?}", self.between_bytes);
                    return Some(Err(Failure::timeout(Phase::Body, text)));
                }
            }
        }
        // Waiting here makes the connection ready for a request that follows at once.
        if let Some(lease) = self.lease.take() {
            lease.give_back().await;
        }
        None
    }

    /// Whether all has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.lease.is_some() && (self.is_ended || self.incoming.is_end_stream())
    }
}

impl Drop for NetworkBody {
    fn drop(&mut self) {
        if self.is_complete()
            && let Some(lease) = self.lease.take()
        {
            lease.give_back_later();
        }
    }
}
