//! The plan that the load options describe. All of their faults are found here, before a socket
//! opens.

use std::collections::BTreeMap;

use clap::ValueEnum;
use thalweg_doctor::needs::{Sources, Threads};
use thalweg_lab::target::Target;
use thalweg_load::{
    CONFORMING_BITS_PER_S, LoopPlan, Pace, Pick, Plan, ProxyHeaderPlan, RETRIES, Reuse, Spacing, UserPlan,
};
use thalweg_measure::{Limit, LoopKind};
use thalweg_sys::affinity::allowed_cpus;
use thalweg_sys::{AnyDriver, DriverChoice, PeerAddr};

use crate::arrivals::Shape;
use crate::client_tls;
use crate::curl;
use crate::exit::Failure;
use crate::options::{AddressesOption, ArrivalsOption, CpuList, HttpVersion, LoadOptions, RequestOptions};
use crate::reach;
use crate::requests::{self, CheckedRequests};
use crate::standard_input;

/// The plan of a load at one level. `list` has the requests that `request` describes, with the
/// check of responses to those that have none of their own.
///
/// # Errors
/// An option is wrong, or this host cannot provide a resource.
pub(crate) fn plan(
    options: &LoadOptions,
    request: &RequestOptions,
    target: &Target,
    shape: Shape,
    (list, check): CheckedRequests,
) -> Result<Plan, Failure> {
    ensure_driver(options.driver.into())?;
    ensure_consistent(options, request, &shape)?;
    let listed = cpus(options.cores.as_ref(), target.is_local())?;
    // Each CPU has at least one connection of its own.
    let connections = options.connections.unwrap_or(shape.connections).max(listed.len());
    let Threads { cpus, own_tables } = reach::threads(connections, &listed)?;
    let Sources { addresses, ports } = reach::sources(connections, target, options.from.concat())?;
    let tls = client_tls::plan(&options.tls, target, requests::version(options))?;
    let paced = options.throttle.is_some() || options.rtt.is_some();
    let peers = match options.addresses {
        AddressesOption::All if target.addresses.len() > 1 => {
            target.addresses.iter().copied().map(PeerAddr::from).collect()
        }
        AddressesOption::All | AddressesOption::First => Vec::new(),
    };
    let proxy_header = options
        .proxy_protocol
        .map(|version| ProxyHeaderPlan { version: version.into(), source: reach::own_address(target) });
    let port = target.url.port_or_known_default().unwrap_or(80);
    let proxy = options.proxy.as_ref().map(|proxy| proxy.plan(&target.server_name(), port)).transpose();
    let proxy = proxy.map_err(|error| Failure::usage(format!("--proxy: {error}")))?;
    reach::remark_on_environment(target, proxy.is_some());
    Ok(Plan {
        peers,
        proxy,
        proxy_header,
        tls,
        sources: addresses,
        ports,
        pick: request.pick,
        // Users count their calls themselves.
        calls: request.calls.filter(|_| shape.user.is_none()),
        user: shape.user,
        timeout: options.timeout(),
        drain: options.timeout(),
        connections,
        opening_rate: shape.opening_rate,
        hold: shape.hold,
        pipeline: options.requests_at_once().unwrap_or(shape.pipeline),
        retries: options.retry_refused.unwrap_or(RETRIES),
        retries_idle: options.retry_idle.unwrap_or(0),
        redirects_max: options.follow.unwrap_or(0),
        reuse: options.reuse.into(),
        pace: paced.then(|| Pace::new(options.throttle, options.rtt.unwrap_or_default())),
        check,
        is_lenient: options.lenient,
        conforming_bits_per_s: options
            .limits
            .iter()
            .filter_map(Limit::bits_per_connection_min)
            .max()
            .unwrap_or(CONFORMING_BITS_PER_S),
        cpus,
        own_tables,
        driver: options.driver.into(),
        seed: request.seed,
        ..Plan::new(target.address.clone(), list, shape.arrivals, shape.extent)
    })
}

