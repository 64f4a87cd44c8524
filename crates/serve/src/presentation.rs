//! How files are presented: what [`Settings`] come to, made once for all the files that share them.
//!
//! It owns which fields may be set and which are the server's own, and has the field lines ready to be copied into heads. Which
//! settings hold for which file is not decided here.

use thalweg_wire::encode::{EncodeError, FieldBlock};

use crate::config::Settings;

/// What settings say about the responses with a file, as a head needs it.
#[derive(Debug, Default)]
pub(crate) struct Presentation {
    /// The field lines of a 200 and a 206.
    pub(crate) fields: FieldBlock,
    /// Those of them that a 304 has too.
    pub(crate) fields_of_304: FieldBlock,
    /// The media type, instead of the one that the name stands for.
    pub(crate) content_type: Option<String>,
    /// Whether compressed neighbours are looked for.
    pub(crate) precompressed: bool,
    /// Whether checksum files are looked for.
    pub(crate) digests: bool,
}

/// Why a field cannot be set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FieldFault {
    /// Name or value would break the head.
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// The server sets this field itself, and two would contradict each other.
    #[error("{name} is set by the server itself{}", setting.map(|key| format!("; use `{key}`")).unwrap_or_default())]
    Reserved {
        /// The field.
        name: String,
        /// The setting that changes it, if there is one.
        setting: Option<&'static str>,
    },
}

/// Fields that no setting of a header can have, and the setting that is for them.
const RESERVED: &[(&str, Option<&str>)] = &[
    ("accept-ranges", None),
    ("cache-control", Some("cache_control")),
    ("connection", None),
    ("content-length", None),
    ("content-range", None),
    ("content-type", Some("content_type")),
    ("date", None),
    ("etag", None),
    ("keep-alive", None),
    ("last-modified", None),
    ("proxy-connection", None),
    ("repr-digest", Some("digests")),
    ("server", None),
    ("te", None),
    ("trailer", None),
    ("transfer-encoding", None),
    ("upgrade", None),
];

/// Looks whether a header can be set to this value.
///
/// # Errors
/// It cannot be written, or is not for a configuration to set.
pub fn check_header(name: &str, value: &str) -> Result<(), FieldFault> {
    FieldBlock::new().field(name, value.as_bytes())?;
    match RESERVED.iter().find(|(reserved, _)| name.eq_ignore_ascii_case(reserved)) {
        Some((_, setting)) => Err(FieldFault::Reserved { name: name.to_owned(), setting: *setting }),
        None => Ok(()),
    }
}

#[cfg_attr(not(test), expect(dead_code, reason = "sites hand over their settings in the next step"))]
impl Presentation {
    /// What these settings come to. Headers follow in their order; Cache-Control comes first.
    pub(crate) fn of(settings: &Settings) -> Result<Self, FieldFault> {
        let mut presentation = Self {
            precompressed: settings.precompressed.unwrap_or(false),
            digests: settings.digests.unwrap_or(false),
            content_type: settings.content_type.clone(),
            ..Self::default()
        };
        if let Some(value) = &settings.content_type {
            FieldBlock::new().field("Content-Type", value.as_bytes())?;
        }
        if let Some(value) = &settings.cache_control {
            presentation.push("Cache-Control", value)?;
        }
        for (name, value) in &settings.headers {
            check_header(name, value)?;
            presentation.push(name, value)?;
        }
        Ok(presentation)
    }

    fn push(&mut self, name: &str, value: &str) -> Result<(), FieldFault> {
        self.fields.field(name, value.as_bytes())?;
        if !describes_content(name) {
            self.fields_of_304.field(name, value.as_bytes())?;
        }
        Ok(())
    }
}

/// Whether a field is about the bytes that a 304 does not have (RFC 9110, 15.4.5). A policy is about how they are used.
fn describes_content(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("content-") && name != "content-location" && !name.starts_with("content-security-policy")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(headers: &[(&str, &str)]) -> Settings {
        let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Settings { headers, cache_control: Some("max-age=60".to_owned()), ..Settings::default() }
    }

    #[test]
    fn a_304_has_what_does_not_describe_the_body() {
        let headers = [
            ("Content-Disposition", "attachment"),
            ("X-Mirror", "a"),
            ("Content-Language", "en"),
            ("content-security-policy", "sandbox"),
            ("Content-Location", "/a"),
        ];
        let presentation = Presentation::of(&settings(&headers)).unwrap();
        assert_eq!(
            presentation.fields.as_bytes().escape_ascii().to_string(),
            "Cache-Control: max-age=60\\r\\nContent-Disposition: attachment\\r\\nX-Mirror: a\\r\\nContent-Language: en\\r\\n\
             content-security-policy: sandbox\\r\\nContent-Location: /a\\r\\n"
        );
        assert_eq!(
            presentation.fields_of_304.as_bytes().escape_ascii().to_string(),
            "Cache-Control: max-age=60\\r\\nX-Mirror: a\\r\\ncontent-security-policy: sandbox\\r\\nContent-Location: /a\\r\\n"
        );
    }

    #[test]
    fn what_would_contradict_the_server_or_break_the_head_is_refused() {
        for (name, value, expected) in [
            ("X-Frame-Options", "DENY", ""),
            ("Vary", "Origin", ""),
            ("Content-Encoding", "gzip", ""),
            ("content-length", "5", "content-length is set by the server itself"),
            ("Cache-Control", "no-store", "Cache-Control is set by the server itself; use `cache_control`"),
            ("Content-Type", "a/b", "Content-Type is set by the server itself; use `content_type`"),
            ("X", "a\r\nY: b", "control byte in a field value"),
            ("X Y", "a", "field name is not a token"),
        ] {
            let fault = check_header(name, value).map_or_else(|fault| fault.to_string(), |()| String::new());
            assert_eq!(fault, expected, "{name}: {value}");
            assert_eq!(Presentation::of(&settings(&[(name, value)])).is_err(), !expected.is_empty());
        }
        let broken = Settings { content_type: Some("a/b\nX: y".to_owned()), ..Settings::default() };
        assert!(Presentation::of(&broken).is_err());
    }
}
