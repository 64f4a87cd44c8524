//! The status document: all figures at one moment, from which the page, the JSON and the metrics
//! are written.
//!
//! Totals are since the start, days are of UTC, rates are over the last ten seconds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::history::Figures;
use crate::content::tier_figures::TierFigures;

/// Seconds that the curves go back.
pub(crate) const CURVE_S: usize = 120;

/// All figures at one moment; also the JSON document `thalweg.status/1`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) schema: &'static str,
    pub(crate) version: &'static str,
    pub(crate) state: State,
    pub(crate) time: String,
    /// The same in seconds since 1970-01-01 UTC.
    #[serde(skip)]
    pub(crate) second: i64,
    pub(crate) started: String,
    pub(crate) uptime_s: i64,
    pub(crate) now: Now,
    pub(crate) total: Total,
    pub(crate) log: LogFigures,
    pub(crate) watch: WatchFigures,
    /// There if TLS is spoken, or was since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<TlsFigures>,
    /// There if a certificate is obtained by ACME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<CertificateFigures>,
    /// There if origins answer for any mount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_cache: Option<TierFigures>,
    #[serde(rename = "cores")]
    pub(crate) loops: Vec<LoopStatus>,
    pub(crate) mounts: Vec<Mount>,
    /// The latest first.
    pub(crate) days: Vec<DayFigures>,
    /// Today's.
    pub(crate) top_files: Vec<TopFile>,
    /// For each of the last seconds, the latest last.
    pub(crate) curve: Curve,
}

/// Whether the server accepts connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Serving,
    /// No more connections are accepted; those that are open come to their end.
    Draining,
}

/// Figures of this moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Now {
    pub(crate) downloads: u64,
    pub(crate) connections: u64,
    pub(crate) requests_per_s: f64,
    pub(crate) bytes_per_s: f64,
}

/// Totals since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Total {
    pub(crate) connections: u64,
    /// Connections that were refused for want of a slot.
    pub(crate) turned_away: u64,
    /// Connections that were closed when they were accepted, because of their client's network.
    pub(crate) connections_denied: u64,
    /// Requests that got a 403 because of their client's network.
    pub(crate) requests_denied: u64,
    /// Requests that got a 429, because their client had made too many.
    pub(crate) requests_limited: u64,
    /// Connections that were evicted to make room.
    pub(crate) shed: u64,
    /// Responses that were cut off by a reset, because their file had changed while it was sent.
    pub(crate) files_changed_while_sent: u64,
    pub(crate) requests: u64,
    /// Those of them that came by HTTP/2.
    pub(crate) requests_http2: u64,
    pub(crate) responses: Responses,
    pub(crate) bytes: u64,
    pub(crate) downloads: u64,
}

/// Responses by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Responses {
    #[serde(rename = "2xx")]
    pub(crate) ok: u64,
    #[serde(rename = "3xx")]
    pub(crate) moved: u64,
    #[serde(rename = "4xx")]
    pub(crate) refused: u64,
    #[serde(rename = "5xx")]
    pub(crate) failed: u64,
}

/// Records and lines of the access log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct LogFigures {
    pub(crate) lines_written: u64,
    pub(crate) lines_lost: u64,
    pub(crate) records_dropped: u64,
}

/// Handshakes of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct TlsFigures {
    /// Those that were completed, by version.
    pub(crate) handshakes: HandshakesByVersion,
    /// Those of them that resumed a session.
    pub(crate) resumed: u64,
    pub(crate) failed: u64,
    /// Those that were ended for want of room for newer ones.
    pub(crate) shed: u64,
}

/// The certificate that is obtained by ACME.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct CertificateFigures {
    /// The end of its validity; `None`: there is none yet.
    pub(crate) expires: Option<String>,
    /// The same in seconds since 1970-01-01 UTC.
    #[serde(skip)]
    pub(crate) expires_second: Option<i64>,
    /// Why the last attempt to obtain one has failed, if it has.
    pub(crate) failure: Option<String>,
}

/// Handshakes by version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct HandshakesByVersion {
    #[serde(rename = "TLSv1.2")]
    pub(crate) tls12: u64,
    #[serde(rename = "TLSv1.3")]
    pub(crate) tls13: u64,
}

/// Changes in folders that the kernel reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct WatchFigures {
    /// Watched now.
    pub(crate) folders: u64,
    pub(crate) events: u64,
    /// Times that the kernel had no room for events, so that everything was checked again.
    pub(crate) overflows: u64,
    /// Times that the kernel would not watch a folder.
    pub(crate) refused: u64,
}

/// The figures of one loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct LoopStatus {
    #[serde(rename = "core")]
    pub(crate) loop_index: usize,
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) cache_entries: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) cache_misses: u64,
}

/// The figures of one mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Mount {
    pub(crate) mount: String,
    pub(crate) downloads_now: u64,
    pub(crate) requests: u64,
    pub(crate) downloads: u64,
    pub(crate) bytes: u64,
    pub(crate) today: Figures,
}

/// The figures of one day, of all mounts together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct DayFigures {
    pub(crate) day: String,
    pub(crate) downloads_peak: u64,
    #[serde(flatten)]
    pub(crate) total: Figures,
    pub(crate) mounts: BTreeMap<String, Figures>,
}

/// A file that was downloaded often.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct TopFile {
    /// The label of its mount: files of several sites may have the same path.
    pub(crate) mount: String,
    pub(crate) file: String,
    pub(crate) downloads: u64,
    pub(crate) bytes: u64,
}

/// Rates of the last seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Curve {
    pub(crate) requests_per_s: Vec<f64>,
    pub(crate) bytes_per_s: Vec<f64>,
}
