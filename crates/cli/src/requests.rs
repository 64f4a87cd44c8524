//! The requests of a load: one URL, a list of URLs, or the calls of sessions, each prepared and
//! with the check of its response. Files may be standard input.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use thalweg_lab::credentials::{has_userinfo, shown};
use thalweg_lab::target::{Target, path_of};
use thalweg_load::{
    CallText, Check, CheckTable, ListEntry, PackError, PackedRequests, Pick, ReadError, RequestError, RequestList,
    RequestParts, Sessions, load_sessions, read_list,
};
use thalweg_wire::Version;
use url::Url;

use crate::exit::Failure;
use crate::options::{Body, HttpVersion, LoadOptions, RequestOptions};
use crate::standard_input;

mod framing;

/// The requests of a run, and the check of responses to those that have none of their own.
pub(crate) type CheckedRequests = (RequestList, Check);

/// The requests of the URL, or of the list.
///
/// # Errors
/// A file cannot be read, or a file or an option is wrong.
pub(crate) fn of(options: &LoadOptions, request: &RequestOptions, target: &Target) -> Result<CheckedRequests, Failure> {
    let body_file =
        request.body.as_ref().and_then(|body| if let Body::File(file) = body { Some(&**file) } else { None });
    let readers = [("--urls", request.urls.as_deref()), ("--body", body_file), ("--check", check_file(options))];
    standard_input::ensure_one_reader(&readers)?;
    let (check, mut table) = checks(options, target)?;
    let body = body(request)?;
    let fields = fields(options, target, Some(body.len()))?;
    let mut requests = PackedRequests::new(&target.authority, version(options), &fields, &body);
    let mut weights = Vec::new();
    let mut push = |path: &str, own: Option<&Check>| {
        let parts = RequestParts { method: request.method(), target: path, fields: &[], body: b"" };
        requests.push(&parts, own, table.as_mut()).map(drop).map_err(|error| explain(error, options, request, path))
    };
    match &request.urls {
        None => push(&target.path, None).map_err(Failure::usage)?,
        Some(file) => {
            let (name, source) = open("URL list", file)?;
            let on_entry = |entry: ListEntry| {
                if request.pick == Pick::Weighted {
                    weights.push(entry.weight.ok_or_else(|| entry.error(&name, NO_WEIGHT))?);
                }
                push(&entry.target, entry.check.as_ref()).map_err(|what| entry.error(&name, what))
            };
            read_list(&name, source, |url| path_on(url, target), on_entry)
                .map_err(|error| unreadable("URL list", &name, error))?;
        }
    }
    all_asked(table.as_ref())?;
    let requests = RequestList::from(requests.finish(table));
    match request.pick {
        Pick::Weighted => Ok((requests.weighted(weights).map_err(Failure::usage)?, check)),
        Pick::Sequential | Pick::Random | Pick::Zipf(_) => Ok((requests, check)),
    }
}

const NO_WEIGHT: &str = "the target has no weight, which --pick weighted needs; put a number behind it";

/// The sessions of a file and their requests. Paths of bodies are relative to that file.
///
/// # Errors
/// As for [`of`].
pub(crate) fn of_sessions(
    file: &Path,
    options: &LoadOptions,
    target: &Target,
) -> Result<(Sessions, CheckedRequests), Failure> {
    standard_input::ensure_one_reader(&[("--session", Some(file)), ("--check", check_file(options))])?;
    let (check, mut table) = checks(options, target)?;
    let (name, source) = open("session file", file)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let read_body = |body: &Path| {
        let path = folder.join(body);
        fs::read(&path).map_err(|error| format!("cannot read the body {}: {error}", path.display()))
    };
    let common = fields(options, target, None)?;
    let mut requests = PackedRequests::new(&target.authority, version(options), &common, b"");
    let request_of = |call: &CallText<'_>| {
        let (method, target, fields, body) = (&*call.method, &*call.target, &*call.fields, &*call.body);
        if !fields.is_empty() {
            framing::ensure_agrees(&[&common, fields].concat(), Some(body.len()))?;
        }
        let request = RequestParts { method, target, fields, body };
        requests.intern(&request, table.as_mut()).map_err(|error| error.to_string())
    };
    let sessions = load_sessions(&name, source, read_body, request_of)
        .map_err(|error| unreadable("session file", &name, error))?;
    all_asked(table.as_ref())?;
    Ok((sessions, (requests.finish(table).into(), check)))
}

const AUTHORIZATION: &str = "Authorization";

