//! A bucket as an origin, for reading: signed requests over the pool of an HTTP origin, answers
//! that explain why they were refused, folders.
//!
//! Requests are signed in their query, so that Range and conditions need not be a part of the
//! signature. If-Range, which S3 servers do not have, becomes If-Match. Several ranges in one
//! request are not supported by S3 servers, which send the whole object: ask for them one by one.

mod clock;
mod pages;
mod problem;
mod xml;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::Method;
use rusty_s3::{Bucket as Address, UrlStyle};
use tokio::time::Instant;
use url::Url;

use crate::admission::Permit;
use crate::config::{OriginConfig, S3Config};
use crate::credentials::{KeyCache, Keys};
use crate::exchange::AttemptFailure;
use crate::failure::{Failure, FailureKind};
use crate::listing::{LISTING_TIME, Listing};
use crate::message::Request;
use crate::network::Connect;
use crate::path;
use crate::refusals::{folder, read_only};
use crate::remote::Remote;
use crate::response::{Answer, Note};
use crate::standing::Standing;

use clock::Clock;
use pages::Page;
use problem::{PROBLEM_BYTES_MAX, Remedy};

/// A bucket and how it is asked.
pub(crate) struct Bucket {
    remote: Remote,
    address: Address,
    prefix: String,
    keys: KeyCache,
    clock: Clock,
    entries_max: usize,
    standing: Arc<Standing>,
}

/// How long a signature is valid. The request is sent at once, but may wait for a connection.
const SIGNATURE_TIME: Duration = Duration::from_secs(900);

/// Bytes of a page of a listing: a thousand keys of a kilobyte, each byte encoded in three.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Entries of a page, unless fewer are asked for.
const PAGE_ENTRIES: usize = 1000;

/// Requests for one answer: as it comes, with the right time, with new keys.
const TRIES: u32 = 3;

impl Bucket {
    pub(crate) fn new(
        config: &OriginConfig,
        s3: &S3Config,
        connector: Option<Box<dyn Connect>>,
        standing: &Arc<Standing>,
    ) -> Result<Self, String> {
        let style = if s3.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let address = Address::new(s3.endpoint.clone(), style, s3.bucket.clone(), s3.region.clone())
            .map_err(|error| format!("the bucket {} has no address: {error}", s3.bucket))?;
        let config = OriginConfig { host: None, fields: Vec::new(), ..config.clone() };
        Ok(Self {
            remote: Remote::new(&config, address.base_url(), connector, standing)?,
            address,
            prefix: s3.prefix.clone(),
            keys: KeyCache::new(s3.credentials.clone()),
            clock: Clock::of_system(),
            entries_max: config.limits.entries_max,
            standing: Arc::clone(standing),
        })
    }

    pub(crate) fn figures(&self) -> (u64, u64) {
        self.remote.figures()
    }

    /// One attempt of a request.
    pub(crate) async fn fetch(
        &self,
        request: &Request,
        permit: Permit,
        is_fresh: bool,
    ) -> Result<Answer, AttemptFailure> {
        if !request.is_repeatable() {
            return Ok(read_only());
        }
        path::check(&request.path).map_err(AttemptFailure::unsent)?;
        let key = path::key(&request.path).map_err(AttemptFailure::unsent)?;
        if key.is_empty() || key.ends_with('/') {
            return Ok(folder());
        }
        let url = self.address.object_url(&format!("{}{key}", self.prefix));
        let (request, is_conditional) = of_bucket(request);
        let mut answer = self.signed(&request, &url, &[], &permit, is_fresh).await?;
        if is_conditional && answer.status == 412 {
            // The object is not that of If-Range: it is sent whole (RFC 9110, 13.1.5). Reading the
            // refusal to its end frees the connection.
            let _ = answer.body.read_all(PROBLEM_BYTES_MAX).await;
            let whole = without(&request, &["range", "if-match"]);
            return self.signed(&whole, &url, &[], &permit, is_fresh).await;
        }
        Ok(answer)
    }

