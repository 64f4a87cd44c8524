//! The model that the options of `thalweg yardstick` describe.

use std::time::Duration;

use thalweg_yardstick::{Collapse, Faults, Law, Model, Overload, SlowStart, Stall};

use crate::exit::Failure;
use crate::options::{LawOption, Preset, StallOption, YardstickOptions};

/// The capacity where no other is given, in requests per second.
const RATE_DEFAULT: f64 = 1000.0;
/// Servers of the presets with several.
const SERVERS_OF_SEVERAL: usize = 4;
/// The bound of the preset's queue.
const QUEUE_DEFAULT: usize = 20;
/// The share of faults where the preset has one.
const FAULTS_DEFAULT: f64 = 0.01;

/// Makes the model.
///
/// # Errors
/// Options contradict one another or are out of range.
pub(super) fn model(options: &YardstickOptions) -> Result<Model, Failure> {
    let preset = options.preset;
    let servers_default = if matches!(preset, Preset::Mmk | Preset::HotCore) { SERVERS_OF_SEVERAL } else { 1 };
    let servers = options.servers.unwrap_or(servers_default);
    let law = law(options, servers)?;
    let is = |wanted: Preset, value: f64| if preset == wanted { value } else { 0.0 };
    let model = Model {
        servers,
        law,
        queue_max: options.queue.or((preset == Preset::Bounded).then_some(QUEUE_DEFAULT)),
        hot_share: options.hot_share.or((preset == Preset::HotCore).then_some(0.5)),
        stall: stall(options),
        slow_start: slow_start(options)?,
        collapse: collapse(options)?,
        drift_per_s: 0.0,
        faults: Faults {
            wrong_bodies: options.wrong_bodies.unwrap_or(is(Preset::WrongBodies, FAULTS_DEFAULT)),
            resets: options.resets.unwrap_or(is(Preset::Resets, FAULTS_DEFAULT)),
            truncated: options.truncated,
            errors: options.errors,
        },
        seed: options.seed,
    };
    model.check().map_err(Failure::usage)?;
    if options.burn && (model.stall.is_some() || model.slow_start.is_some() || model.collapse.is_some()) {
        return Err(Failure::usage("--burn: stalls, slow start and collapse need departures that are computed"));
    }
    let needs_body = model.faults.wrong_bodies > 0.0 || model.faults.truncated > 0.0;
    if needs_body && options.body == 0 {
        return Err(Failure::usage("a body of 0 bytes can be neither wrong nor truncated; use --body 512"));
    }
    Ok(model)
}

/// The service times, scaled so that the servers together have the capacity.
fn law(options: &YardstickOptions, servers: usize) -> Result<Law, Failure> {
    let law_default = match options.preset {
        Preset::Fixed => LawOption::Fixed,
        Preset::TwoPoint => LawOption::TwoPoint,
        _ => LawOption::Exponential,
    };
    if !(options.slow_factor.is_finite() && options.slow_factor >= 1.0) {
        return Err(Failure::usage("--slow-factor: the longer service time is at least 1 times the shorter"));
    }
    let unit = match options.law.unwrap_or(law_default) {
        LawOption::Fixed => Law::Fixed { time_s: 1.0 },
        LawOption::Exponential => Law::Exponential { mean_s: 1.0 },
        LawOption::TwoPoint => {
            Law::TwoPoint { short_s: 1.0, long_s: options.slow_factor, long_share: options.slow_share }
        }
    };
    Ok(match options.service {
        Some(service) => unit.scaled(service.as_secs_f64()),
        None => {
            let mean_s = servers as f64 / options.rate.unwrap_or(RATE_DEFAULT);
            unit.scaled(mean_s / unit.mean_s())
        }
    })
}

fn stall(options: &YardstickOptions) -> Option<Stall> {
    const STALL_DEFAULT: StallOption = StallOption { length: Duration::from_secs(1), every: Duration::from_secs(10) };
    let stall = options.stall.or((options.preset == Preset::Stalls).then_some(STALL_DEFAULT))?;
    Some(Stall { length_ns: ns(stall.length), every_ns: ns(stall.every) })
}

fn slow_start(options: &YardstickOptions) -> Result<Option<SlowStart>, Failure> {
    const RAMP_DEFAULT: Duration = Duration::from_secs(10);
    let Some(ramp) = options.slow_start.or((options.preset == Preset::SlowStart).then_some(RAMP_DEFAULT)) else {
        return Ok(None);
    };
    if ramp.is_zero() || options.cold_share == 0.0 {
        return Err(Failure::usage("a slow start needs a time and a share of the capacity, both above zero"));
    }
    Ok(Some(SlowStart { ramp_ns: ns(ramp), from: options.cold_share, idle_ns: ns(options.idle) }))
}

fn collapse(options: &YardstickOptions) -> Result<Option<Collapse>, Failure> {
    const OVERLOAD_DEFAULT: Duration = Duration::from_secs(3);
    let after = options.collapse_after.or((options.preset == Preset::Collapse).then_some(OVERLOAD_DEFAULT));
    let given = options.collapse_above.map(Overload::RatePerS).or(options.collapse_queue.map(Overload::Waiting));
    let default = after.map(|after| Overload::BusyForNs(ns(after)));
    let Some(above) = given.or(default) else {
        if options.recovery.is_some() {
            return Err(Failure::usage("--recovery needs a collapse: the preset collapse, or --collapse-after"));
        }
        return Ok(None);
    };
    if options.collapse_to == 0.0 {
        return Err(Failure::usage("--collapse-to: a collapse leaves more than 0 % of the capacity"));
    }
    Ok(Some(Collapse { above, left: options.collapse_to, recovery_ns: options.recovery.map(ns) }))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
