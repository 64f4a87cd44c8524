//! What is asked for: the one URL, a list of them, or the calls of sessions, made ready, each with what makes its answer good.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use thalweg_lab::credentials::{has_userinfo, shown};
use thalweg_lab::target::{Target, path_of};
use thalweg_load::{
    CallText, Check, PreparedRequest, RequestError, RequestText, Sessions, Trace, prepare, prepare_sessions,
    read_checks, read_list, read_sessions,
};
use thalweg_wire::Version;
use url::Url;

use crate::exit::Failure;
use crate::options::{HttpVersion, LoadOptions};

/// The requests of a run, and what makes their answers good where they do not say themselves.
pub type Asked = (Arc<[PreparedRequest]>, Check);

/// The requests of the URL, or of the list.
///
/// # Errors
/// A file cannot be read, or something that is written there or in the options is wrong.
pub fn of(options: &LoadOptions, target: &Target) -> Result<Asked, Failure> {
    let (body, fields) = (body(options)?, fields(options, target)?);
    let make = |path: &str| {
        prepare(&RequestText {
            method: &options.method,
            authority: &target.authority,
            target: path,
            version: version(options),
            fields: &fields,
            body: &body,
        })
    };
    let mut requests = Vec::new();
    match &options.urls {
        None => {
            let made = make(&target.path).map_err(|error| Failure::usage(explain(error, options, &target.path)))?;
            requests.push((target.path.clone(), made));
        }
        Some(file) => {
            let (name, text) = read("URL list", file)?;
            for entry in read_list(&name, &text, |url| path_on(url, target)).map_err(Failure::usage)? {
                let wrong = |error| Failure::usage(entry.error(&name, explain(error, options, &entry.target)));
                let mut made = make(&entry.target).map_err(wrong)?;
                made.check.clone_from(&entry.check);
                requests.push((entry.target, made));
            }
        }
    }
    checked(options, target, requests)
}

/// The sessions of a file and their requests. Bodies that stand in files of their own lie relative to it.
///
/// # Errors
/// As for [`of`].
pub fn of_sessions(file: &Path, options: &LoadOptions, target: &Target) -> Result<(Sessions, Asked), Failure> {
    let (name, text) = read("session file", file)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let read_body = |body: &Path| {
        let path = folder.join(body);
        fs::read(&path).map_err(|error| format!("cannot read the body {}: {error}", path.display()))
    };
    let file = read_sessions(&name, &text, read_body).map_err(Failure::usage)?;
    let mut targets = Vec::new();
    let common = fields(options, target)?;
    let make = |call: &CallText<'_>| {
        // A call that says itself who asks does not ask as the URL's user.
        let own = call.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION));
        let common = common.iter().filter(|(name, _)| !(own && name.eq_ignore_ascii_case(AUTHORIZATION)));
        let fields: Vec<_> = common.chain(&call.fields).cloned().collect();
        let made = prepare(&RequestText {
            method: &call.method,
            authority: &target.authority,
            target: &call.target,
            version: version(options),
            fields: &fields,
            body: &call.body,
        });
        targets.push(call.target.to_string());
        made
    };
    let sessions = prepare_sessions(&file, make).map_err(Failure::usage)?;
    let requests = targets.into_iter().zip(sessions.requests.iter().cloned()).collect();
    Ok((sessions, checked(options, target, requests)?))
}

const AUTHORIZATION: &str = "Authorization";

/// The fields of all requests: those of `--header`, and the credentials of the URL.
///
/// # Errors
/// Both give credentials.
pub fn fields(options: &LoadOptions, target: &Target) -> Result<Vec<(String, String)>, Failure> {
    let mut fields = options.headers.clone();
    if let Some(credentials) = &target.credentials {
        if fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION)) {
            return Err(Failure::usage(format!(
                "{}: both the URL and --header Authorization give credentials; leave one of them out",
                target.shown
            )));
        }
        fields.push((AUTHORIZATION.to_owned(), credentials.field_value().to_owned()));
    }
    Ok(fields)
}

/// The requests of a log.
///
/// # Errors
/// As for [`of`].
pub fn of_trace(trace: &Trace, options: &LoadOptions, target: &Target) -> Result<Asked, Failure> {
    let target_of = |request: &PreparedRequest| {
        let line = request.bytes.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    };
    let requests = trace.requests.iter().map(|request| (target_of(request), request.clone())).collect();
    checked(options, target, requests)
}

/// Gives each request the check that `--check` has for it.
fn checked(options: &LoadOptions, target: &Target, requests: Vec<(String, PreparedRequest)>) -> Result<Asked, Failure> {
    let Some(text) = &options.check else { return Ok((bare(requests), Check::default())) };
    let Some(file) = text.strip_prefix('@') else {
        let check = Check::parse(text).map_err(|error| Failure::usage(format!("--check {text:?}, {error}")))?;
        return Ok((bare(requests), check));
    };
    let (name, text) = read("check file", Path::new(file))?;
    let known: HashSet<&str> = requests.iter().map(|(target, _)| target.as_str()).collect();
    let checks = read_checks(&name, &text, |url| path_on(url, target), |target| known.contains(target));
    let checks: HashMap<String, Check> = checks.map_err(Failure::usage)?.into_iter().collect();
    let mut requests = requests;
    for (target, request) in &mut requests {
        if request.check.is_none() {
            request.check = checks.get(target).cloned();
        }
    }
    Ok((bare(requests), Check::default()))
}

fn bare(requests: Vec<(String, PreparedRequest)>) -> Arc<[PreparedRequest]> {
    requests.into_iter().map(|(_, request)| request).collect()
}

fn body(options: &LoadOptions) -> Result<Vec<u8>, Failure> {
    match options.body.as_deref() {
        None => Ok(Vec::new()),
        Some(text) => match text.strip_prefix('@') {
            None => Ok(text.as_bytes().to_vec()),
            Some(file) => read("body", Path::new(file)).map(|(_, body)| body),
        },
    }
}

/// A file's name, for messages, and its content.
///
/// # Errors
/// It cannot be read.
pub fn read(what: &str, file: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = file.display().to_string();
    let text = fs::read(file).map_err(|error| Failure::usage(format!("cannot read the {what} {name}: {error}")))?;
    Ok((name, text))
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

/// The target that a URL on the target's host stands for.
fn path_on(text: &str, target: &Target) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("{text:?} is neither a path nor a URL ({error})"))?;
    if has_userinfo(&url) {
        return Err(format!("{} gives credentials of its own; give them with the target's URL", shown(text)));
    }
    let same = url.scheme() == target.url.scheme()
        && url.host() == target.url.host()
        && url.port_or_known_default() == target.url.port_or_known_default();
    if same { Ok(path_of(&url)) } else { Err(format!("{text} is not on the target's host {}", target.authority)) }
}
