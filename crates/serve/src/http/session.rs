//! The HTTP session on a connection, of the version that the client speaks.
//!
//! Without TLS a client of HTTP/2 begins with a preface that no request of HTTP/1 looks like (RFC
//! 9113, 3.3), so that one port serves both.

use std::rc::Rc;

use thalweg_sys::SendBuf;
use thalweg_wire::encode::FieldBlock;
use thalweg_wire::h2::PREFACE;

use crate::http::services::{Bounds, Services};
use crate::http::{h1, h2};
use crate::session::{Activity, Next, Ready, Session};

/// Bytes of the preface that decide on the version: a whole head of HTTP/1.
const DECIDING_BYTES: usize = 18;

/// A session of one of the versions.
pub(crate) enum HttpSession {
    /// HTTP/1.0 or 1.1, or not yet decided.
    Http1(h1::session::Session),
    /// HTTP/2.
    Http2(Box<h2::session::Session>),
}

impl HttpSession {
    /// A session that has read nothing.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self::Http1(h1::session::Session::new(bounds))
    }

    /// Speaks HTTP/2 from the beginning, as was negotiated by ALPN.
    pub(crate) fn begin_http2(&mut self, services: &Services<'_>) {
        *self = Self::Http2(Box::new(h2::session::Session::new(services)));
    }

    /// All of the response to a connection that there is no room for, with the field for responses
    /// over TLS if there is one, and bytes of its body.
    pub(crate) fn refusal(&self, hsts: Option<&FieldBlock>) -> (SendBuf, u64) {
        match (self, hsts) {
            (Self::Http1(_), None) => (SendBuf::Static(h1::head::NO_ROOM), h1::head::NO_ROOM_BODY_BYTES),
            (Self::Http1(_), Some(hsts)) => {
                (SendBuf::Owned(h1::head::no_room_with(hsts)), h1::head::NO_ROOM_BODY_BYTES)
            }
            (Self::Http2(_), _) => (SendBuf::Static(h2::session::NO_ROOM), 0),
        }
    }

    /// Takes the first bytes, which may be the preface of HTTP/2.
    #[cold]
    fn decide(&mut self, input: &[u8], services: &mut Services<'_>) -> Next {
        let Self::Http1(session) = self else { return self.on_received(input, services) };
        let mut all = session.unread().take().unwrap_or_else(|| services.buffers.take());
        Rc::make_mut(&mut all).extend_from_slice(input);
        let compared = all.len().min(PREFACE.len());
        let is_preface = all[..compared] == PREFACE[..compared];
        if is_preface && all.len() < DECIDING_BYTES {
            *session.unread() = Some(all);
            return Next::Wait;
        }
        let next = if is_preface {
            self.begin_http2(services);
            self.on_received(&all, services)
        } else {
            session.on_received(&all, &mut h1::services::Services::of(services))
        };
        services.buffers.put(all);
        next
    }
}

impl Session for HttpSession {
    type Services<'s> = Services<'s>;

    #[inline]
    fn on_received(&mut self, input: &[u8], services: &mut Services<'_>) -> Next {
        match self {
            Self::Http1(session) => {
                let may_be_preface = input.first() == Some(&PREFACE[0]) || session.unread().is_some();
                if session.is_new() && may_be_preface {
                    return self.decide(input, services);
                }
                session.on_received(input, &mut h1::services::Services::of(services))
            }
            Self::Http2(session) => session.on_received(input, services),
        }
    }

    #[inline]
    fn on_sent(&mut self, services: &mut Services<'_>) -> Next {
        match self {
            Self::Http1(session) => session.on_sent(&mut h1::services::Services::of(services)),
            Self::Http2(session) => session.on_sent(services),
        }
    }

    fn on_ready(&mut self, ready: Ready, is_sending: bool, services: &mut Services<'_>) -> Next {
        match self {
            Self::Http1(session) => session.on_ready(ready, is_sending, &mut h1::services::Services::of(services)),
            Self::Http2(session) => session.on_ready(ready, is_sending, services),
        }
    }

    fn on_ended(&mut self) -> Next {
        match self {
            Self::Http1(session) => session.on_ended(),
            Self::Http2(session) => session.on_ended(),
        }
    }

    fn on_deadline(&mut self, is_sending: bool, services: &mut Services<'_>) -> Next {
        match self {
            Self::Http1(session) => session.on_deadline(is_sending, &mut h1::services::Services::of(services)),
            Self::Http2(session) => session.on_deadline(is_sending, services),
        }
    }

    fn on_draining(&mut self, services: &mut Services<'_>) -> Next {
        match self {
            Self::Http1(session) => session.on_draining(&mut h1::services::Services::of(services)),
            Self::Http2(session) => session.on_draining(services),
        }
    }

    fn keep_input(&mut self, input: &[u8], services: &mut Services<'_>) -> bool {
        match self {
            Self::Http1(session) => session.keep_input(input, &mut h1::services::Services::of(services)),
            Self::Http2(session) => session.keep_input(input, services),
        }
    }

    fn answer_kept(&mut self, is_only: bool, services: &mut Services<'_>) -> Next {
        if let Self::Http1(session) = self
            && session.unread().as_ref().is_some_and(|kept| kept.starts_with(&PREFACE[..DECIDING_BYTES]))
        {
            let kept = session.unread().take().unwrap_or_default();
            let mut session = h2::session::Session::new(services);
            session.keep_input(&kept, services);
            services.buffers.put(kept);
            *self = Self::Http2(Box::new(session));
        }
        match self {
            Self::Http1(session) => session.answer_kept(is_only, &mut h1::services::Services::of(services)),
            Self::Http2(session) => session.answer_kept(is_only, services),
        }
    }

    fn drop_input(&mut self) {
        match self {
            Self::Http1(session) => session.drop_input(),
            Self::Http2(session) => session.drop_input(),
        }
    }

    #[inline]
    fn activity(&self) -> Activity {
        match self {
            Self::Http1(session) => session.activity(),
            Self::Http2(session) => session.activity(),
        }
    }

    #[inline]
    fn holds_input(&self) -> bool {
        match self {
            Self::Http1(session) => session.holds_input(),
            Self::Http2(session) => session.holds_input(),
        }
    }
}
