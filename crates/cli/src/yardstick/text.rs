//! A yardstick's model, truth and figures in words.

use std::time::Duration;

use thalweg_units::display;
use thalweg_yardstick::server::Figures;
use thalweg_yardstick::{Arrivals, Collapse, Faults, Law, Model, Overload, Stall, Truth};

/// The model, one line.
pub(super) fn model(model: &Model) -> String {
    let servers = if model.servers == 1 { "1 server".to_owned() } else { format!("{} servers", model.servers) };
    let law = match model.law {
        Law::Fixed { time_s } => format!("fixed service time {}", seconds(time_s)),
        Law::Exponential { mean_s } => format!("exponential service times with mean {}", seconds(mean_s)),
        Law::TwoPoint { short_s, long_s, long_share } => format!(
            "service times {} and, for {} of the requests, {}",
            seconds(short_s),
            display::percent(long_share),
            seconds(long_s)
        ),
    };
    let mut parts = vec![servers, law];
    parts.extend(model.queue_max.map(|bound| format!("503 where {bound} requests wait")));
    parts.extend(model.hot_share.map(|share| format!("{} of the requests on one server", display::percent(share))));
    parts.extend(
        model
            .stall
            .map(|Stall { length_ns, every_ns }| format!("pauses of {} every {}", exact(length_ns), exact(every_ns))),
    );
    parts.extend(model.slow_start.map(|slow_start| {
        format!("from {} to all of the capacity in {}", display::percent(slow_start.from), exact(slow_start.ramp_ns))
    }));
    parts.extend(model.collapse.map(|collapse| self::collapse(&collapse)));
    parts.extend(faults(&model.faults));
    parts.push(format!("seed {}", model.seed));
    parts.join("; ")
}

fn collapse(collapse: &Collapse) -> String {
    let above = match collapse.above {
        Overload::RatePerS(per_second) => format!("above {}", rate(per_second)),
        Overload::Waiting(bound) => format!("where more than {bound} requests wait"),
        Overload::BusyForNs(ns) => format!("where requests have waited for {} without a break", exact(ns)),
    };
    let recovery = match collapse.recovery_ns {
        Some(ns) => format!("until {} after the overload", exact(ns)),
        None => "for ever".to_owned(),
    };
    format!("{above} a collapse to {} of the capacity, {recovery}", display::percent(collapse.left))
}

fn faults(faults: &Faults) -> impl Iterator<Item = String> {
    let shares = [
        (faults.wrong_bodies, "wrong bodies"),
        (faults.resets, "resets"),
        (faults.truncated, "truncated bodies"),
        (faults.errors, "responses 500"),
    ];
    shares
        .into_iter()
        .filter(|(share, _)| *share > 0.0)
        .map(|(share, what)| format!("{} {what}", display::percent(share)))
}

/// The truth, a line for the capacity and one for each limit.
pub(super) fn truth(truth: &Truth) -> String {
    let mut text = format!("capacity: {}\n", rate(truth.capacity_per_s));
    let arrivals = match truth.arrivals {
        Arrivals::Constant => "constant",
        Arrivals::Poisson => "Poisson",
    };
    for limit in &truth.limits {
        let met = match limit.rate_per_s {
            Some(per_second) => format!("met up to {}", rate(per_second)),
            None => "met at no rate".to_owned(),
        };
        text.push_str(&format!("{}: {met} under {arrivals} arrivals ({})\n", limit.limit, limit.source));
    }
    text
}

/// The figures at the end.
pub(super) fn figures(figures: &Figures) -> String {
    let mut text = format!(
        "stopped after {}: {} requests, {} served, {} refused, {} abandoned; at most {} waited\n",
        seconds(figures.uptime_s),
        display::count(figures.arrived),
        display::count(figures.served),
        display::count(figures.refused),
        display::count(figures.abandoned),
        display::count(figures.waiting_peak as u64),
    );
    let late = &figures.lateness_us;
    if late.count == 0 {
        // Burnt services have no computed departures.
        return text;
    }
    let us = |us: f64| display::time((us * 1e3).round() as u64);
    text.push_str(&format!(
        "responses left later than computed by {} (median), {} (p99), {} (p99.9), {} (maximum); CPU use {}\n",
        us(late.p50),
        us(late.p99),
        us(late.p999),
        us(late.max),
        display::percent(figures.cpu_s / figures.uptime_s.max(1e-9)),
    ));
    text
}

/// A rate with the digits that a truth has.
fn rate(per_second: f64) -> String {
    if per_second >= 10_000.0 {
        format!("{}/s", display::count(per_second.round() as u64))
    } else {
        format!("{per_second:.1}/s")
    }
}

fn seconds(seconds: f64) -> String {
    display::time((seconds * 1e9).round() as u64)
}

fn exact(ns: u64) -> String {
    display::exact_time_spaced(Duration::from_nanos(ns))
}
