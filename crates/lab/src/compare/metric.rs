//! The metrics of a comparison: their names, units and values.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thalweg_measure::limit::Statistic;
use thalweg_measure::{Histogram, LoopKind, Verdict};

use crate::trial::TrialResult;

/// A metric by which sides are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// CPU time of the server's processes per completed request.
    ServerCpu,
    /// CPU time of the client's load threads per completed request.
    ClientCpu,
    /// The rate that a capacity search finds.
    Capacity,
    /// Good requests per second.
    Throughput,
    /// Bytes received per second.
    BytesPerSecond,
    /// A statistic of the response times.
    ResponseTime(Statistic),
    /// A statistic of the service times.
    ServiceTime(Statistic),
}

/// The load under which a metric is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// The load of the options, or a moderate one.
    Given,
    /// A closed loop at full speed.
    FullSpeed,
    /// A capacity search.
    Search,
}

impl Metric {
    /// The load for this metric. With no load in the options, a throughput is one at full speed: at
    /// a moderate rate it would be that rate.
    pub fn load(self, is_load_given: bool) -> LoadKind {
        match self {
            Self::Capacity => LoadKind::Search,
            Self::Throughput | Self::BytesPerSecond if !is_load_given => LoadKind::FullSpeed,
            _ => LoadKind::Given,
        }
    }

    /// The unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::ServerCpu | Self::ClientCpu | Self::ResponseTime(_) | Self::ServiceTime(_) => "us",
            Self::Capacity | Self::Throughput => "1/s",
            Self::BytesPerSecond => "B/s",
        }
    }

    /// Whether less of it is better.
    pub fn less_is_better(self) -> bool {
        !matches!(self, Self::Capacity | Self::Throughput | Self::BytesPerSecond)
    }

    /// The metric in a sentence.
    pub fn noun(self) -> String {
        match self {
            Self::ServerCpu => "server CPU per request".to_owned(),
            Self::ClientCpu => "client CPU per request".to_owned(),
            Self::Capacity => "capacity".to_owned(),
            Self::Throughput => "throughput".to_owned(),
            Self::BytesPerSecond => "throughput in bytes".to_owned(),
            Self::ResponseTime(statistic) => format!("{} response time", in_words(statistic)),
            Self::ServiceTime(statistic) => format!("{} service time", in_words(statistic)),
        }
    }
}

fn in_words(statistic: Statistic) -> String {
    match statistic {
        Statistic::Percentile(_) => statistic.to_string(),
        Statistic::Mean => "mean".to_owned(),
        Statistic::Max => "maximum".to_owned(),
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerCpu => f.write_str("cpu_per_request"),
            Self::ClientCpu => f.write_str("client_cpu_per_request"),
            Self::Capacity => f.write_str("capacity"),
            Self::Throughput => f.write_str("throughput"),
            Self::BytesPerSecond => f.write_str("bytes_per_s"),
            Self::ResponseTime(statistic) => write!(f, "{statistic}"),
            Self::ServiceTime(statistic) => write!(f, "service_{statistic}"),
        }
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = |_| {
            format!(
                "{text:?} is no metric; expected cpu_per_request, client_cpu_per_request, capacity, throughput, \
                 bytes_per_s, or a response time such as p50, p99, p99.9, mean or max (service_p99 for a service time)"
            )
        };
        Ok(match text {
            "cpu_per_request" => Self::ServerCpu,
            "client_cpu_per_request" => Self::ClientCpu,
            "capacity" => Self::Capacity,
            "throughput" => Self::Throughput,
            "bytes_per_s" => Self::BytesPerSecond,
            _ => match text.strip_prefix("service_") {
                Some(statistic) => Self::ServiceTime(Statistic::parse(statistic).map_err(unknown)?),
                None => Self::ResponseTime(Statistic::parse(text).map_err(unknown)?),
            },
        })
    }
}

/// The figures of one load, of one round or of all rounds of a side.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    response_time: Histogram,
    service_time: Histogram,
    /// Requests that used the server's CPU: those of the warm-up, and of disturbed time, included.
    requests: f64,
    server_cpu_ns: Option<u64>,
    /// Requests that used the client's CPU: those of disturbed time included.
    completed: u64,
    client_cpu_ns: u64,
    /// Good responses, and the time that they make a rate over.
    good: u64,
    seconds: f64,
    /// Bytes up to the end of the last request, and the time until then.
    bytes: u64,
    span_s: f64,
    validity: Validity,
}

/// The claims about the target that the client's part in a trial allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Validity {
    /// Nothing.
    #[default]
    None,
    /// The cost of a request alone: the client was late, but its requests were sent.
    Cost,
    /// Rates as well: the load was the one asked for, but the times of requests are partly lag.
    Rate,
    /// Everything.
    Full,
}