    /// The entries of a folder, at most so many; `None` if there is no such folder. A bucket that
    /// takes longer than a listing may is listed in part.
    pub(crate) async fn list(
        &self,
        path: &str,
        entries_max: usize,
        permit: Permit,
        is_fresh: bool,
    ) -> Result<Option<Listing>, AttemptFailure> {
        path::check(path).map_err(AttemptFailure::unsent)?;
        let mut prefix = self.prefix.clone() + &path::key(path).map_err(AttemptFailure::unsent)?;
        let is_root = prefix == self.prefix;
        if !is_root && !prefix.ends_with('/') {
            prefix.push('/');
        }
        let entries_max = entries_max.min(self.entries_max);
        let (mut entries, mut token, mut is_there) = (Vec::new(), None, is_root);
        let begun = Instant::now();
        loop {
            let page_entries = entries_max.clamp(1, PAGE_ENTRIES);
            let page = self.page(&prefix, (token.as_deref(), page_entries), &permit, is_fresh).await?;
            is_there |= page.is_there;
            entries.extend(page.entries);
            token = page.next;
            if entries.len() >= entries_max || token.is_none() || begun.elapsed() >= LISTING_TIME {
                break;
            }
        }
        let is_complete = token.is_none() && entries.len() <= entries_max;
        entries.truncate(entries_max);
        Ok(is_there.then(|| Listing::new(entries, is_complete)))
    }

    async fn page(
        &self,
        prefix: &str,
        (token, entries): (Option<&str>, usize),
        permit: &Permit,
        is_fresh: bool,
    ) -> Result<Page, AttemptFailure> {
        let keys_max = entries.to_string();
        // Sorted by name, as the signature wants it.
        let mut query = vec![("delimiter", "/"), ("encoding-type", "url"), ("list-type", "2"), ("prefix", prefix)];
        if entries < PAGE_ENTRIES {
            query.insert(3, ("max-keys", &keys_max));
        }
        if let Some(token) = token {
            query.insert(0, ("continuation-token", token));
        }
        let request = Request::new(Method::GET, "/");
        let mut answer = self.signed(&request, self.address.base_url(), &query, permit, is_fresh).await?;
        let address = answer.address;
        let failed = |kind, text: String| AttemptFailure {
            is_unsent: false,
            address,
            ..AttemptFailure::unsent(Failure::new(kind, text))
        };
        if answer.status != 200 {
            let reason = match &answer.note {
                Some(Note::S3(problem)) => problem.to_string(),
                _ => "no reason is given".into(),
            };
            let kind = if answer.status >= 500 { FailureKind::Status } else { FailureKind::NotListed };
            return Err(failed(kind, format!("the listing was answered with {}: {reason}", answer.status)));
        }
        let read = answer
            .body
            .read_all(PAGE_BYTES_MAX)
            .await
            .map_err(|error| failed(error.failure.kind, error.to_string()))?;
        let malformed = |error: &str| failed(FailureKind::Protocol, format!("the listing is not valid: {error}"));
        let bytes = read.ok_or_else(|| malformed("it is too long"))?;
        pages::read(&bytes, prefix, token).map_err(|error| malformed(&error))
    }

    /// Sends a request to a URL of the bucket, signed as often as it takes to have the time and the
    /// keys right.
    async fn signed(
        &self,
        request: &Request,
        url: &Url,
        query: &[(&str, &str)],
        permit: &Permit,
        is_fresh: bool,
    ) -> Result<Answer, AttemptFailure> {
        let mut refused: Option<Keys> = None;
        let mut tries_left = TRIES;
        loop {
            tries_left -= 1;
            let keys = self.keys.keys(refused.as_ref()).await;
            let keys = keys.map_err(|error| {
                AttemptFailure::unsent(Failure::new(
                    FailureKind::Credentials,
                    format!("there are no credentials: {error}"),
                ))
            })?;
            let ahead_s = self.standing.clock_ahead_s.load(Ordering::Relaxed);
            let target = self.target(&request.method, url, query, keys.as_ref(), ahead_s);
            let mut answer = self.remote.fetch_target(request, &target, Permit::clone(permit), is_fresh).await?;
            if let Some(ahead_s) = self.clock.ahead_s(&answer.fields) {
                self.standing.clock_ahead_s.store(ahead_s, Ordering::Relaxed);
            }
            if answer.status < 300 || matches!(answer.status, 304 | 412 | 416) {
                return Ok(answer);
            }
            let ahead_now_s = self.standing.clock_ahead_s.load(Ordering::Relaxed);
            let problem = problem::read(&mut answer, ahead_now_s).await;
            let remedy = problem::remedy(&problem, answer.status, ahead_now_s - ahead_s);
            // A missing object is no problem, but some servers answer unknown keys with 404, too.
            let is_missing = answer.status == 404 && matches!(&*problem.code, "" | "NoSuchKey" | "NoSuchVersion");
            answer.note = (!is_missing).then_some(Note::S3(problem));
            let may_help = match (remedy, &keys) {
                _ if tries_left == 0 => false,
                (Remedy::Time, Some(_)) => true,
                (Remedy::Keys, Some(keys)) => {
                    // There is no use in the same keys.
                    let others = self.keys.keys(Some(keys)).await;
                    refused = Some(keys.clone());
                    others.is_ok_and(|others| others.as_ref() != Some(keys))
                }
                _ => false,
            };
            if !may_help {
                return Ok(answer);
            }
        }
    }

