//! Closed forms of queueing theory: the distribution of the sojourn time (waiting and service) in a
//! queue that is served in order of arrival.
//!
//! Sources: L. Kleinrock, Queueing Systems, vol. 1 (1975), sections 3.2 (M/M/1), 3.5 (M/M/m, Erlang
//! C), 5.7 (M/G/1, Pollaczek-Khinchine), 6.3 (G/M/1). Rates are per second, times in seconds.

use crate::law::Law;

/// A queue whose sojourn times are known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Queue {
    /// Poisson arrivals, exponential service, k servers.
    MMk { servers: usize, mean_s: f64 },
    /// The same with a share of the arrivals for the first server alone: two queues, because a part
    /// of a Poisson process is one.
    Split { servers: usize, mean_s: f64, hot_share: f64 },
    /// Poisson arrivals, fixed or two-point service, one server.
    MG1 { law: Law },
    /// Even arrivals, exponential service, one server.
    DM1 { mean_s: f64 },
    /// Even arrivals, fixed service, k servers.
    DDk { servers: usize, time_s: f64 },
}

impl Queue {
    /// The name in Kendall's notation.
    pub(super) fn name(&self) -> String {
        match self {
            Self::MMk { servers, .. } => format!("M/M/{servers}"),
            Self::Split { servers, .. } => format!("M/M/1 and M/M/{}", servers - 1),
            Self::MG1 { law: Law::Fixed { .. } } => "M/D/1".to_owned(),
            Self::MG1 { .. } => "M/G/1".to_owned(),
            Self::DM1 { .. } => "D/M/1".to_owned(),
            Self::DDk { servers, .. } => format!("D/D/{servers}"),
        }
    }

    /// The share of requests whose sojourn takes longer than `time`, at a rate below capacity.
    pub(super) fn share_beyond(&self, rate: f64, time: f64) -> f64 {
        match *self {
            Self::MMk { servers, mean_s } => mmk_share_beyond(rate, servers, mean_s, time),
            Self::Split { servers, mean_s, hot_share } => {
                let (hot, others) = (rate * hot_share, rate * (1.0 - hot_share));
                hot_share * mmk_share_beyond(hot, 1, mean_s, time)
                    + (1.0 - hot_share) * mmk_share_beyond(others, servers - 1, mean_s, time)
            }
            Self::MG1 { law } => mg1_share_beyond(rate, law, time),
            Self::DM1 { mean_s } => (-time * dm1_decay(rate, mean_s)).exp(),
            Self::DDk { time_s, .. } => f64::from(time < time_s),
        }
    }

    /// The mean sojourn time at a rate below capacity.
    pub(super) fn mean(&self, rate: f64) -> f64 {
        match *self {
            Self::MMk { servers, mean_s } => mmk_mean(rate, servers, mean_s),
            Self::Split { servers, mean_s, hot_share } => {
                let (hot, others) = (rate * hot_share, rate * (1.0 - hot_share));
                hot_share * mmk_mean(hot, 1, mean_s) + (1.0 - hot_share) * mmk_mean(others, servers - 1, mean_s)
            }
            Self::MG1 { law } => law.mean_s() + rate * second_moment(law) / (2.0 * (1.0 - rate * law.mean_s())),
            Self::DM1 { mean_s } => 1.0 / dm1_decay(rate, mean_s),
            Self::DDk { time_s, .. } => time_s,
        }
    }
}

/// M/M/k: the sojourn is a service and, with the probability of Erlang C, a wait that is
/// exponential with the rate k mu - lambda. With one server this is exp(-(mu - lambda) t).
fn mmk_share_beyond(rate: f64, servers: usize, mean_s: f64, time: f64) -> f64 {
    let (mu, load, k) = (1.0 / mean_s, rate * mean_s, servers as f64);
    let waits = erlang_c(load, servers);
    // The sum of a service and a wait is beyond t with (exp(-mu t) - exp(-(k mu - lambda) t)) / x
    // more than a service alone, with x = k - 1 - a; near x = 0 that is mu t exp(-mu t).
    let (x, exponent) = (k - 1.0 - load, mu * time);
    let more = if (x * exponent).abs() < 1e-6 {
        exponent * (-exponent).exp()
    } else {
        ((-exponent).exp() - (-(x + 1.0) * exponent).exp()) / x
    };
    (-exponent).exp() + waits * more
}