/// The share of the requests that was sent, from which on the rest does not matter to the cost of
/// one.
const SENT_SHARE: f64 = 0.99;

impl Tally {
    /// Of one trial. `server_cpu_ns` is of the whole trial, also of the warm-up and of disturbed
    /// seconds, whose requests other figures leave out.
    pub fn of(result: &TrialResult, server_cpu_ns: Option<u64>, warmup: Duration) -> Self {
        let trial = &result.figures.trial;
        let whole_s = trial.duration.as_secs_f64();
        let seconds = trial.clean().as_secs_f64();
        let completed = trial.outcomes.completed() + trial.left_out_outcomes().completed();
        Self {
            response_time: trial.response_time(),
            service_time: trial.service_time.clone(),
            requests: completed as f64 * (whole_s + warmup.as_secs_f64()) / whole_s.max(1e-9),
            server_cpu_ns,
            completed,
            client_cpu_ns: trial.cpus.iter().map(|cpu| cpu.cpu_user_ns + cpu.cpu_system_ns).sum(),
            // In a closed loop each response lets the next request go, so that the requests of the
            // window are a rate. Those answered within it are fewer: requests of the warm-up were
            // answered first.
            good: match trial.loop_kind {
                LoopKind::Closed => trial.counts.good,
                LoopKind::Open => trial.in_window.good,
            },
            seconds,
            bytes: trial.bytes.received,
            span_s: trial.span().as_secs_f64() - whole_s + seconds,
            validity: match result.judgement.verdict {
                Verdict::Pass | Verdict::Fail if result.judgement.is_of_late_client() => Validity::Rate,
                Verdict::Pass | Verdict::Fail => Validity::Full,
                _ if trial.counts.sent as f64 >= trial.counts.offered as f64 * SENT_SHARE => Validity::Cost,
                _ => Validity::None,
            },
        }
    }

    /// Adds those of another round.
    pub fn merge(&mut self, other: &Self) {
        self.response_time.merge(&other.response_time);
        self.service_time.merge(&other.service_time);
        self.requests += other.requests;
        self.server_cpu_ns = match (self.seconds > 0.0, self.server_cpu_ns) {
            (false, _) => other.server_cpu_ns,
            (true, sum) => sum.zip(other.server_cpu_ns).map(|(sum, more)| sum + more),
        };
        self.completed += other.completed;
        self.client_cpu_ns += other.client_cpu_ns;
        self.good += other.good;
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        self.span_s += other.span_s;
        self.validity = self.validity.max(other.validity);
    }

    /// The value of a metric in its unit; `None` if there is no valid one, or if it is zero, of
    /// which no ratio could be made.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let wanted = match metric {
            // A late client changes when requests arrive, and hardly what they cost.
            Metric::ServerCpu | Metric::ClientCpu => Validity::Cost,
            Metric::Throughput | Metric::BytesPerSecond => Validity::Rate,
            _ => Validity::Full,
        };
        if self.validity < wanted {
            return None;
        }
        let us = |statistic: Statistic, histogram: &Histogram| statistic.of(histogram) / 1e3;
        let value = match metric {
            Metric::ServerCpu => self.server_cpu_ns? as f64 / 1e3 / self.requests,
            Metric::ClientCpu => self.client_cpu_ns as f64 / 1e3 / self.completed as f64,
            Metric::Capacity => return None,
            Metric::Throughput => self.good as f64 / self.seconds,
            Metric::BytesPerSecond => self.bytes as f64 / self.span_s,
            Metric::ResponseTime(statistic) => us(statistic, &self.response_time),
            Metric::ServiceTime(statistic) => us(statistic, &self.service_time),
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_as_they_are_written() {
        for name in [
            "cpu_per_request",
            "client_cpu_per_request",
            "capacity",
            "throughput",
            "bytes_per_s",
            "p50",
            "p99.9",
            "mean",
            "max",
            "service_p99",
        ] {
            assert_eq!(name.parse::<Metric>().unwrap().to_string(), name);
        }
        for wrong in ["", "latency", "p100", "service_", "cpu"] {
            assert!(wrong.parse::<Metric>().unwrap_err().contains("no metric"), "{wrong:?}");
        }
    }

    #[test]
    fn a_throughput_without_a_load_of_its_own_is_at_full_speed() {
        let p99 = Metric::ResponseTime(Statistic::Percentile(99.0));
        for (metric, given, expected) in [
            (Metric::Throughput, false, LoadKind::FullSpeed),
            (Metric::Throughput, true, LoadKind::Given),
            (p99, false, LoadKind::Given),
            (Metric::Capacity, true, LoadKind::Search),
        ] {
            assert_eq!(metric.load(given), expected, "{metric}");
        }
    }
}
