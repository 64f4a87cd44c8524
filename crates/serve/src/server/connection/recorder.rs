//! Has the responses of a connection counted and accounted for.

use thalweg_sys::{Instant, SocketId};
use thalweg_tls::Version;
use thalweg_wire::RequestHead;

use crate::http::response::{Recorder, ResponseBytes, Summary};
use crate::telemetry::accounting::{Accounting, AnsweredRequest, RequestRecords};
use crate::telemetry::counters::Totals;

/// Records the responses of one connection at one time.
pub(super) struct ConnectionRecorder<'r> {
    pub(super) totals: &'r mut Totals,
    pub(super) accounting: Option<&'r mut Accounting>,
    pub(super) records: &'r mut Option<Box<RequestRecords>>,
    pub(super) socket: SocketId,
    /// The version of TLS, if there is any.
    pub(super) tls: Option<Version>,
    pub(super) now: Instant,
    /// Seconds since 1970-01-01 UTC.
    pub(super) second: i64,
}

impl Recorder for ConnectionRecorder<'_> {
    #[inline]
    fn record(&mut self, request: Option<&RequestHead<'_>>, summary: Summary, bytes: &dyn Fn() -> ResponseBytes) {
        self.totals.requests += 1;
        self.totals.count_response(summary.status);
        if let Some(accounting) = &mut self.accounting {
            let Self { socket, tls, now, second, .. } = *self;
            accounting.record(self.records, &AnsweredRequest { socket, request, summary, tls, now, second }, bytes());
        }
    }

    fn extend(&mut self, bytes: u64, body_bytes: u64, is_last: bool) {
        Accounting::extend(self.records, bytes, body_bytes, is_last);
        if let (true, 0, Some(accounting)) = (is_last, bytes, &mut self.accounting) {
            // No send is to come that would end it.
            accounting.on_sent(self.records, 0, self.now);
        }
    }
}
