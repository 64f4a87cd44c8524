//! From options to a checked plan. Everything that can be wrong with them is said here, before a socket opens.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use thalweg_lab::target::{Target, path_of};
use thalweg_load::{Check, Extent, LoopPlan, Pick, Plan, PreparedRequest, RequestError, RequestText, prepare};
use thalweg_sys::AnyDriver;
use thalweg_sys::affinity::allowed_cpus;
use thalweg_sys::limits::{descriptors, raise_descriptors};
use thalweg_wire::Version;
use url::Url;

use crate::exit::Failure;
use crate::options::{CpuList, DriverOption, HttpVersion, LoadOptions, PickOption};

/// Most connections of an open loop, unless the user says otherwise: enough to keep a server busy at a response time of some
/// milliseconds, few enough for any listen queue.
pub const CONNECTIONS_DEFAULT: usize = 256;

/// Descriptors that a run needs beside its connections: rings, wakers, the report, what the libraries open.
const DESCRIPTORS_BESIDE: u64 = 64;

/// Makes the plan for a load at one level.
///
/// # Errors
/// Something in the options is wrong or cannot be had on this host.
pub fn plan(
    options: &LoadOptions,
    target: &Target,
    arrivals: LoopPlan,
    extent: Extent,
    connections_default: usize,
) -> Result<Plan, Failure> {
    ensure_driver(options.driver)?;
    let cpus = cpus(options.cores.as_ref(), target)?;
    // Each CPU has at least one connection of its own.
    let connections = options.connections.unwrap_or(connections_default).max(cpus.len());
    ensure_descriptors(connections as u64)?;
    let sources = options.from.concat();
    if let Some(source) = sources.iter().find(|source| source.is_ipv4() != target.address.is_ipv4()) {
        let address = target.address.ip();
        return Err(Failure::usage(format!("--from {source}: the target's address {address} is of the other family")));
    }
    if options.timeout.is_zero() {
        return Err(Failure::usage("--timeout 0s would end every request before it is sent; the shortest is 1us"));
    }
    Ok(Plan {
        peer: target.address,
        sources,
        requests: requests(options, target)?,
        pick: match options.pick {
            PickOption::Sequential => Pick::Sequential,
            PickOption::Random => Pick::Random,
        },
        arrivals,
        extent,
        warmup: Duration::ZERO,
        timeout: options.timeout,
        drain: options.timeout,
        connections,
        calls: options.calls,
        check: check(options)?,
        cpus,
        driver: options.driver.into(),
        seed: options.seed,
    })
}

/// The settings that the document discloses, by the names of their options.
pub fn settings(options: &LoadOptions, plan: &Plan) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| settings.insert(name.to_owned(), value);
    set("connections", plan.connections.to_string());
    set("timeout", format!("{:?}", plan.timeout));
    set("method", options.method.clone());
    set("http", options.http.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()));
    set("cores", plan.cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    set("driver", options.driver.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()));
    if let Some(calls) = plan.calls {
        set("calls", calls.to_string());
    }
    if let Some(urls) = &options.urls {
        set("urls", format!("{} ({} URLs)", urls.display(), plan.requests.len()));
    }
    if let Some(check) = &options.check {
        set("check", check.clone());
    }
    for (name, value) in &options.headers {
        set(&format!("header {name}"), value.clone());
    }
    settings
}

/// Finds the CPUs to load from. A target on this host needs some for itself.
fn cpus(listed: Option<&CpuList>, target: &Target) -> Result<Vec<usize>, Failure> {
    let allowed =
        allowed_cpus().map_err(|error| Failure::unreachable(format!("cannot tell this host's CPUs: {error}")))?;
    let Some(CpuList(listed)) = listed else {
        let own = if target.is_local() { allowed.len().div_ceil(2).min(allowed.len()) } else { allowed.len() };
        return Ok(allowed[allowed.len() - own..].to_vec());
    };
    match listed.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            Err(Failure::usage(format!("--cores: there is no CPU {cpu} for this process; it may use {allowed:?}")))
        }
        None => Ok(listed.clone()),
    }
}

