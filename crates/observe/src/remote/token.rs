//! The secret that a measuring client shows to an observer.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A token. Its text is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The reasons why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// Too short, or with characters that a header field cannot carry.
    #[error("{origin} is no token: it needs at least {TOKEN_BYTES_MIN} visible ASCII characters without spaces")]
    Malformed {
        /// The file or the variable.
        origin: String,
    },
}

/// A shorter token could be guessed.
const TOKEN_BYTES_MIN: usize = 16;

impl Token {
    /// Checks a token from `origin`, which an error names. Space around it is no part of it.
    ///
    /// # Errors
    /// It is too short, or has other characters than visible ASCII ones.
    pub fn new(text: &str, origin: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let fits = text.len() >= TOKEN_BYTES_MIN && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(TokenError::Malformed { origin: origin.to_owned() }) }
    }

    /// Reads a token from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text =
            fs::read_to_string(path).map_err(|source| TokenError::Unreadable { path: path.to_owned(), source })?;
        Self::new(&text, &format!("the content of {}", path.display()))
    }

    /// The value of the field `Authorization`.
    #[must_use]
    pub fn field(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether the value of a field `Authorization` shows this token. Takes the same time for each
    /// wrong one of a length.
    #[must_use]
    pub fn is_shown_by(&self, field: &[u8]) -> bool {
        const SCHEME: &[u8] = b"bearer ";
        let Some((scheme, shown)) = field.split_at_checked(SCHEME.len()) else { return false };
        scheme.eq_ignore_ascii_case(SCHEME) && bool::from(shown.ct_eq(self.0.as_bytes()))
    }
}

use subtle::ConstantTimeEq;

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_visible() {
        for wrong in ["", "short", "with a space in the middle", "sixteen-bytes-\u{e9}\u{e9}"] {
            assert!(Token::new(wrong, "test").is_err(), "{wrong:?}");
        }
        let token = Token::new(" 0123456789abcdef\n", "test").unwrap();
        assert_eq!(token.field(), "Bearer 0123456789abcdef");
        assert!(!format!("{token:?}").contains("0123"), "it is not shown");
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = Token::new("0123456789abcdef", "test").unwrap();
        let check = |field: &str, expected| assert_eq!(token.is_shown_by(field.as_bytes()), expected, "{field}");
        check("Bearer 0123456789abcdef", true);
        check("bearer 0123456789abcdef", true);
        check("Bearer 0123456789abcdeF", false);
        check("Bearer 0123456789abcde", false);
        check("Bearer 0123456789abcdef0", false);
        check("Basic 0123456789abcdef", false);
        check("Bearer ", false);
        check("", false);
    }
}