/// M/M/k: a service and, with the probability of Erlang C, a wait.
fn mmk_mean(rate: f64, servers: usize, mean_s: f64) -> f64 {
    mean_s + erlang_c(rate * mean_s, servers) / (servers as f64 / mean_s - rate)
}

/// The probability that an arrival finds all of `servers` busy, at an offered load in Erlangs.
pub(super) fn erlang_c(load: f64, servers: usize) -> f64 {
    // The recursion of Erlang B, which neither overflows nor cancels.
    let blocked = (1..=servers).fold(1.0, |blocked, k| load * blocked / (k as f64 + load * blocked));
    let k = servers as f64;
    k * blocked / (k - load * (1.0 - blocked))
}

/// D/M/1: the sojourn is exponential with the rate mu (1 - sigma), where sigma is the root below 1
/// of sigma = exp(-mu (1 - sigma) / lambda).
fn dm1_decay(rate: f64, mean_s: f64) -> f64 {
    let (mu, interval) = (1.0 / mean_s, 1.0 / rate);
    let excess = |sigma: f64| (-mu * (1.0 - sigma) * interval).exp() - sigma;
    // The function falls from a positive value at 0 below zero between the root and 1.
    let (mut low, mut high) = (0.0, 1.0 - 1e-12);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if excess(middle) > 0.0 { low = middle } else { high = middle }
    }
    mu * (1.0 - low)
}

/// The mean square of the service time.
fn second_moment(law: Law) -> f64 {
    match law {
        Law::Fixed { time_s } => time_s * time_s,
        Law::Exponential { mean_s } => 2.0 * mean_s * mean_s,
        Law::TwoPoint { short_s, long_s, long_share } => {
            (1.0 - long_share) * short_s * short_s + long_share * long_s * long_s
        }
    }
}

/// M/G/1 with one or two service times. The Pollaczek-Khinchine transform says that the
/// distribution F of the wait satisfies
///
/// ```text
/// F(t) = (1 - rho) + lambda * integral from 0 to t of F(t - u) P(service > u) du
/// ```
///
/// With G the integral of F and services s_i of probability p_i, that is a delay equation without
/// an integral, F(t) = (1 - rho) + lambda * (G(t) - sum of p_i G(t - s_i)), which is stepped
/// through with the trapezoidal rule.
fn mg1_share_beyond(rate: f64, law: Law, time: f64) -> f64 {
    const STEPS: usize = 20_000;
    let points = match law {
        Law::TwoPoint { short_s, long_s, long_share } => [(short_s, 1.0 - long_share), (long_s, long_share)],
        Law::Fixed { time_s } => [(time_s, 1.0), (time_s, 0.0)],
        Law::Exponential { .. } => unreachable!("it has a form of its own"),
    };
    let (idle, step) = (1.0 - rate * law.mean_s(), time / STEPS as f64);
    let (mut waits, mut integrals) = (vec![idle], vec![0.0]);
    let at = |series: &[f64], time: f64| {
        if time < 0.0 {
            return 0.0;
        }
        let place = time / step;
        let (index, part) = (place as usize, place.fract());
        let first = series[index];
        series.get(index + 1).map_or(first, |second| first + part * (second - first))
    };
    for index in 1..=STEPS {
        let delayed: f64 =
            points.iter().map(|&(service, share)| share * at(&integrals, index as f64 * step - service)).sum();
        let (before, wait) = (integrals[index - 1], waits[index - 1]);
        // F(t) = idle + rate * (G(t) - delayed) and G(t) = before + step / 2 * (wait + F(t)).
        let present = (idle + rate * (before + 0.5 * step * wait - delayed)) / (1.0 - 0.5 * rate * step);
        waits.push(present);
        integrals.push(before + 0.5 * step * (wait + present));
    }
    1.0 - points.iter().map(|&(service, share)| share * at(&waits, time - service)).sum::<f64>()
}
