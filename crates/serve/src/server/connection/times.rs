//! How long a connection may take for what.

use crate::config::Limits;
use crate::http::services::Bounds;

/// [`Limits`] as the loop needs them.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(super) session: Bounds,
    pub(super) head_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) stall_ns: u64,
    pub(super) ns_per_byte: u64,
    pub(super) linger_ns: u64,
    /// How long a connection may be idle with as many of them open as there are now.
    pub(crate) idle_ns_now: u64,
}

impl Times {
    pub(crate) fn new(limits: &Limits) -> Self {
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let wire = thalweg_wire::Bounds::requests();
        Self {
            session: Bounds {
                wire: thalweg_wire::Bounds {
                    head_bytes_max: limits.head_bytes_max,
                    start_line_bytes_max: wire.start_line_bytes_max.min(limits.head_bytes_max),
                    ..wire
                },
                requests_max: match limits.requests_per_connection_max {
                    0 => u32::MAX,
                    requests => requests,
                },
                stall_ns: ns(limits.stall_time),
                ns_per_byte: 1_000_000_000 / u64::from(limits.send_rate_min.max(1)),
            },
            head_ns: ns(limits.head_time),
            idle_ns: ns(limits.idle_time),
            idle_ns_now: ns(limits.idle_time),
            stall_ns: ns(limits.stall_time),
            ns_per_byte: 1_000_000_000 / u64::from(limits.send_rate_min.max(1)),
            linger_ns: ns(limits.linger_time),
        }
    }

    /// How long a head may take.
    pub(crate) fn head_ns(&self) -> u64 {
        self.head_ns
    }

    /// How long a connection may be idle while there is room for more.
    pub(crate) fn idle_ns_max(&self) -> u64 {
        self.idle_ns
    }

    /// The shortest of all times: no deadline is set nearer than that.
    pub(crate) fn shortest_ns(&self) -> u64 {
        self.head_ns.min(self.idle_ns).min(self.stall_ns).min(self.linger_ns)
    }
}