/// The fields of all requests: those of `--header`, and the credentials of the URL. `body_bytes` is
/// the length of the body, if all requests have the same.
///
/// # Errors
/// Both give credentials, a field has no place in HTTP/2, or one contradicts the framing.
pub(crate) fn fields(
    options: &LoadOptions,
    target: &Target,
    body_bytes: Option<usize>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut fields = options.headers.clone();
    framing::ensure_agrees(&fields, body_bytes).map_err(|what| Failure::usage(format!("--header {what}")))?;
    if options.http == HttpVersion::Http2
        && let Some((name, _)) = fields.iter().find(|(name, _)| is_of_connection(name))
    {
        return Err(Failure::usage(format!("--header {name}: HTTP/2 has no fields of the connection; remove it")));
    }
    if let Some(credentials) = &target.credentials {
        if fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION)) {
            return Err(Failure::usage(format!(
                "{}: both the URL and --header Authorization give credentials; remove one of them",
                target.shown
            )));
        }
        fields.push((AUTHORIZATION.to_owned(), credentials.field_value().to_owned()));
    }
    Ok(fields)
}

/// Whether a field carries a secret, which no result shows.
pub(crate) fn is_secret(name: &str) -> bool {
    let names = [AUTHORIZATION, "Cookie", "Proxy-Authorization"];
    names.iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// Whether a field speaks of the connection, which has no place in HTTP/2 (RFC 9113, 8.2.2).
fn is_of_connection(name: &str) -> bool {
    let names = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    names.iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// The check of `--check`: for all requests, or for each target.
///
/// # Errors
/// As for [`of`].
pub(crate) fn checks(options: &LoadOptions, target: &Target) -> Result<(Check, Option<CheckTable>), Failure> {
    let Some(text) = &options.check else { return Ok((Check::default(), None)) };
    let Some(file) = text.strip_prefix('@') else {
        let check = Check::parse(text).map_err(|error| Failure::usage(format!("--check {text:?}, {error}")))?;
        return Ok((check, None));
    };
    let (name, source) = open("check file", Path::new(file))?;
    let table = CheckTable::read(&name, source, |url| path_on(url, target));
    Ok((Check::default(), Some(table.map_err(|error| unreadable("check file", &name, error))?)))
}

/// The file of `--check`, if it has one.
pub(crate) fn check_file(options: &LoadOptions) -> Option<&Path> {
    options.check.as_ref()?.strip_prefix('@').map(Path::new)
}

/// Refuses checks of targets that are never requested.
fn all_asked(table: Option<&CheckTable>) -> Result<(), Failure> {
    table.map_or(Ok(()), CheckTable::ensure_all_asked).map_err(Failure::usage)
}

/// A file's name, for messages, and the file.
fn open(what: &str, file: &Path) -> Result<(String, BufReader<File>), Failure> {
    let name = standard_input::shown(file);
    let path = standard_input::readable(what, file)?;
    let opened = File::open(path).map_err(|error| unreadable(what, &name, error.into()))?;
    Ok((name, BufReader::new(opened)))
}

/// The failure for a file that cannot be read or is wrong.
pub(crate) fn unreadable(what: &str, name: &str, error: ReadError) -> Failure {
    match error {
        ReadError::Input(error) => Failure::usage(error),
        ReadError::Io(error) => Failure::usage(format!("cannot read the {what} {name}: {error}")),
    }
}

fn body(request: &RequestOptions) -> Result<Vec<u8>, Failure> {
    match &request.body {
        None => Ok(Vec::new()),
        Some(Body::Bytes(bytes)) => Ok(bytes.clone()),
        Some(Body::File(file)) => {
            let path = standard_input::readable("body", file)?;
            fs::read(path).map_err(|error| {
                Failure::usage(format!("cannot read the body {}: {error}", standard_input::shown(file)))
            })
        }
    }
}

/// The HTTP version of the requests.
pub(crate) fn version(options: &LoadOptions) -> Version {
    match options.http {
        HttpVersion::Http10 => Version::Http10,
        HttpVersion::Http11 => Version::Http11,
        HttpVersion::Http2 => Version::Http2,
    }
}

/// The message for a request that cannot be made, with the option at fault.
fn explain(error: PackError, options: &LoadOptions, request: &RequestOptions, path: &str) -> String {
    let PackError::Request(error) = error else { return error.to_string() };
    let given = match error {
        RequestError::Method => format!("--method {:?}", request.method()),
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
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a path or a URL ({error})"))?;
    if has_userinfo(&url) {
        return Err(format!("{} contains credentials; put them into the target's URL", shown(text)));
    }
    let same = url.scheme() == target.url.scheme()
        && url.host() == target.url.host()
        && url.port_or_known_default() == target.url.port_or_known_default();
    if same { Ok(path_of(&url)) } else { Err(format!("{text} is not on the target's host {}", target.authority)) }
}
