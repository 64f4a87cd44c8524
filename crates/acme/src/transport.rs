//! Requests to the authority, as `instant-acme` makes them, over a blocking HTTP client.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::crypto::aws_lc_rs::default_provider;
use serde::Deserialize;
use thalweg_tls::certificates_of_pem;
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request, Uri, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::problem::{Problem, printable};
use crate::refusal::refusal;

/// The longest wait for a connection, and for a whole exchange.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest body of an answer. A chain of certificates has some kilobytes.
const BODY_MAX: u64 = 1 << 20;

/// The longest wait that an answer may suggest.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The type of error documents (RFC 8555, 6.7).
const PROBLEM_JSON: &str = "application/problem+json";

/// An HTTP client. Clones share their connections and what they note.
#[derive(Clone)]
pub(crate) struct Transport {
    agent: Agent,
    last: Arc<Mutex<Answer>>,
}

/// Facts of the last answer that `instant-acme` does not pass on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// The URL asked for.
    pub(crate) url: String,
    /// When the authority suggests to come back.
    pub(crate) retry_after: Option<SystemTime>,
}

impl Transport {
    /// A client that trusts the authorities of a file in PEM, or those of the system.
    pub(crate) fn new(roots: Option<&Path>) -> Result<Self, Problem> {
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(root_certificates(roots)?)))
            .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            .http_status_as_error(false)
            // A request is signed for one URL.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(EXCHANGE_TIMEOUT))
            .build()
            .new_agent();
        Ok(Self { agent, last: Arc::default() })
    }

    /// Facts of the last answer.
    pub(crate) fn last(&self) -> Answer {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Problem> {
        let url = request.uri().to_string();
        let is_signed = request.method() == Method::POST;
        *self.lock() = Answer { url: url.clone(), retry_after: None };
        let (mut parts, body) = request.into_parts();
        let agent = concat!("thalweg/", env!("CARGO_PKG_VERSION"), " instant-acme");
        parts.headers.insert(header::USER_AGENT, header::HeaderValue::from_static(agent));
        let Ok(body) = pollster::block_on(body.collect());
        let body = body.to_bytes();
        let request = Request::from_parts(parts, ());
        let answer =
            if body.is_empty() { self.agent.run(request) } else { self.agent.run(request.map(|()| body.to_vec())) };
        let (mut parts, body) = answer.map_err(|error| failure(&url, error))?.into_parts();
        let content = body.into_with_config().limit(BODY_MAX).read_to_vec().map_err(|error| failure(&url, error))?;
        bound_retry_after(&mut parts.headers);
        let retry_after = retry_after(&parts.headers, SystemTime::now());
        self.lock().retry_after = retry_after;
        let status = parts.status;
        let is_problem = parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
            kind.to_str().is_ok_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == PROBLEM_JSON))
        });
        if status.is_server_error() && !is_problem {
            let detail = printable(&String::from_utf8_lossy(&content));
            return Err(Problem::Unavailable { url, status: status.as_u16(), detail, retry_after });
        }
        if !status.is_success() && !is_problem {
            return Err(Problem::Malformed { url, error: format!("it has the status {status}") });
        }
        // `instant-acme` expects no errors of requests without a signature.
        if !status.is_success() && !is_signed {
            let document = serde_json::from_slice(&content);
            let document =
                document.map_err(|error| Problem::Malformed { url: url.clone(), error: error.to_string() })?;
            return Err(refusal(&document, "to be asked", &url, retry_after));
        }
        if !is_signed {
            check_directory(&content).map_err(|error| Problem::Malformed { url, error })?;
        }
        Ok(BytesResponse { parts, body: Box::new(Bytes::from(content)) })
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let transport = self.clone();
        Box::pin(async move { transport.exchange(request).map_err(|problem| Error::Other(Box::new(problem))) })
    }
}

/// The authorities that sign the certificate of the directory.
fn root_certificates(file: Option<&Path>) -> Result<Vec<Certificate<'static>>, Problem> {
    let found = match file {
        Some(file) => {
            let refused = |error: String| Problem::Roots { path: file.into(), error };
            let text = std::fs::read(file).map_err(|error| refused(error.to_string()))?;
            certificates_of_pem(&text).map_err(|error| refused(error.to_string()))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    if found.is_empty() {
        return Err(Problem::Settings(
            "this system has no list of trusted authorities: install it (Debian has it in the package \
             ca-certificates)"
                .into(),
        ));
    }
    Ok(found.iter().map(|root| Certificate::from_der(root).to_owned()).collect())
}

/// Makes a number of seconds too large for a clock a large one: `instant-acme` adds it to the time.
fn bound_retry_after(fields: &mut HeaderMap) {
    if let Some(value) = fields.get_mut(header::RETRY_AFTER)
        && let Some(seconds) = value.to_str().ok().and_then(|value| value.trim().parse::<u64>().ok())
    {
        *value = seconds.min(RETRY_AFTER_MAX.as_secs()).into();
    }
}

/// Refuses a directory with a URL that `instant-acme` takes for valid without looking. Other
/// answers pass.
fn check_directory(content: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Directory {
        new_nonce: String,
    }

    match serde_json::from_slice::<Directory>(content) {
        Ok(Directory { new_nonce }) => {
            new_nonce.parse::<Uri>().map(drop).map_err(|error| format!("newNonce is no URL: {error}"))
        }
        Err(_) => Ok(()),
    }
}

/// The time of a Retry-After field (RFC 9110, 10.2.3).
fn retry_after(fields: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    let value = fields.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => now.checked_add(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok(),
    }
}

fn failure(url: &str, error: ureq::Error) -> Problem {
    let url = url.to_owned();
    let is_tls = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    match error {
        ureq::Error::Io(error) if is_tls(&error) => Problem::Tls { url, error: error.to_string() },
        ureq::Error::Tls(error) => Problem::Tls { url, error: error.into() },
        ureq::Error::Rustls(error) => Problem::Tls { url, error: error.to_string() },
        ureq::Error::Io(error) => Problem::Unreachable { url, error: error.to_string() },
        ureq::Error::Timeout(what) => Problem::Unreachable { url, error: format!("no answer in time ({what})") },
        error @ (ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::ConnectProxyFailed(_)) => Problem::Unreachable { url, error: error.to_string() },
        error => Problem::Malformed { url, error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_time_is_a_number_of_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_000);
        let check = |value: &str, expected: Option<u64>| {
            let fields = [(header::RETRY_AFTER, value.parse().expect("it is a value"))].into_iter().collect();
            let expected = expected.map(|seconds| now + Duration::from_secs(seconds));
            assert_eq!(retry_after(&fields, now), expected, "{value}");
        };
        check("120", Some(120));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(777));
        check("soon", None);
        check("-1", None);
        check("18446744073709551616", None);
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn no_answer_suggests_a_time_that_no_clock_has() {
        let mut fields = [(header::RETRY_AFTER, u64::MAX.into())].into_iter().collect();
        bound_retry_after(&mut fields);
        assert_eq!(retry_after(&fields, SystemTime::UNIX_EPOCH), Some(SystemTime::UNIX_EPOCH + RETRY_AFTER_MAX));
    }
}
