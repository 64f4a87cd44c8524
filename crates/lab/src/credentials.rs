//! Credentials in a URL (`http://user:password@host/`): sent as Basic authentication (RFC 7617),
//! and shown nowhere.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

/// The value of an `Authorization` field. Its debug form leaves it out, so that no message can show
/// it by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(String);

/// A user name that Basic authentication cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the user name in the URL contains a colon, which Basic authentication does not allow (RFC 7617, section 2)")]
pub struct ColonInUserName;

impl Credentials {
    /// Takes the credentials out of a URL; `None` if it has none.
    ///
    /// # Errors
    /// The user name has a colon, which would be read as its end.
    pub fn take_from(url: &mut Url) -> Result<Option<Self>, ColonInUserName> {
        if !has_userinfo(url) {
            return Ok(None);
        }
        let user: Vec<u8> = percent_decode_str(url.username()).collect();
        let password: Vec<u8> = percent_decode_str(url.password().unwrap_or_default()).collect();
        remove(url);
        if user.contains(&b':') {
            return Err(ColonInUserName);
        }
        Ok(Some(Self(format!("Basic {}", STANDARD.encode([&user[..], b":", &password[..]].concat())))))
    }

    /// The value of the field, for the requests alone.
    pub fn field_value(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(not shown)")
    }
}

/// An argument of a command line as results show it: a URL without its credentials, anything else
/// as it is.
pub fn shown(argument: &str) -> String {
    if let Some((option, value)) = argument.split_once('=').filter(|(option, _)| option.starts_with("--")) {
        return format!("{option}={}", shown(value));
    }
    match Url::parse(argument) {
        Ok(mut url) if has_userinfo(&url) => {
            remove(&mut url);
            url.into()
        }
        _ => argument.to_owned(),
    }
}

/// A text that is not a valid URL, without the part that may have been meant as credentials.
pub(crate) fn shown_malformed(text: &str) -> String {
    let Some((before, after)) = text.rsplit_once('@') else { return text.to_owned() };
    let scheme = before.find("://").map_or("", |end| &before[..end + 3]);
    format!("{scheme}...@{after}")
}

/// Whether a URL has credentials in it.
pub fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The user and the password of a URL as they are, if it has some.
pub fn user_and_password(url: &Url) -> Option<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    has_userinfo(url).then(|| (decoded(url.username()), decoded(url.password().unwrap_or_default())))
}

fn remove(url: &mut Url) {
    // Either is refused only by URLs without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_become_a_basic_field() {
        for (url, expected, left) in [
            ("http://Aladdin:open%20sesame@h/p?q#f", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), "http://h/p?q#f"),
            ("http://user@h/", Some("Basic dXNlcjo="), "http://h/"),
            ("http://:secret@h/", Some("Basic OnNlY3JldA=="), "http://h/"),
            // "test:123£", in UTF-8 (RFC 7617, 2.1).
            ("http://test:123%C2%A3@h/", Some("Basic dGVzdDoxMjPCow=="), "http://h/"),
            ("http://u:a%3Ab%40c@h/", Some("Basic dTphOmJAYw=="), "http://h/"),
            ("http://h/a@b:c", None, "http://h/a@b:c"),
        ] {
            let mut url = Url::parse(url).unwrap();
            let credentials = Credentials::take_from(&mut url).unwrap();
            assert_eq!(credentials.as_ref().map(Credentials::field_value), expected);
            assert_eq!(url.as_str(), left);
            assert!(!format!("{credentials:?}").contains("Basic"));
        }
        let mut url = Url::parse("http://a%3Ab:c@h/").unwrap();
        assert_eq!(Credentials::take_from(&mut url), Err(ColonInUserName));
        assert_eq!(url.as_str(), "http://h/", "what follows an error shows none either");
    }

    #[test]
    fn shown_text_has_no_credentials() {
        for (argument, expected) in [
            ("http://u:secret@h:1/a", "http://h:1/a"),
            ("http:u:secret@h/", "http://h/"),
            ("http://h/a@b", "http://h/a@b"),
            ("X-Field: a@b", "X-Field: a@b"),
            ("p99<50ms", "p99<50ms"),
        ] {
            assert_eq!(shown(argument), expected);
        }
        assert_eq!(shown_malformed("http://u:sec/ret@h:1/"), "http://...@h:1/");
        assert_eq!(shown_malformed("u:secret@h"), "...@h");
        assert_eq!(shown_malformed("127.0.0.1:80"), "127.0.0.1:80");
    }
}
