//! The receiver of responses while a protocol reads them: it fills in the calls.

use sha2::Digest;
use thalweg_measure::trial::{RedirectSample, TrialFigures};

use super::requests::Requests;
use crate::call::Calls;
use crate::protocol::{Encoder, Responses, StreamId};
use crate::redirect::Follower;

/// The calls of a load thread, while a protocol reads responses of one connection.
pub(super) struct CallResponses<'a, E> {
    pub(super) calls: &'a mut Calls,
    pub(super) requests: &'a Requests<E>,
    pub(super) trial: &'a mut TrialFigures,
    pub(super) follower: Option<&'a mut Follower>,
    /// The buffer for the server's name for itself, if it is wanted.
    pub(super) server: Option<&'a mut Vec<u8>>,
}

impl<E: Encoder> CallResponses<'_, E> {
    /// Notes that a response leads elsewhere: its call goes there, or the first such response is
    /// kept as a sample.
    #[cold]
    fn note_redirect(&mut self, stream: StreamId, status: u16, location: Option<&[u8]>) {
        let call = &mut self.calls[stream];
        if !matches!(status, 301 | 302 | 303 | 307 | 308) || self.requests.check(call.request).lists(status) {
            return;
        }
        let request = self.requests.view(call.request);
        let noted =
            self.follower.as_mut().map(|follower| follower.note(&mut call.hop, call.hops, &request, status, location));
        if let Some(Ok(())) = noted {
            call.redirected = true;
            return;
        }
        let redirects = self.trial.redirects.get_or_insert_default();
        if let (Some(Err(why)), true) = (noted, call.measured) {
            redirects.record(why);
        }
        if redirects.sample.is_none() {
            let target = match (&self.follower, call.followed()) {
                (Some(follower), Some(hop)) => follower.target(hop),
                _ => request.target,
            };
            redirects.sample = Some(RedirectSample::of(status, target, location));
        }
    }
}

impl<E: Encoder> Responses for CallResponses<'_, E> {
    #[inline]
    fn interim(&mut self, stream: StreamId, status: u16) {
        if self.calls[stream].measured {
            self.trial.status_codes.record(status);
        }
    }

    #[inline]
    fn head<'a, F>(&mut self, stream: StreamId, status: u16, keep_alive: bool, fields: impl Fn() -> F)
    where
        F: Iterator<Item = (&'a str, &'a [u8])>,
    {
        let call = &mut self.calls[stream];
        if call.measured {
            self.trial.status_codes.record(status);
        }
        call.status = status;
        call.keep_alive = keep_alive;
        call.redirected = false;
        let check = self.requests.check(call.request);
        if check.has_fields() {
            call.fields_differ = !check.check_fields(fields());
        }
        if status / 100 == 3 {
            let location = fields().find(|(name, _)| name.eq_ignore_ascii_case("Location"));
            self.note_redirect(stream, status, location.map(|(_, value)| value));
        }
        if let Some(server) = &mut self.server {
            let own_name = fields().find(|(name, _)| name.eq_ignore_ascii_case("Server"));
            server.clear();
            server.extend_from_slice(own_name.map_or(b"", |(_, value)| value));
        }
    }

    #[inline]
    fn content(&mut self, stream: StreamId, bytes: &[u8]) {
        if let Some(digest) = &mut self.calls[stream].digest {
            digest.update(bytes);
        }
    }
}
