//! The arrivals of `thalweg run` as its options describe them: the loop, its extent, and the users.

use std::sync::Arc;
use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, RateText, Sessions, UserPlan};

use crate::exit::Failure;
use crate::options::{HttpVersion, RunOptions};

/// Default of an open loop's connections: enough to keep a server busy at a response time of some
/// milliseconds, few enough for any listen queue.
pub(crate) const CONNECTIONS_DEFAULT: usize = 256;

/// Default rate without workers: enough to see a server at work, too little to harm one.
const RATE_DEFAULT: &str = "100/s";

/// Default length of a load without a number of requests.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// Default bound on connections that users have open at once. httperf has no bound but the
/// descriptors.
pub(crate) const VISITS_DEFAULT: usize = 16_384;

/// Requests that a session pipelines, as in httperf.
const SESSION_PIPELINE: u32 = 32;

/// The shape of a load: arrivals, extent and connections.
pub(crate) struct Shape {
    /// The times of arrivals.
    pub arrivals: LoopPlan,
    /// The user that an arrival starts, if it is not a single request.
    pub user: Option<UserPlan>,
    /// The length or the number of requests.
    pub extent: Extent,
    /// Default bound on open connections.
    pub connections: usize,
    /// Connections opened per second before the start.
    pub opening_rate: Option<f64>,
    /// Connections that are to be open at the end.
    pub hold: Option<usize>,
    /// Default of requests under way on a connection.
    pub pipeline: u32,
}

/// The shape that the options describe together. `load_options` checks those that all commands
/// share.
///
/// # Errors
/// The options contradict one another.
pub(crate) fn shape(options: &RunOptions, sessions: Option<Arc<Sessions>>) -> Result<Shape, Failure> {
    if options.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(Failure::usage("--duration 0s would measure nothing"));
    }
    let closed = workers(options).is_some() || options.hold.is_some();
    if options.think.is_some() && !closed && sessions.is_none() {
        return Err(Failure::usage("--think needs --workers, --hold or --session"));
    }
    if options.stagger.is_some() && !closed {
        return Err(Failure::usage("--stagger needs --workers or --hold"));
    }
    if options.conns.is_some() && options.conn_rate.is_none() && sessions.is_none() {
        return Err(Failure::usage("--conns needs --conn-rate"));
    }
    if options.session_connections.is_some() && sessions.is_none() {
        return Err(Failure::usage("--session-connections needs --session"));
    }
    let of_users = (options.conn_rate.is_some() && options.hold.is_none()) || sessions.is_some();
    if options.requests.is_some() && of_users {
        return Err(Failure::usage(
            "--requests cannot be used with --conn-rate or --session: use --conns for the number of connections or \
             sessions",
        ));
    }
    if let Some(hold) = options.hold {
        return held(options, hold);
    }
    match (sessions, &options.conn_rate) {
        (Some(sessions), _) => users_of_sessions(options, sessions),
        (None, Some(rate)) => Ok(users(options, rate, UserPlan::Calls(options.request.calls.unwrap_or(1)))),
        (None, None) => Ok(requests(options)),
    }
}

/// A load of connections that are kept open, each with a worker of its own.
fn held(options: &RunOptions, hold: usize) -> Result<Shape, Failure> {
    let opening_rate = match &options.conn_rate {
        None => None,
        Some(rate) => Some(rate.over(DURATION_DEFAULT).as_constant().ok_or_else(|| {
            Failure::usage("--hold opens connections at a constant rate: use --conn-rate without ramps and steps")
        })?),
    };
    let opening = opening_rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(hold as f64 / rate));
    let think = options.think.unwrap_or_default();
    // The workers of held connections that pause begin one after the other, not all at once.
    let stagger = options.stagger.unwrap_or(opening.max(think));
    Ok(Shape {
        arrivals: LoopPlan::Closed { workers: hold, think, stagger },
        user: None,
        extent: extent(options, None),
        connections: hold,
        opening_rate,
        hold: Some(hold),
        pipeline: 1,
    })
}

fn users_of_sessions(options: &RunOptions, sessions: Arc<Sessions>) -> Result<Shape, Failure> {
    // Pipelining came with HTTP/1.1; httperf does not pipeline HTTP/1.0 either.
    let pipeline = if options.load.http == HttpVersion::Http10 { 1 } else { SESSION_PIPELINE };
    let each = session_connections(options);
    let user = UserPlan::Sessions { sessions, think: options.think.unwrap_or_default(), connections: each };
    match (&options.conn_rate, options.workers) {
        (Some(rate), _) => Ok(Shape { pipeline, ..users(options, rate, user) }),
        (None, Some(workers)) => Ok(Shape {
            arrivals: LoopPlan::Closed { workers, think: Duration::ZERO, stagger: options.stagger.unwrap_or_default() },
            user: Some(user),
            extent: extent(options, None),
            connections: workers.saturating_mul(each),
            opening_rate: None,
            hold: None,
            pipeline,
        }),
        (None, None) => Err(Failure::usage(
            "--session needs --conn-rate or --workers: --conn-rate 5 starts five sessions per second, --workers 10 \
             runs ten at a time",
        )),
    }
}

fn session_connections(options: &RunOptions) -> usize {
    options.session_connections.unwrap_or(1)
}

