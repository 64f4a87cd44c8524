//! Several origins with the same content: which one is asked, and what happens when it fails.

use std::fmt;
use std::sync::Arc;

use crate::config::{ConfigError, GroupConfig, OriginConfig};
use crate::exchange::AttemptFailure;
use crate::failure::{Attempt, Failure, FailureKind, FetchError};
use crate::listing::Listing;
use crate::message::{AttemptPolicy, Request};
use crate::network::Connect;
use crate::origin::Origin;
use crate::response::{Answer, Response, is_failure};
use crate::retry::{Step, step};
use crate::selection::Selector;
use crate::standing::OriginStatistics;

/// Origins with the same content. All calls belong to a tokio runtime with I/O and time.
pub struct OriginGroup {
    origins: Vec<Origin>,
    selector: Selector,
}

/// Attempts of a listing, in all.
const LISTING_ATTEMPTS: u32 = 4;

/// An origin's settings with the connector of a test.
type Source = (OriginConfig, Option<Box<dyn Connect>>);

impl OriginGroup {
    /// A group of origins, in their order. Nothing is connected yet; the roots of trees are opened.
    ///
    /// # Errors
    /// There is none, two have one name, or one cannot be as its settings say.
    pub fn new(origins: Vec<OriginConfig>, config: GroupConfig) -> Result<Self, ConfigError> {
        Self::of_sources(origins.into_iter().map(|origin| (origin, None)).collect(), config)
    }

    pub(crate) fn of_sources(sources: Vec<Source>, config: GroupConfig) -> Result<Self, ConfigError> {
        let refuse = |name: &str, reason: &str| Err(ConfigError { name: name.into(), reason: reason.into() });
        if sources.is_empty() {
            return refuse("", "a group needs at least one origin");
        }
        for (index, (origin, _)) in sources.iter().enumerate() {
            if origin.weight == 0 {
                return refuse(&origin.name, "its weight is 0; leave it out instead");
            }
            if sources[..index].iter().any(|(other, _)| other.name == origin.name) {
                return refuse(&origin.name, "another origin of the group has this name");
            }
        }
        let mut health = config.health;
        if sources.len() == 1 {
            // To skip the only origin would make a failure last longer than it does.
            health.failures_max = 0;
        }
        let weights = sources.iter().map(|(origin, _)| (origin.name.as_str(), origin.weight));
        let selector = Selector::new(config.order, weights);
        let origins = sources.into_iter().map(|(origin, connector)| Origin::new(&origin, health, connector));
        Ok(Self { origins: origins.collect::<Result<_, _>>()?, selector })
    }

    /// Fetches the response to a request. Its body arrives while it is read.
    ///
    /// GET and HEAD are tried again after a failure before the head of a response has arrived: at
    /// the next origin, or once more at the same one if the connection was closed. A status of 500,
    /// 502, 503 or 504 is a failure as long as there is another origin. Other methods are sent once
    /// at most. While all of several origins are down, the fetch fails at once; the only origin of
    /// a group is always asked.
    ///
    /// # Errors
    /// No origin gave an answer. The error tells each attempt.
    pub async fn fetch(&self, request: &Request) -> Result<Response, FetchError> {
        let places = self.selector.order(&request.path, &request.policy);
        let mut tried = Tried { attempts: Vec::new(), left: request.policy.attempts_max.max(1) };
        let mut refused: Option<Response> = None;
        for (position, &place) in places.iter().enumerate() {
            if tried.left == 0 {
                break;
            }
            let origin = &self.origins[place];
            let has_next = position + 1 < places.len();
            let probe = match origin.standing.admit() {
                Ok(probe) => probe,
                Err(failure) => {
                    tried.push(origin, &AttemptFailure::unsent(failure));
                    continue;
                }
            };
            let asked = ask(origin, request, &mut tried, has_next).await;
            drop(probe);
            match asked {
                Ok(answer) => {
                    let is_refusal = request.is_repeatable() && is_failure(answer.status);
                    let attempt = Attempt {
                        origin: Arc::clone(&origin.name),
                        address: answer.address,
                        is_reused: false,
                        failure: Failure::new(FailureKind::Status, format!("it answered with {}", answer.status)),
                    };
                    let response = tried.response(answer, origin, place);
                    if !is_refusal {
                        return Ok(response);
                    }
                    refused = Some(response);
                    tried.attempts.push(attempt);
                }
                Err(Step::GiveUp) => break,
                Err(_) => {}
            }
        }
        refused.ok_or_else(|| FetchError { asked: request.to_string(), attempts: tried.attempts })
    }

    /// The places of the origins in the order in which they are asked for an object.
    pub fn order(&self, path: &str) -> Vec<usize> {
        self.selector.order(path, &AttemptPolicy::default())
    }

    /// The number of origins.
    pub fn origins(&self) -> usize {
        self.origins.len()
    }

