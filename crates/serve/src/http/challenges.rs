//! The responses to http-01 challenges of a certification authority (RFC 8555, 8.3).
//!
//! The process that obtains certificates adds and removes them; all loops look them up. Nearly
//! always there is none, which costs a request one load.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The folder of all challenges.
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// Most challenges at once: one for each name of a certificate, with room for those that were left.
const CHALLENGES_MAX: usize = 256;

/// Most bytes of a token, and of a key authorization, which is a token with a SHA-256 in base64url
/// behind it. Authorities have tokens of about 43 bytes.
const TOKEN_BYTES_MAX: usize = 256;
const KEY_AUTHORIZATION_BYTES_MAX: usize = TOKEN_BYTES_MAX + 64;

/// The open challenges of a server.
#[derive(Debug, Default)]
pub(crate) struct HttpChallenges {
    count: AtomicUsize,
    /// Tokens with their key authorizations.
    open: Mutex<Vec<(Box<str>, Box<str>)>>,
}

/// The reason for which a challenge cannot be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChallengeError {
    /// The token is not base64url, or it or the key authorization is too long.
    #[error("the token or the key authorization of the challenge is malformed or longer than {TOKEN_BYTES_MAX} bytes")]
    Malformed,
    /// There are too many challenges.
    #[error("more than {CHALLENGES_MAX} challenges are open")]
    TooMany,
}

impl HttpChallenges {
    /// Answers requests for a token with this key authorization from now on.
    pub(crate) fn add(&self, token: &str, key_authorization: &str) -> Result<(), ChallengeError> {
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=TOKEN_BYTES_MAX).contains(&token.len())
            || !token.bytes().all(is_base64url)
            || key_authorization.len() > KEY_AUTHORIZATION_BYTES_MAX
        {
            return Err(ChallengeError::Malformed);
        }
        let mut open = self.lock();
        open.retain(|(known, _)| **known != *token);
        if open.len() == CHALLENGES_MAX {
            return Err(ChallengeError::TooMany);
        }
        open.push((token.into(), key_authorization.into()));
        self.count.store(open.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Answers requests for a token no more.
    pub(crate) fn remove(&self, token: &str) {
        let mut open = self.lock();
        open.retain(|(known, _)| **known != *token);
        self.count.store(open.len(), Ordering::Relaxed);
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The key authorization for a path.
    #[cold]
    pub(crate) fn find(&self, path: &[u8]) -> Option<Box<str>> {
        let token = path.strip_prefix(FOLDER)?;
        let open = self.lock();
        open.iter().find(|(known, _)| known.as_bytes() == token).map(|(_, key_authorization)| key_authorization.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Box<str>, Box<str>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_found_by_their_path_until_they_are_removed() {
        let challenges = HttpChallenges::default();
        assert!(challenges.is_empty());
        challenges.add("one", "one.first").unwrap();
        challenges.add("one", "one.print").unwrap();
        challenges.add("two", "two.print").unwrap();
        assert!(!challenges.is_empty());
        let find = |path: &str| challenges.find(path.as_bytes());
        assert_eq!(find("/.well-known/acme-challenge/one").as_deref(), Some("one.print"));
        for path in ["/one", "/.well-known/acme-challenge/", "/.well-known/acme-challenge/three"] {
            assert_eq!(find(path), None, "{path}");
        }
        challenges.remove("one");
        assert_eq!(find("/.well-known/acme-challenge/one"), None);
        challenges.remove("two");
        assert!(challenges.is_empty());
    }

    #[test]
    fn challenges_are_bounded() {
        let challenges = HttpChallenges::default();
        let long = "t".repeat(TOKEN_BYTES_MAX + 1);
        for token in ["", "../etc", "a b", "a%62", long.as_str()] {
            assert_eq!(challenges.add(token, "print"), Err(ChallengeError::Malformed), "{token:?}");
        }
        assert_eq!(challenges.add("token", &long.repeat(2)), Err(ChallengeError::Malformed));
        for number in 0..CHALLENGES_MAX {
            challenges.add(&number.to_string(), "print").unwrap();
        }
        assert_eq!(challenges.add("another", "print"), Err(ChallengeError::TooMany));
        assert_eq!(challenges.add("1", "again"), Ok(()));
    }
}
