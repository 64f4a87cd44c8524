//! Credentials of a bucket, and reading them again: a provider is asked from time to time, and at
//! once after the server has called them expired.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The credentials of requests to a bucket.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// Requests are not signed.
    #[default]
    Anonymous,
    /// These keys, for as long as the process runs.
    Fixed(Keys),
    /// The keys that a provider has at the time.
    Provided(Arc<dyn KeyProvider>),
}

/// The keys that requests are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The access key's id, which is no secret.
    pub key: String,
    /// The secret.
    pub secret: String,
    /// The token of a session, for temporary keys.
    pub token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A source of keys that change: a file, the metadata service of a cloud, another process.
pub trait KeyProvider: fmt::Debug + Send + Sync {
    /// The keys that are valid now. It is called on a thread where it may wait.
    ///
    /// # Errors
    /// A sentence that says what was tried and what failed.
    fn keys(&self) -> Result<Keys, String>;
}

/// How long keys of a provider are used before it is asked again.
const KEYS_AGE_MAX: Duration = Duration::from_secs(60);

/// The credentials of one bucket with the last keys of their provider.
#[derive(Debug)]
pub(crate) struct KeyCache {
    credentials: Credentials,
    last: Mutex<Option<(Instant, Keys)>>,
}

impl KeyCache {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self { credentials, last: Mutex::new(None) }
    }

    /// The keys to sign with; `None` for anonymous requests. The provider is asked if its keys are
    /// old or if they are the `refused` ones. Keys outlive a provider that fails, unless they were
    /// refused.
    pub(crate) async fn keys(&self, refused: Option<&Keys>) -> Result<Option<Keys>, String> {
        let provider = match &self.credentials {
            Credentials::Anonymous => return Ok(None),
            Credentials::Fixed(keys) => return Ok(Some(keys.clone())),
            Credentials::Provided(provider) => Arc::clone(provider),
        };
        let mut last = self.last.lock().await;
        if let Some((read, keys)) = &*last
            && read.elapsed() < KEYS_AGE_MAX
            && refused != Some(keys)
        {
            return Ok(Some(keys.clone()));
        }
        let asked = tokio::task::spawn_blocking(move || provider.keys()).await;
        match (asked.unwrap_or_else(|_| Err("the provider of the keys has failed".into())), &mut *last) {
            (Ok(keys), last) => {
                *last = Some((Instant::now(), keys.clone()));
                Ok(Some(keys))
            }
            (Err(_), Some((read, keys))) if refused != Some(keys) => {
                *read = Instant::now();
                Ok(Some(keys.clone()))
            }
            (Err(error), _) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as SyncMutex;

    use super::*;

    /// Gives its answers one after the other, the last one for ever.
    #[derive(Debug)]
    struct Scripted(SyncMutex<Vec<Result<&'static str, &'static str>>>);

    impl KeyProvider for Scripted {
        fn keys(&self) -> Result<Keys, String> {
            let mut answers = self.0.lock().unwrap();
            let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
            answer.map(keys).map_err(str::to_owned)
        }
    }

    fn keys(key: &str) -> Keys {
        Keys { key: key.into(), secret: "secret".into(), token: None }
    }

    fn cache(answers: &[Result<&'static str, &'static str>]) -> KeyCache {
        KeyCache::new(Credentials::Provided(Arc::new(Scripted(SyncMutex::new(answers.to_vec())))))
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_read_again_when_they_are_old() {
        let cache = cache(&[Ok("one"), Ok("two"), Err("away"), Ok("three")]);
        for (advance_s, expected) in [(0, "one"), (59, "one"), (1, "two"), (60, "two"), (59, "two"), (1, "three")] {
            tokio::time::advance(Duration::from_secs(advance_s)).await;
            assert_eq!(cache.keys(None).await, Ok(Some(keys(expected))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_keys_are_read_again_at_once() {
        let cache = cache(&[Ok("one"), Ok("two"), Err("the file is gone")]);
        assert_eq!(cache.keys(None).await, Ok(Some(keys("one"))));
        assert_eq!(cache.keys(Some(&keys("one"))).await, Ok(Some(keys("two"))));
        assert_eq!(cache.keys(Some(&keys("one"))).await, Ok(Some(keys("two"))), "others are kept");
        assert_eq!(cache.keys(Some(&keys("two"))).await, Err("the file is gone".into()));
    }

    #[test]
    fn secrets_are_not_shown() {
        let keys = Keys { key: "id".into(), secret: "hidden".into(), token: Some("hidden".into()) };
        let shown = format!("{keys:?} {:?}", Credentials::Fixed(keys.clone()));
        assert!(shown.contains("id") && !shown.contains("hidden"), "{shown}");
    }
}