fn users(options: &RunOptions, rate: &RateText, user: UserPlan) -> Shape {
    let extent = extent(options, Some(rate));
    let connections = match extent {
        Extent::Requests(total) => {
            let total = usize::try_from(total).unwrap_or(VISITS_DEFAULT);
            VISITS_DEFAULT.min(total.saturating_mul(session_connections(options)))
        }
        Extent::Duration(_) => VISITS_DEFAULT,
    };
    Shape {
        arrivals: open_loop(options, rate, extent),
        user: Some(user),
        extent,
        connections,
        opening_rate: None,
        hold: None,
        pipeline: 1,
    }
}

/// A load of single requests on any free connection.
fn requests(options: &RunOptions) -> Shape {
    let pipeline = options.load.requests_at_once().unwrap_or(1) as usize;
    let (arrivals, extent, connections) = match workers(options) {
        Some(workers) => {
            let (think, stagger) = (options.think.unwrap_or_default(), options.stagger.unwrap_or_default());
            let connections = workers.div_ceil(pipeline);
            (LoopPlan::Closed { workers, think, stagger }, extent(options, None), connections)
        }
        None => {
            let default = RATE_DEFAULT.parse().expect("a rate");
            let rate = options.rate.as_ref().unwrap_or(&default);
            let extent = extent(options, Some(rate));
            (open_loop(options, rate, extent), extent, connections_for(rate.highest()))
        }
    };
    Shape { arrivals, user: None, extent, connections, opening_rate: None, hold: None, pipeline: 1 }
}

/// The workers of a closed loop. Connections alone are one, as in wrk, ab, oha and hey: each
/// carries as many requests at once as it may.
fn workers(options: &RunOptions) -> Option<usize> {
    let has_rate = options.rate.is_some() || options.conn_rate.is_some();
    let is_of_others = has_rate || options.hold.is_some() || options.session.is_some();
    let at_once = options.load.requests_at_once().unwrap_or(1) as usize;
    let of_connections = || options.load.connections.filter(|_| !is_of_others);
    options.workers.or_else(|| of_connections().map(|connections| connections.saturating_mul(at_once)))
}

fn extent(options: &RunOptions, rate: Option<&RateText>) -> Extent {
    match options.requests.or(options.conns) {
        Some(total) => Extent::Requests(total),
        None => {
            let steps = rate.and_then(RateText::length);
            Extent::Duration(options.duration.or(steps).unwrap_or(DURATION_DEFAULT))
        }
    }
}

fn open_loop(options: &RunOptions, rate: &RateText, extent: Extent) -> LoopPlan {
    // A number of requests has no length that steps could share, unless it is given by the steps.
    let length = if let Extent::Duration(length) = extent { length } else { DURATION_DEFAULT };
    LoopPlan::Open { rate: Arc::new(rate.over(length)), spacing: options.request.arrivals.into() }
}

/// The connections for an open loop: enough for a response time of 50 ms.
fn connections_for(rate: f64) -> usize {
    const CONNECTIONS_MIN: usize = 16;
    ((rate * 0.05) as usize).clamp(CONNECTIONS_MIN, CONNECTIONS_DEFAULT)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use thalweg_measure::LoopKind;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        run: RunOptions,
    }

    fn shaped(options: &[&str]) -> Result<Shape, Failure> {
        let arguments = Arguments::try_parse_from([&["run", "http://h/"], options].concat());
        shape(&arguments.unwrap_or_else(|error| panic!("{error}")).run, None)
    }

    #[test]
    fn connections_without_a_rate_are_a_closed_loop() {
        let check = |options: &[&str], kind: LoopKind, workers: Option<usize>, connections: usize, extent: Extent| {
            let shape = shaped(options).unwrap_or_else(|failure| panic!("{options:?}: {failure}"));
            let found = if let LoopPlan::Closed { workers, .. } = shape.arrivals { Some(workers) } else { None };
            assert_eq!((shape.arrivals.kind(), found, shape.connections), (kind, workers, connections), "{options:?}");
            assert_eq!(shape.extent, extent, "{options:?}");
        };
        let seconds = |seconds| Extent::Duration(Duration::from_secs(seconds));
        check(&["-c", "64", "-d", "30"], LoopKind::Closed, Some(64), 64, seconds(30));
        check(&["-c", "64", "-n", "1000"], LoopKind::Closed, Some(64), 64, Extent::Requests(1000));
        check(&["-c", "4", "--pipeline", "8"], LoopKind::Closed, Some(32), 4, seconds(10));
        check(&["-c", "4", "--http", "2", "--streams", "10"], LoopKind::Closed, Some(40), 4, seconds(10));
        check(&["-c", "4", "--workers", "2"], LoopKind::Closed, Some(2), 2, seconds(10));
        check(&["-c", "4", "-r", "500"], LoopKind::Open, None, 25, seconds(10));
        check(&["-c", "4", "-R", "500"], LoopKind::Open, None, 25, seconds(10));
        check(&["-c", "4", "--conn-rate", "5"], LoopKind::Open, None, VISITS_DEFAULT, seconds(10));
        check(&["-n", "7"], LoopKind::Open, None, 16, Extent::Requests(7));
        check(&["-z", "1m"], LoopKind::Open, None, 16, seconds(60));
        assert!(shaped(&["-c", "4", "--think", "1", "--stagger", "1"]).is_ok());
        assert!(shaped(&["-r", "4", "--think", "1"]).is_err());
    }
}
