//! `thalweg yardstick`: a server whose capacity and faults are known.

mod model;
mod text;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::json;
use thalweg_sys::resource_limits::{descriptors, raise_descriptors};
use thalweg_yardstick::server::{self, Figures, Running, STATUS_PATH, ServerConfig, ServerError};
use thalweg_yardstick::{Arrivals, Model, Truth, truth};

use crate::exit::{Exit, Failure, remark};
use crate::interrupt::Interrupt;
use crate::load_options::ensure_driver;
use crate::options::{ArrivalsOption, YardstickOptions};
use crate::output::print;

/// Runs the command until a signal ends it.
///
/// # Errors
/// An option is wrong, or the address is not available.
pub(crate) fn yardstick(options: &YardstickOptions) -> Result<ExitCode, Failure> {
    let model = model::model(options)?;
    let arrivals = match options.arrivals {
        ArrivalsOption::Constant => Arrivals::Constant,
        ArrivalsOption::Poisson => Arrivals::Poisson,
    };
    let truth = truth(&model, arrivals, &options.limits);
    let introduction = format!("yardstick: {}\n{}", text::model(&model), text::truth(&truth));
    if options.truth {
        let json = || serde_json::to_string_pretty(&json!({ "model": model, "truth": truth })).map(|json| json + "\n");
        print(&if options.json { json().map_err(Failure::unreachable)? } else { introduction })?;
        return Ok(Exit::Met.into());
    }
    // From here on, a signal ends the server and not the process.
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let running = start(options, model, truth)?;
    let address = running.address();
    print(&format!(
        "{introduction}listening on http://{address}/\nfigures on http://{address}{STATUS_PATH} over {}\n",
        running.driver().name()
    ))?;
    let figures = watch(running, &interrupt)?;
    print(&text::figures(&figures))?;
    if figures.fell_short() {
        remark(
            "the yardstick fell short: it sent more than one response in a thousand over 1 ms late, because its thread \
             did not get a CPU in time; use --cores to give it one of its own",
        );
    }
    Ok(Exit::Met.into())
}

fn start(options: &YardstickOptions, model: Model, truth: Truth) -> Result<Running, Failure> {
    ensure_driver(options.driver.into())?;
    raise_descriptors(descriptors().hard).map_err(Failure::unreachable)?;
    let cpus = options.cores.as_ref().map_or(Vec::new(), |list| list.0.clone());
    if cpus.len() > 1 && !options.burn {
        return Err(Failure::usage("--cores: a yardstick without --burn has one thread; name one CPU"));
    }
    let config = ServerConfig {
        wake_early_ns: if options.burn { 0 } else { wake_early_ns(&model) },
        model,
        truth,
        body_bytes: usize::try_from(options.body).map_err(Failure::usage)?,
        retry_after_s: options.retry_after,
        listen: options.listen,
        cpus,
        burn: options.burn,
        driver: options.driver.into(),
        connections_max: usize::try_from(options.connections).map_err(Failure::usage)?,
    };
    server::start(config).map_err(|error| match error {
        ServerError::Pin { .. } => Failure::usage(format!("{error}; see --cores")),
        ServerError::Listen { .. } => Failure::unreachable(format!("{error}; choose another address with --listen")),
        ServerError::Thread(_) => Failure::unreachable(error),
    })
}

/// The time for which the thread does not sleep before a departure, as a load thread does not
/// before an arrival (bench/TRIED.md, "Waking before an arrival"). Where departures follow so
/// closely that it would hardly sleep at all, it is 0.
fn wake_early_ns(model: &Model) -> u64 {
    const WAKE_EARLY_NS: u64 = 50_000;
    const RATE_MAX: f64 = 8_000.0;
    if model.capacity() <= RATE_MAX { WAKE_EARLY_NS } else { 0 }
}

/// Waits for the end.
fn watch(running: Running, interrupt: &Interrupt) -> Result<Figures, Failure> {
    const POLL_INTERVAL: Duration = Duration::from_millis(50);
    while !interrupt.is_wanted() && !running.has_ended() {
        thread::sleep(POLL_INTERVAL);
    }
    running.stop().map_err(|error| Failure::unreachable(format!("the server failed: {error}")))
}