/// Finds out whether a ring that was asked for by name can be had.
///
/// # Errors
/// The kernel refuses it.
pub fn ensure_driver(driver: DriverOption) -> Result<(), Failure> {
    let refusal = (driver == DriverOption::Uring).then(AnyDriver::refusal).flatten();
    refusal.map_or(Ok(()), |error| {
        Err(Failure::unreachable(format!(
            "--driver uring: this host refuses io_uring ({error}), as container profiles and kernel.io_uring_disabled do; \
             use --driver epoll, or leave it to --driver auto"
        )))
    })
}

fn ensure_descriptors(connections: u64) -> Result<(), Failure> {
    let wanted = connections + DESCRIPTORS_BESIDE;
    let held = raise_descriptors(wanted).unwrap_or(descriptors().soft);
    if held >= wanted {
        return Ok(());
    }
    Err(Failure::unreachable(format!(
        "{connections} connections need {wanted} file descriptors, and this process may open {held}; \
         ask for fewer with --connections, or raise the hard limit (ulimit -Hn, LimitNOFILE= in a systemd unit)"
    )))
}

fn requests(options: &LoadOptions, target: &Target) -> Result<Arc<[PreparedRequest]>, Failure> {
    let body = match options.body.as_deref() {
        None => Vec::new(),
        Some(text) => match text.strip_prefix('@') {
            None => text.as_bytes().to_vec(),
            Some(file) => {
                fs::read(file).map_err(|error| Failure::usage(format!("cannot read the body {file}: {error}")))?
            }
        },
    };
    let make = |path: &str| {
        let version = match options.http {
            HttpVersion::Http10 => Version::Http10,
            HttpVersion::Http11 => Version::Http11,
        };
        let (method, authority) = (options.method.as_str(), target.authority.as_str());
        prepare(&RequestText { method, authority, target: path, version, fields: &options.headers, body: &body })
            .map_err(|error| explain(error, options, path))
    };
    match &options.urls {
        None => Ok(Arc::new([make(&target.path).map_err(Failure::usage)?])),
        Some(file) => url_list(file, target, make),
    }
}

fn check(options: &LoadOptions) -> Result<Check, Failure> {
    let Some(text) = &options.check else { return Ok(Check::default()) };
    Check::parse(text).map_err(|error| Failure::usage(format!("--check {text:?}, {error}")))
}

/// Names the option that a request cannot be made of.
fn explain(error: RequestError, options: &LoadOptions, path: &str) -> String {
    let given = match error {
        RequestError::Method => format!("--method {:?}", options.method),
        RequestError::FieldName | RequestError::FieldValue => {
            let fields: Vec<String> =
                options.headers.iter().map(|(name, value)| format!("{:?}", format!("{name}: {value}"))).collect();
            format!("--header {}", fields.join(", "))
        }
        RequestError::Target | RequestError::Status => format!("{path:?}"),
    };
    format!("{given}: {error}")
}

/// Reads a list of URLs or paths: one a line; empty lines and lines that begin with `#` are passed over.
fn url_list(
    file: &Path,
    target: &Target,
    make: impl Fn(&str) -> Result<PreparedRequest, String>,
) -> Result<Arc<[PreparedRequest]>, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read the URL list {}: {error}", file.display())))?;
    let mut requests = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: String| Failure::usage(format!("{}:{}: {what}", file.display(), number + 1));
        let path = if line.starts_with('/') { line.to_owned() } else { path_on(line, target).map_err(wrong)? };
        requests.push(make(&path).map_err(wrong)?);
    }
    if requests.is_empty() {
        return Err(Failure::usage(format!("{} holds no URL", file.display())));
    }
    Ok(requests.into())
}

fn path_on(line: &str, target: &Target) -> Result<String, String> {
    let url = Url::parse(line).map_err(|error| format!("{line:?} is neither a path nor a URL ({error})"))?;
    let same = url.scheme() == target.url.scheme()
        && url.host() == target.url.host()
        && url.port_or_known_default() == target.url.port_or_known_default();
    if same { Ok(path_of(&url)) } else { Err(format!("{line} is not on the target's host {}", target.authority)) }
}
