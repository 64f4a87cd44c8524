//! The list of stored objects over the status listener: what a request asks for, and the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use thalweg_observe::remote::Token;
use thalweg_serve::{PurgeAnswer, PurgeAnswered};
use thalweg_tier::{Inventory, Tier, Wanted, inventory};
use url::form_urlencoded;

use crate::stored_objects::{begins_with, row};

/// Most objects of an answer, which is made in memory.
const OBJECTS_MAX: usize = 100_000;

/// The list of stored objects, for those who show a token.
pub(super) struct Objects {
    /// Each of them is enough.
    tokens: Vec<Token>,
    /// A list is being made: one reads all heads.
    is_busy: Arc<AtomicBool>,
}

/// The objects that a request asks for.
#[derive(Debug, PartialEq, Eq, Default)]
struct Query {
    prefix: Option<String>,
    /// The number of those with the most hits; `None`: those that are found first.
    hot: Option<usize>,
}

impl Objects {
    /// A list for those who show one of these tokens.
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        Self { tokens, is_busy: Arc::default() }
    }

    /// Whether the value of a field `Authorization` shows a token; `None` if there is none.
    pub(super) fn allows(&self, authorization: &[u8]) -> Option<bool> {
        let is_shown = self.tokens.iter().any(|token| token.is_shown_by(authorization));
        (!self.tokens.is_empty()).then_some(is_shown)
    }

    /// Answers a request with this query, on another thread.
    pub(super) fn list(&self, tier: &Arc<Tier>, query: &str, answered: PurgeAnswered) {
        let query = match Query::parse(query) {
            Ok(query) => query,
            Err(why) => return answered(PurgeAnswer { status: 400, body: error_of(&why) }),
        };
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return answered(PurgeAnswer {
                status: 503,
                body: error_of("another list is being made; try again later"),
            });
        }
        let (is_busy, cache) = (Busy(Arc::clone(&self.is_busy)), Arc::clone(tier.cache()));
        tier.runtime().spawn_blocking(move || {
            let is_named = |name: Option<&str>| match (&query.prefix, query.hot) {
                (Some(prefix), _) => name.is_some_and(|name| begins_with(name, prefix)),
                (None, Some(_)) => name.is_some(),
                (None, None) => true,
            };
            let objects_max = query.hot.unwrap_or(OBJECTS_MAX).min(OBJECTS_MAX);
            let wanted = Wanted { is_named: &is_named, objects_max, hottest: query.hot.is_some() };
            let body = document(&inventory(&[&*cache], wanted)).to_string() + "\n";
            drop(is_busy);
            answered(PurgeAnswer { status: 200, body });
        });
    }
}

/// A list is being made as long as this exists, even if that panics.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Query {
    fn parse(query: &str) -> Result<Self, String> {
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "prefix" => parsed.prefix = Some(value.into_owned()),
                "hot" => {
                    let hot = value.parse().map_err(|_| format!("hot is {value:?}; expected a number"))?;
                    parsed.hot = Some(hot);
                }
                _ => return Err(format!("there is no {name:?}; expected prefix or hot")),
            }
        }
        Ok(parsed)
    }
}

fn document(inventory: &Inventory) -> Value {
    let rows: Vec<Value> = inventory.objects.iter().map(row).collect();
    json!({ "schema": "thalweg.objects/1", "incomplete": inventory.is_cut_off, "objects": rows })
}

fn error_of(why: &str) -> String {
    json!({ "error": why }).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_a_prefix_or_the_hottest() {
        let query = |prefix: Option<&str>, hot| Query { prefix: prefix.map(str::to_owned), hot };
        for (text, expected) in [
            ("", Ok(query(None, None))),
            ("prefix=%2Fdebian%2F", Ok(query(Some("/debian/"), None))),
            ("hot=10&prefix=a.example/", Ok(query(Some("a.example/"), Some(10)))),
            ("hot=-1", Err("hot is \"-1\"; expected a number".to_owned())),
            ("page=2", Err("there is no \"page\"; expected prefix or hot".to_owned())),
        ] {
            assert_eq!(Query::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn each_of_the_tokens_is_enough_and_none_is_not() {
        let token = |text: &str| Token::new(text, "test").unwrap();
        let objects = Objects::new(vec![token("0123456789abcdef"), token("fedcba9876543210")]);
        assert_eq!(objects.allows(b"Bearer 0123456789abcdef"), Some(true));
        assert_eq!(objects.allows(b"Bearer fedcba9876543210"), Some(true));
        assert_eq!(objects.allows(b"Bearer fedcba987654321X"), Some(false));
        assert_eq!(Objects::new(Vec::new()).allows(b"Bearer 0123456789abcdef"), None);
    }
}