    fn target(&self, method: &Method, url: &Url, query: &[(&str, &str)], keys: Option<&Keys>, ahead_s: i64) -> String {
        let url = match keys {
            Some(keys) => rusty_s3::signing::sign(
                &self.clock.timestamp(ahead_s),
                if *method == Method::HEAD { rusty_s3::Method::Head } else { rusty_s3::Method::Get },
                url.clone(),
                &keys.key,
                &keys.secret,
                keys.token.as_deref(),
                self.address.region(),
                SIGNATURE_TIME.as_secs(),
                query.iter().copied(),
                std::iter::empty(),
            ),
            None => pages::with_query(url, query),
        };
        url[url::Position::BeforePath..url::Position::AfterQuery].to_owned()
    }
}

/// The entries of one page of a bucket's listing, an answer to ListObjectsV2 in XML, beneath a
/// prefix. More pages may follow it.
///
/// # Errors
/// The document is no such listing, or could not be followed to its end.
pub fn page_entries(page: &[u8], prefix: &str) -> Result<Listing, String> {
    let page = pages::read(page, prefix, None)?;
    let is_complete = page.next.is_none();
    Ok(Listing::new(page.entries, is_complete))
}

/// The request as an S3 server gets it, without fields that would be taken for other credentials
/// or are none of its business. Whether If-Range became If-Match.
fn of_bucket(request: &Request) -> (Request, bool) {
    let mut ours = without(request, &["authorization", "cookie", "if-range"]);
    ours.fields.retain(|(name, _)| !name.to_ascii_lowercase().starts_with(b"x-amz-"));
    let if_range = request.field("if-range").filter(|_| request.field("range").is_some());
    match if_range {
        // RFC 9110, 13.1.5: a weak tag never matches.
        Some(tag) if tag.starts_with(b"\"") && request.field("if-match").is_none() => {
            ours.fields.push((b"if-match".to_vec(), tag.to_vec()));
            (ours, true)
        }
        Some(_) => (without(&ours, &["range"]), false),
        None => (ours, false),
    }
}

fn without(request: &Request, names: &[&str]) -> Request {
    let mut other = Request { path: request.path.clone(), ..request.clone() };
    other.fields.retain(|(name, _)| !names.iter().any(|left_out| name.eq_ignore_ascii_case(left_out.as_bytes())));
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[(&str, &str)], expected: &[(&str, &str)], is_conditional: bool) {
        let request = fields.iter().fold(Request::get("/a"), |request, (name, value)| request.with(name, value));
        let (ours, conditional) = of_bucket(&request);
        let ours: Vec<_> =
            ours.fields.iter().map(|(n, v)| (str::from_utf8(n).unwrap(), str::from_utf8(v).unwrap())).collect();
        assert_eq!((&*ours, conditional), (expected, is_conditional), "{fields:?}");
    }

    #[test]
    fn a_bucket_gets_fields_that_it_understands() {
        check(&[("Range", "bytes=0-1")], &[("Range", "bytes=0-1")], false);
        check(
            &[("Authorization", "Basic x"), ("Cookie", "a"), ("X-Amz-Acl", "b"), ("Accept", "*/*")],
            &[("Accept", "*/*")],
            false,
        );
        let range = ("Range", "bytes=0-1");
        check(&[range, ("If-Range", "\"1\"")], &[range, ("if-match", "\"1\"")], true);
        check(&[range, ("If-Range", "W/\"1\"")], &[], false);
        check(&[range, ("If-Range", "Sun, 06 Nov 1994 08:49:37 GMT")], &[], false);
        check(&[("If-Range", "\"1\"")], &[], false);
    }
}
