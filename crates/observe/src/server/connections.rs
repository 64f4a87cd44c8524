//! The server's established connections: the state of TCP of as many as a sample can afford.

use std::collections::HashMap;
use std::time::Duration;

use thalweg_sys::diag::{self, ConnectedSocket, TcpInfo};

use crate::pace::Pace;
use crate::sample::ConnectionFigures;

/// Connections that are examined. The kernel lists them in the order of a hash, so that the first
/// ones are a fair sample, and the same ones each time.
const EXAMINED_MAX: usize = 256;

/// The examined connections.
#[derive(Debug)]
pub(super) struct Connections {
    pace: Pace,
    /// The counters of each connection at the last examination, by its cookie.
    last: Option<HashMap<u64, TcpInfo>>,
    /// Whether that was all of them.
    were_all: bool,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self { pace: Pace::at_most_every(Duration::ZERO), last: None, were_all: false }
    }

    /// Examines the connections of these ports, if the last examination was long enough ago for its
    /// cost.
    pub(super) fn read(&mut self, ports: &[u16]) -> Option<ConnectionFigures> {
        if ports.is_empty() || !self.pace.is_due() {
            return None;
        }
        let mut pace = self.pace;
        let figures = pace.run(|| self.examine(ports));
        self.pace = pace;
        figures
    }

    fn examine(&mut self, ports: &[u16]) -> Option<ConnectionFigures> {
        let mut sockets = Vec::new();
        let mut all = true;
        for port in ports {
            let (found, complete) = diag::established(*port, EXAMINED_MAX - sockets.len()).ok()?;
            sockets.extend(found);
            all &= complete;
        }
        let mut figures = summary(&sockets, all);
        let first = self.last.is_none();
        let last = self.last.take().unwrap_or_default();
        for socket in &sockets {
            let then = match last.get(&socket.cookie) {
                Some(then) => *then,
                // A connection that was not there has counted from zero since. If only a part was
                // examined, it may have been there.
                None if self.were_all && !first => TcpInfo::default(),
                None => continue,
            };
            add_growth(&mut figures, &socket.info, &then);
        }
        self.last = Some(sockets.iter().map(|socket| (socket.cookie, socket.info)).collect());
        self.were_all = all;
        // Figures of no connections would pull down means.
        (!sockets.is_empty()).then_some(figures)
    }
}

fn add_growth(figures: &mut ConnectionFigures, now: &TcpInfo, then: &TcpInfo) {
    figures.segments_out += u64::from(now.segments_out.wrapping_sub(then.segments_out));
    figures.retransmitted += u64::from(now.retransmitted.wrapping_sub(then.retransmitted));
    figures.busy_us += now.busy_us.saturating_sub(then.busy_us);
    figures.rwnd_limited_us += now.rwnd_limited_us.saturating_sub(then.rwnd_limited_us);
    figures.sndbuf_limited_us += now.sndbuf_limited_us.saturating_sub(then.sndbuf_limited_us);
}

fn summary(sockets: &[ConnectedSocket], all: bool) -> ConnectionFigures {
    let quantile = |share: f64, figure: fn(&TcpInfo) -> u64| {
        let mut values: Vec<u64> = sockets.iter().map(|socket| figure(&socket.info)).collect();
        values.sort_unstable();
        let at = (share * values.len() as f64).ceil() as usize;
        values.get(at.saturating_sub(1)).copied().unwrap_or(0) as f64
    };
    let sum = |figure: fn(&ConnectedSocket) -> u64| sockets.iter().map(figure).sum::<u64>() as f64;
    let lowest = sockets.iter().map(|socket| socket.info.rtt_min_us).filter(|rtt| *rtt > 0).min();
    ConnectionFigures {
        examined: sockets.len() as u64,
        is_sample: u64::from(!all),
        rtt_p50_us: quantile(0.5, |info| u64::from(info.rtt_us)),
        rtt_p99_us: quantile(0.99, |info| u64::from(info.rtt_us)),
        rtt_min_us: f64::from(lowest.unwrap_or(0)),
        cwnd_p50: quantile(0.5, |info| u64::from(info.cwnd)),
        delivery_rate_p50: quantile(0.5, |info| info.delivery_rate),
        delivery_rate_sum: sum(|socket| socket.info.delivery_rate),
        app_limited: sum(|socket| u64::from(socket.info.app_limited)),
        unsent_bytes: sum(|socket| u64::from(socket.info.unsent_bytes)),
        unread_bytes: sum(|socket| u64::from(socket.unread_bytes)),
        ..ConnectionFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(cookie: u64, rtt_us: u32, unsent_bytes: u32) -> ConnectedSocket {
        let info = TcpInfo { rtt_us, rtt_min_us: rtt_us / 2, unsent_bytes, ..TcpInfo::default() };
        ConnectedSocket { cookie, unread_bytes: 1, unacknowledged_bytes: 0, info }
    }

    #[test]
    fn connections_are_summed_up() {
        let sockets: Vec<_> = (1..=100).map(|number| socket(number, number as u32 * 10, 5)).collect();
        let figures = summary(&sockets, false);
        assert_eq!((figures.rtt_p50_us, figures.rtt_p99_us, figures.rtt_min_us), (500.0, 990.0, 5.0));
        assert_eq!((figures.examined, figures.is_sample, figures.unsent_bytes), (100, 1, 500.0));
        assert_eq!(summary(&[], true), ConnectionFigures::default());
    }
}