/// Refuses options that contradict one another or the shape of the load, for all commands that make
/// a load.
fn ensure_consistent(options: &LoadOptions, request: &RequestOptions, shape: &Shape) -> Result<(), Failure> {
    if options.timeout().is_zero() {
        return Err(Failure::usage("--timeout 0s would end every request before it is sent; the minimum is 1us"));
    }
    if request.arrivals == ArrivalsOption::Poisson && shape.arrivals.kind() == LoopKind::Closed {
        return Err(Failure::usage(
            "--arrivals poisson needs a rate: with --workers, --hold, or --connections alone the responses determine the \
             times of requests",
        ));
    }
    // clap does not refuse this combination if --session excludes --urls.
    if request.pick != Pick::Sequential && request.urls.is_none() {
        return Err(Failure::usage("--pick needs --urls"));
    }
    let of_sessions = matches!(shape.user, Some(UserPlan::Sessions { .. }));
    let multiplexes = options.http == HttpVersion::Http2;
    if options.streams.is_some() && !multiplexes {
        return Err(Failure::usage("--streams needs --http 2; HTTP/1.1 has --pipeline"));
    }
    if options.pipeline.is_some() && multiplexes {
        return Err(Failure::usage("--pipeline is for HTTP/1.1; with --http 2 use --streams"));
    }
    ensure_retries(options, shape)?;
    ensure_followed(options, shape)?;
    let idle = if options.requests_at_once().is_none_or(|requests| requests == 1) {
        None
    } else if options.http == HttpVersion::Http10 {
        Some("with --http 1.0, which has no pipelining")
    } else if shape.hold.is_some() {
        Some("with --hold, because each connection waits for its response before the next request")
    } else if matches!(shape.user, Some(UserPlan::Calls(_))) {
        Some(
            "with --conn-rate and --calls, because each call waits for the previous response (use --session for \
            bursts)",
        )
    } else if request.calls == Some(1) && !of_sessions {
        Some("with --calls 1, because each connection carries one request")
    } else {
        None
    };
    let option = if multiplexes { "--streams" } else { "--pipeline" };
    idle.map_or(Ok(()), |reason| Err(Failure::usage(format!("{option} has no effect {reason}"))))
}

/// Refuses `--retry-refused` and `--retry-idle` where no request could be sent again.
fn ensure_retries(options: &LoadOptions, shape: &Shape) -> Result<(), Failure> {
    if options.retry_idle.is_some_and(|times| times > 0) {
        let reason = match (options.http, &shape.user) {
            (HttpVersion::Http2, _) => "is for HTTP/1.1; with --http 2 use --retry-refused",
            (_, Some(_)) => "has no effect with --session and --conn-rate, whose calls end with their connection",
            (_, None) => "",
        };
        if !reason.is_empty() {
            return Err(Failure::usage(format!("--retry-idle {reason}")));
        }
    }
    if options.retry_refused.is_none_or(|times| times == 0) {
        return Ok(());
    }
    let reason = if options.http != HttpVersion::Http2 {
        "needs --http 2: HTTP/1.1 servers cannot say that they have not processed a request (RFC 9110, 9.2.2)"
    } else if shape.user.is_some() {
        "has no effect with --session and --conn-rate, whose calls end with their connection"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("--retry-refused {reason}")))
}

/// Refuses `--follow` where calls build on one another: a redirect in between would shift all that
/// come after it.
fn ensure_followed(options: &LoadOptions, shape: &Shape) -> Result<(), Failure> {
    let of = match &shape.user {
        Some(UserPlan::Sessions { .. }) => {
            "--session, whose calls wait for one another: put the URLs that the \
                                            redirects lead to into the session file"
        }
        Some(UserPlan::Calls(_)) => {
            "connections that make a number of calls (--conn-rate; --calls of a sweep): use the \
                                     URL that the redirect leads to"
        }
        None => return Ok(()),
    };
    if options.follow.is_some() { Err(Failure::usage(format!("--follow cannot be used with {of}"))) } else { Ok(()) }
}

