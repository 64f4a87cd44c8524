//! Has the responses of a connection counted and accounted for.

use thalweg_sys::{Instant, SocketId};
use thalweg_tls::Version as TlsVersion;
use thalweg_wire::{RequestHead, Version};

use crate::config::Level;
use crate::http::response::{Recorder, ResponseBytes, Summary};
use crate::telemetry::accounting::{Accounting, AnsweredRequest, RequestRecords};
use crate::telemetry::counters::Totals;
use crate::telemetry::log::ErrorLog;

/// Records the responses of one connection at one time.
pub(super) struct ConnectionRecorder<'r> {
    pub(super) totals: &'r mut Totals,
    pub(super) accounting: Option<&'r mut Accounting>,
    pub(super) records: &'r mut Option<Box<RequestRecords>>,
    pub(super) socket: SocketId,
    /// The version of TLS, if there is any.
    pub(super) tls: Option<TlsVersion>,
    /// The digest of the client's certificate, if it has one.
    pub(super) certificate: Option<&'r [u8; 32]>,
    pub(super) error_log: Option<&'r ErrorLog>,
    pub(super) now: Instant,
    /// Seconds since 1970-01-01 UTC.
    pub(super) second: i64,
}

impl Recorder for ConnectionRecorder<'_> {
    #[inline]
    fn record(
        &mut self,
        stream: u32,
        request: Option<&RequestHead<'_>>,
        summary: Summary,
        bytes: &dyn Fn() -> ResponseBytes,
    ) {
        self.totals.requests += 1;
        let is_http2 = request.is_some_and(|head| head.version == Version::Http2);
        self.totals.requests_http2 += u64::from(is_http2);
        self.totals.count_response(summary.status);
        if let Some(accounting) = &mut self.accounting {
            let Self { socket, tls, certificate, now, second, .. } = *self;
            let answered = AnsweredRequest { socket, stream, request, summary, tls, certificate, now, second };
            accounting.record(self.records, &answered, bytes());
        }
    }

    fn extend(&mut self, stream: u32, bytes: u64, body_bytes: u64, is_last: bool) {
        let Some(records) = self.records else { return };
        records.extend(stream, bytes, body_bytes, is_last);
        if let (true, 0, Some(accounting)) = (is_last, bytes, &mut self.accounting) {
            // No send is to come that would end it.
            accounting.on_sent(self.records, 0, self.now);
        }
    }

    fn skip(&mut self, bytes: u64) {
        if let Some(records) = self.records {
            records.skip(bytes);
        }
    }

    fn cut(&mut self, stream: u32) {
        if let Some(accounting) = &mut self.accounting {
            accounting.cut(self.records, stream, self.now);
        }
    }

    #[cold]
    fn failed(&mut self, reason: &str) {
        if let Some(error_log) = self.error_log {
            report_cut_off(error_log, reason);
        }
    }
}

/// Tells the operator of a response that ends before its end.
pub(crate) fn report_cut_off(error_log: &ErrorLog, reason: &str) {
    error_log.say_once_a_minute(Level::Warning, "response cut off", || {
        format!("a response was cut off by a reset: {reason}")
    });
}