    /// Whether the origin at a place of the group is an HTTP server, whose answers say all about
    /// its objects, as opposed to a bucket or a tree.
    pub fn is_http(&self, origin_index: usize) -> bool {
        self.origins.get(origin_index).is_none_or(Origin::is_http)
    }

    /// Lists a folder of the first origin that can; `None` if it has no such folder. The path is
    /// percent-encoded, with or without a slash at its end.
    ///
    /// # Errors
    /// No origin gave a listing. HTTP origins have none.
    pub async fn list(&self, path: &str) -> Result<Option<Listing>, FetchError> {
        self.list_some(path, usize::MAX).await
    }

    /// The same with at most so many entries: with one it tells whether there is such a folder.
    ///
    /// # Errors
    /// No origin gave a listing. HTTP origins have none.
    pub async fn list_some(&self, path: &str, entries_max: usize) -> Result<Option<Listing>, FetchError> {
        let mut tried = Tried { attempts: Vec::new(), left: LISTING_ATTEMPTS };
        let places = self.selector.order(path, &AttemptPolicy::default());
        for (position, &place) in places.iter().enumerate() {
            if tried.left == 0 {
                break;
            }
            let origin = &self.origins[place];
            let probe = match origin.standing.admit() {
                Ok(probe) => probe,
                Err(failure) => {
                    tried.push(origin, &AttemptFailure::unsent(failure));
                    continue;
                }
            };
            let has_next = position + 1 < places.len();
            let listed = list_at(origin, (path, entries_max), &mut tried, has_next).await;
            drop(probe);
            match listed {
                Ok(listing) => return Ok(listing),
                Err(Step::GiveUp) => break,
                Err(_) => {}
            }
        }
        Err(FetchError { asked: format!("listing {path}"), attempts: tried.attempts })
    }

    /// The figures of each origin at this time.
    pub fn statistics(&self) -> Vec<OriginStatistics> {
        self.origins.iter().map(Origin::statistics).collect()
    }
}

impl fmt::Debug for OriginGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.origins.iter().map(|origin| &origin.name)).finish()
    }
}

/// The attempts of one fetch so far.
struct Tried {
    attempts: Vec<Attempt>,
    left: u32,
}

impl Tried {
    fn push(&mut self, origin: &Origin, failed: &AttemptFailure) {
        self.attempts.push(Attempt {
            origin: Arc::clone(&origin.name),
            address: failed.address,
            is_reused: failed.is_reused,
            failure: failed.failure.clone(),
        });
    }

    /// Notes a failed attempt before the `next` step; that step, unless the same origin is asked
    /// again.
    fn note(&mut self, origin: &Origin, failed: &AttemptFailure, next: Step) -> Result<(), Step> {
        self.push(origin, failed);
        // A kept connection may be closed at any time, and another request has counted its failure.
        let is_race = next == Step::SameOrigin && failed.is_reused;
        if is_race || failed.is_of_another {
            origin.standing.count(&failed.failure);
        } else {
            origin.standing.failed(&failed.failure);
        }
        match next {
            Step::SameOrigin if self.left > 0 => Ok(()),
            Step::SameOrigin => Err(Step::GiveUp),
            other => Err(other),
        }
    }

    fn response(&self, answer: Answer, origin: &Origin, origin_index: usize) -> Response {
        let Answer { status, fields, length, body, version, address, note } = answer;
        let (origin, tried) = (Arc::clone(&origin.name), self.attempts.clone());
        Response { status, fields, length, body, origin, origin_index, version, address, note, tried }
    }
}

/// Asks one origin, again if that is right. Without an answer, the step that comes next.
async fn ask(origin: &Origin, request: &Request, tried: &mut Tried, has_next: bool) -> Result<Answer, Step> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        tried.left -= 1;
        match origin.attempt(request, attempts > 1).await {
            Ok(answer) => {
                origin.standing.answered();
                // A 500 may be of this one resource.
                if matches!(answer.status, 502..=504) {
                    let text = format!("it answered with {}", answer.status);
                    origin.standing.failed(&Failure::new(FailureKind::Status, text));
                }
                return Ok(answer);
            }
            Err(failed) => {
                let next = step(&failed, request.is_repeatable(), attempts, has_next);
                tried.note(origin, &failed, next)?;
            }
        }
    }
}

/// The same for a listing.
async fn list_at(
    origin: &Origin,
    (path, entries_max): (&str, usize),
    tried: &mut Tried,
    has_next: bool,
) -> Result<Option<Listing>, Step> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        tried.left -= 1;
        match origin.list(path, entries_max, attempts > 1).await {
            Ok(listing) => {
                origin.standing.answered();
                return Ok(listing);
            }
            Err(failed) => tried.note(origin, &failed, step(&failed, true, attempts, has_next))?,
        }
    }
}
