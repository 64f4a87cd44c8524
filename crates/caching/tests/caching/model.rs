//! A cache of one URI in memory, with a clock and an origin that the test sets: the smallest server
//! around the decisions.

use thalweg_caching::validation::{HeadOutcome, ValidationOutcome, head_outcome, outcome};
use thalweg_caching::{
    CacheRequest, Decision, Failure, FieldLines, Policy, Storability, StoredFields, StoredResponse, Times, Validation,
    decide, invalidation, may_stay_stored, storability,
};
use thalweg_wire::Method;

pub(crate) const TARGET: &str = "http://a.example/file";

/// The second in which a test begins.
pub(crate) const BEGIN: i64 = 1_704_067_200;

/// The answer that the client got, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// `hit`, `stale`, `fetched`, `validated`, `fallback` or `504`.
    pub(crate) source: &'static str,
    pub(crate) status: u16,
    pub(crate) fields: StoredFields,
}

/// The origin's next response; `None` for a connection that breaks. To a conditional request that
/// has the origin's validator it answers 304 with the same fields.
pub(crate) type Origin<'a> = Option<(u16, &'a [&'a str])>;

pub(crate) struct Cache {
    policy: Policy,
    stored: Vec<StoredResponse>,
    pub(crate) now: i64,
    /// The fields of the conditions that the origin got last.
    pub(crate) conditions: Vec<String>,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self { policy: Policy::default(), stored: Vec::new(), now: BEGIN, conditions: Vec::new() }
    }

    pub(crate) fn ask(&mut self, method: &str, request: &[&str], origin: Origin<'_>) -> Reply {
        let client = fields(request, self.now);
        let asked = CacheRequest::new(Method::from_name(method), &client);
        let stored: Vec<&StoredResponse> = self.stored.iter().collect();
        match decide(&self.policy, &asked, &stored, self.now) {
            Decision::Fresh { index } => self.reply("hit", index),
            Decision::Stale { index } => self.reply("stale", index),
            Decision::StaleWhileRevalidate { index, validation, .. } => {
                let reply = self.reply("stale", index);
                self.validate(&asked, &validation, origin);
                reply
            }
            Decision::Validate(validation) => self.validate(&asked, &validation, origin),
            Decision::Fetch { fallback, .. } => {
                let status = origin.map(|(status, _)| status);
                let failure = status.map_or(Failure::Unreachable, Failure::Status);
                match (fallback, origin) {
                    (Some(fallback), _) if fallback.covers(failure, self.now) => self.reply("fallback", fallback.index),
                    (_, Some((status, lines))) => self.fetched(&asked, status, &fields(lines, self.now)),
                    (_, None) => gateway_timeout(),
                }
            }
            Decision::GatewayTimeout => gateway_timeout(),
        }
    }

    fn validate<F: FieldLines>(
        &mut self,
        asked: &CacheRequest<'_, F>,
        validation: &Validation,
        origin: Origin<'_>,
    ) -> Reply {
        self.conditions =
            validation.fields().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
        let Some((status, lines)) = origin else {
            return match validation.fallback {
                Some(fallback) if fallback.covers(Failure::Unreachable, self.now) => {
                    self.reply("fallback", fallback.index)
                }
                _ => gateway_timeout(),
            };
        };
        let answer = fields(lines, self.now);
        let is_current = |field: &str, condition: &str| {
            answer.first(field).is_some_and(|value| {
                let line = format!("{condition}: {}", String::from_utf8_lossy(value));
                self.conditions.contains(&line)
            })
        };
        let not_modified = is_current("etag", "If-None-Match") || is_current("last-modified", "If-Modified-Since");
        let status = if status == 200 && not_modified { 304 } else { status };
        let stored: Vec<&StoredResponse> = self.stored.iter().collect();
        match outcome(validation, &stored, status, &answer, self.now) {
            ValidationOutcome::Freshen { indices, answer: index } => {
                for index in indices {
                    self.stored[index].freshen(&self.policy, asked.fields, &answer, times(self.now));
                }
                let reply = self.reply("validated", index);
                self.stored.retain(|stored| may_stay_stored(&self.policy, stored));
                reply
            }
            ValidationOutcome::Fallback { index } => self.reply("fallback", index),
            ValidationOutcome::Replace | ValidationOutcome::Forward => self.fetched(asked, status, &answer),
            ValidationOutcome::FetchWhole => panic!("the origin's 304 is about nothing"),
        }
    }

    fn fetched<F: FieldLines>(&mut self, asked: &CacheRequest<'_, F>, status: u16, answer: &StoredFields) -> Reply {
        if asked.method == Method::Head {
            let outcomes: Vec<_> = self.stored.iter().map(|stored| head_outcome(stored, status, answer)).collect();
            for (stored, outcome) in self.stored.iter_mut().zip(&outcomes) {
                if *outcome == HeadOutcome::Freshen {
                    stored.freshen(&self.policy, asked.fields, answer, times(self.now));
                }
            }
            let mut outcomes = outcomes.into_iter();
            self.stored.retain(|_| outcomes.next() != Some(HeadOutcome::Invalidate));
        }
        if invalidation(asked.method, TARGET, status, answer).uris.iter().any(|uri| uri == TARGET) {
            self.stored.clear();
        }
        let storing = storability(&self.policy, asked, TARGET, status, answer, times(self.now));
        if storing == Storability::Complete {
            let response = StoredResponse::new(&self.policy, asked.fields, status, answer, times(self.now));
            self.stored.retain(|other| other.vary != response.vary || other.key != response.key);
            self.stored.push(response);
        }
        Reply { source: "fetched", status, fields: StoredFields::end_to_end(answer, &[]) }
    }

    fn reply(&self, source: &'static str, index: usize) -> Reply {
        let stored = &self.stored[index];
        let mut fields = stored.fields.clone();
        fields.push("Age", stored.freshness.age_seconds(self.now).to_string().as_bytes());
        Reply { source, status: stored.status, fields }
    }
}

fn gateway_timeout() -> Reply {
    Reply { source: "504", status: 504, fields: StoredFields::default() }
}

const fn times(now: i64) -> Times {
    Times { request: now, response: now }
}

/// Field lines of a test. A value `@N` is the date N seconds from now.
pub(crate) fn fields(lines: &[&str], now: i64) -> StoredFields {
    let mut fields = StoredFields::default();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a test line has a colon");
        match value.trim().strip_prefix('@') {
            Some(offset) => {
                let offset: i64 = offset.parse().expect("an offset is a number");
                fields.push(name, &thalweg_wire::date::imf_fixdate(now + offset));
            }
            None => fields.push(name, value.trim().as_bytes()),
        }
    }
    fields
}
