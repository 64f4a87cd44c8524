//! From options to a checked plan. Everything that can be wrong with them is said here, before a socket opens.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use thalweg_lab::target::{Target, path_of};
use thalweg_load::{Check, LoopPlan, Pace, Pick, Plan, PreparedRequest, RequestError, RequestText, Reuse, Spacing, Visit, prepare};
use thalweg_measure::units::parse_size;
use thalweg_sys::AnyDriver;
use thalweg_sys::affinity::allowed_cpus;
use thalweg_wire::Version;
use url::Url;

use crate::arrivals::Shape;
use crate::exit::Failure;
use crate::options::{CpuList, DriverOption, HttpVersion, LoadOptions, PickOption};
use crate::reach::{self, Sources, Threads};

/// Most connections of an open loop, unless the user says otherwise: enough to keep a server busy at a response time of some
/// milliseconds, few enough for any listen queue.
pub const CONNECTIONS_DEFAULT: usize = 256;

/// Makes the plan for a load at one level. `requests` are those of a session file, if there is one.
///
/// # Errors
/// Something in the options is wrong or cannot be had on this host.
pub fn plan(
    options: &LoadOptions,
    target: &Target,
    shape: Shape,
    session_requests: Option<Arc<[PreparedRequest]>>,
) -> Result<Plan, Failure> {
    ensure_driver(options.driver)?;
    if options.timeout.is_zero() {
        return Err(Failure::usage("--timeout 0s would end every request before it is sent; the shortest is 1us"));
    }
    let listed = cpus(options.cores.as_ref(), target)?;
    // Each CPU has at least one connection of its own.
    let connections = options.connections.unwrap_or(shape.connections).max(listed.len());
    let Threads { cpus, own_tables } = reach::threads(connections, &listed)?;
    let Sources { addresses, ports } = reach::sources(connections, target, options.from.concat())?;
    let requests = session_requests.map_or_else(|| requests(options, target), Ok)?;
    let paced = options.throttle.is_some() || options.rtt.is_some();
    Ok(Plan {
        sources: addresses,
        ports,
        pick: match options.pick {
            PickOption::Sequential => Pick::Sequential,
            PickOption::Random => Pick::Random,
        },
        // Visits count their calls themselves.
        calls: options.calls.filter(|_| shape.visit.is_none()),
        visit: shape.visit,
        timeout: options.timeout,
        drain: options.timeout,
        connections,
        opening_rate: shape.opening_rate,
        pipeline: options.pipeline.unwrap_or(shape.pipeline),
        reuse: options.reuse.into(),
        pace: paced.then(|| Pace::new(options.throttle, options.rtt.unwrap_or_default())),
        check: options.check.as_deref().map_or(Ok(Check::default()), check)?,
        cpus,
        own_tables,
        driver: options.driver.into(),
        seed: options.seed,
        ..Plan::new(target.address.clone(), requests, shape.arrivals, shape.extent)
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
    let calls = if let Some(Visit::Calls(calls)) = plan.visit { Some(calls) } else { plan.calls };
    if let Some(calls) = calls {
        set("calls", calls.to_string());
    }
    if plan.pipeline > 1 {
        set("pipeline", plan.pipeline.to_string());
    }
    if let LoopPlan::Open { spacing: Spacing::Poisson, .. } = plan.arrivals {
        set("arrivals", "poisson".to_owned());
    }
    if plan.reuse == Reuse::Latest {
        set("reuse", "latest".to_owned());
    }
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
        let version = version(options);
        let (method, authority) = (options.method.as_str(), target.authority.as_str());
        prepare(&RequestText { method, authority, target: path, version, fields: &options.headers, body: &body })
            .map_err(|error| explain(error, options, path))
    };
    match &options.urls {
        None => Ok(Arc::new([make(&target.path).map_err(Failure::usage)?])),
        Some(file) => url_list(file, target, make),
    }
}

/// The version to speak.
pub fn version(options: &LoadOptions) -> Version {
    match options.http {
        HttpVersion::Http10 => Version::Http10,
        HttpVersion::Http11 => Version::Http11,
    }
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

/// Reads `status=200,length=512,sha256=HEX`.
fn check(text: &str) -> Result<Check, Failure> {
    let mut check = Check::default();
    for part in text.split(',') {
        let wrong = |what: &str| Failure::usage(format!("--check {part:?}: {what}"));
        let (name, value) =
            part.split_once('=').ok_or_else(|| wrong("write it like status=200,length=512,sha256=HEX"))?;
        match name.trim() {
            "status" => {
                let status = value.parse().ok().filter(|status| (100..1000).contains(status));
                check.status = Some(status.ok_or_else(|| wrong("a status is a number such as 200"))?);
            }
            "length" => check.length = Some(parse_size(value).map_err(|error| wrong(&error.to_string()))?),
            "sha256" => check.sha256 = Some(digest(value).ok_or_else(|| wrong("a SHA-256 has 64 hexadecimal digits"))?),
            _ => return Err(wrong("status, length and sha256 can be checked")),
        }
    }
    Ok(check)
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_read_or_refused_with_a_reason() {
        let whole = check(&format!("status=206,length=14KB,sha256={}", "0f".repeat(32))).unwrap();
        assert_eq!(whole, Check { status: Some(206), length: Some(14_000), sha256: Some([0x0f; 32]) });
        for wrong in ["", "status", "status=20", "status=x", "length=-1", "sha256=12", "md5=1", "status=200,"] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}