/// The settings in the document, by the names of their options.
pub(crate) fn settings(
    options: &LoadOptions,
    request: &RequestOptions,
    target: &Target,
    plan: &Plan,
) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| {
        settings.insert(name.to_owned(), value);
    };
    set("connections", plan.connections.to_string());
    set("timeout", format!("{:?}", plan.timeout));
    if !has_own_methods(plan) {
        set("method", request.method().to_owned());
    }
    set("http", options.http.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()));
    set("cores", plan.cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    set("driver", options.driver.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()));
    let calls = if let Some(UserPlan::Calls(calls)) = plan.user { Some(calls) } else { plan.calls };
    if let Some(calls) = calls {
        set("calls", calls.to_string());
    }
    if plan.pipeline > 1 {
        set(if options.http == HttpVersion::Http2 { "streams" } else { "pipeline" }, plan.pipeline.to_string());
    }
    if let LoopPlan::Open { spacing: Spacing::Poisson, .. } = plan.arrivals {
        set("arrivals", "poisson".to_owned());
    }
    set_for_connections(options, plan, &mut set);
    if let Some(bits) = options.throttle {
        set("throttle", format!("{bits}bit"));
    }
    if let Some(delay) = options.rtt {
        set("rtt", format!("{delay:?}"));
    }
    if let (Some(first), Some(last)) = (plan.sources.first(), plan.sources.last()) {
        set("from", format!("{first}-{last} ({} addresses)", plan.sources.len()));
    }
    if plan.own_tables {
        set("threads", format!("{}, each with a file table of its own", plan.cpus.len()));
    }
    if let Some(urls) = &request.urls {
        set("urls", format!("{} ({} URLs)", standard_input::shown(urls), plan.requests.len()));
    }
    if let Some(line) = &request.curl {
        set("curl", curl::shown(line));
    }
    if target.credentials.is_some() {
        set("credentials", "from the URL, not shown".to_owned());
    }
    if let Some(check) = &options.check {
        set("check", check.clone());
    }
    for (name, value) in options.tls.given() {
        set(name, value);
    }
    for (name, value) in &options.headers {
        let shown = if requests::is_secret(name) { "not shown".to_owned() } else { value.clone() };
        set(&format!("header {name}"), shown);
    }
    settings
}

/// Whether each request has a method of its own, as those of sessions and logs do.
fn has_own_methods(plan: &Plan) -> bool {
    matches!(plan.user, Some(UserPlan::Sessions { .. })) || matches!(plan.arrivals, LoopPlan::Recorded { .. })
}

/// The settings of connections among them.
fn set_for_connections(options: &LoadOptions, plan: &Plan, set: &mut impl FnMut(&str, String)) {
    if options.http == HttpVersion::Http2 && plan.user.is_none() {
        set("retry-refused", plan.retries.to_string());
    }
    if plan.retries_idle > 0 {
        set("retry-idle", plan.retries_idle.to_string());
    }
    if plan.redirects_max > 0 {
        set("follow", plan.redirects_max.to_string());
    }
    if let Some(proxy) = &options.proxy {
        set("proxy", proxy.shown());
    }
    if let Some(version) = options.proxy_protocol.and_then(|version| version.to_possible_value()) {
        set("proxy-protocol", version.get_name().to_owned());
    }
    if !plan.peers.is_empty() {
        set("addresses", "all".to_owned());
    }
    if plan.is_lenient {
        set("lenient", "yes".to_owned());
    }
    if plan.reuse == Reuse::Latest {
        set("reuse", "latest".to_owned());
    }
}

/// The CPUs to load from. A target on this host needs some for itself.
///
/// # Errors
/// A listed CPU is not available.
pub(crate) fn cpus(listed: Option<&CpuList>, shared_host: bool) -> Result<Vec<usize>, Failure> {
    let allowed =
        allowed_cpus().map_err(|error| Failure::unreachable(format!("cannot determine this host's CPUs: {error}")))?;
    let Some(CpuList(listed)) = listed else {
        let own = if shared_host { allowed.len().div_ceil(2).min(allowed.len()) } else { allowed.len() };
        return Ok(allowed[allowed.len() - own..].to_vec());
    };
    match listed.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            Err(Failure::usage(format!("--cores: CPU {cpu} is not available to this process; it may use {allowed:?}")))
        }
        None => Ok(listed.clone()),
    }
}

/// Checks that the kernel grants a ring that was requested by name.
///
/// # Errors
/// The kernel refuses the ring.
pub(crate) fn ensure_driver(driver: DriverChoice) -> Result<(), Failure> {
    let refusal = (driver == DriverChoice::Uring).then(AnyDriver::refusal).flatten();
    refusal.map_or(Ok(()), |error| {
        Err(Failure::unreachable(format!(
            "--driver uring: this host does not allow io_uring ({error}), perhaps because of a container profile or \
             kernel.io_uring_disabled; use --driver epoll or --driver auto"
        )))
    })
}
