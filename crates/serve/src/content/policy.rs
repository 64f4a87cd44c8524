//! Response policies: the settings of files in the form that responses need, made once for all
//! files that share them.
//!
//! A policy has field lines ready to be copied into heads. The catalog decides which settings hold
//! for which file, and which fields a configuration may set.

use thalweg_wire::encode::{EncodeError, FieldBlock};

use crate::config::{EtagSource, Settings};

/// The settings that hold for the responses with a file.
#[derive(Debug, Default)]
pub(crate) struct ResponsePolicy {
    /// The field lines of a 200 and a 206.
    pub(crate) fields: FieldBlock,
    /// Those of them that a 304 has too.
    pub(crate) fields_of_304: FieldBlock,
    /// The answer to a preflight request, if scripts of other sites are allowed anything.
    pub(crate) preflight: Option<PreflightFields>,
    /// The media type, instead of the one that the name stands for.
    pub(crate) content_type: Option<String>,
    /// Whether compressed neighbours are looked for.
    pub(crate) precompressed: bool,
    /// Whether checksum files are looked for.
    pub(crate) digests: bool,
    /// The parts of entity tags.
    pub(crate) etag: EtagSource,
}

/// The fields of the response to a preflight request (Fetch, 3.3.3).
#[derive(Debug, Default)]
pub(crate) struct PreflightFields {
    /// The fields of the settings whose names begin with Access-Control, and Vary.
    pub(crate) fields: FieldBlock,
    /// Whether they name the methods.
    pub(crate) has_methods: bool,
}

impl PreflightFields {
    /// The answer by the headers of the settings; `None` if they allow nothing.
    fn of(headers: &[(String, String)]) -> Result<Option<Self>, EncodeError> {
        let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
        if !headers.iter().any(|(name, _)| is(name, "Access-Control-Allow-Origin")) {
            return Ok(None);
        }
        let mut preflight = Self::default();
        for (name, value) in headers {
            let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| is(start, prefix));
            // Which fields of a response a script may see is a matter of that response.
            if (begins("Access-Control-") && !is(name, "Access-Control-Expose-Headers")) || is(name, "Vary") {
                preflight.fields.field(name, value.as_bytes())?;
                preflight.has_methods |= is(name, "Access-Control-Allow-Methods");
            }
        }
        Ok(Some(preflight))
    }
}

impl ResponsePolicy {
    /// The policy of settings. Headers follow in their order; Cache-Control comes first.
    pub(crate) fn of(settings: &Settings) -> Result<Self, EncodeError> {
        let mut policy = Self {
            precompressed: settings.precompressed.unwrap_or(false),
            digests: settings.digests.unwrap_or(false),
            etag: settings.etag.unwrap_or_default(),
            content_type: settings.content_type.clone(),
            preflight: PreflightFields::of(&settings.headers)?,
            ..Self::default()
        };
        if let Some(value) = &settings.content_type {
            FieldBlock::new().field("Content-Type", value.as_bytes())?;
        }
        if let Some(value) = &settings.cache_control {
            policy.push("Cache-Control", value)?;
        }
        for (name, value) in &settings.headers {
            policy.push(name, value)?;
        }
        Ok(policy)
    }

    fn push(&mut self, name: &str, value: &str) -> Result<(), EncodeError> {
        self.fields.field(name, value.as_bytes())?;
        if !describes_content(name) {
            self.fields_of_304.field(name, value.as_bytes())?;
        }
        Ok(())
    }
}

/// Whether a field is about the bytes that a 304 does not have (RFC 9110, 15.4.5). A policy is
/// about how they are used.
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
        let policy = ResponsePolicy::of(&settings(&headers)).unwrap();
        assert_eq!(
            policy.fields.as_bytes().escape_ascii().to_string(),
            "Cache-Control: max-age=60\\r\\nContent-Disposition: attachment\\r\\nX-Mirror: a\\r\\nContent-Language: en\\r\\n\
             content-security-policy: sandbox\\r\\nContent-Location: /a\\r\\n"
        );
        assert_eq!(
            policy.fields_of_304.as_bytes().escape_ascii().to_string(),
            "Cache-Control: max-age=60\\r\\nX-Mirror: a\\r\\ncontent-security-policy: sandbox\\r\\nContent-Location: /a\\r\\n"
        );
    }

    #[test]
    fn a_preflight_gets_the_fields_about_other_sites() {
        let allow = ("access-control-allow-origin", "*");
        let preflight = |headers: &[(&str, &str)]| {
            let preflight = ResponsePolicy::of(&settings(headers)).unwrap().preflight?;
            Some((preflight.fields.as_bytes().escape_ascii().to_string(), preflight.has_methods))
        };
        assert_eq!(preflight(&[("Access-Control-Allow-Headers", "Range")]), None);
        let with = |name, value| preflight(&[("X-Mirror", "a"), allow, (name, value)]);
        let begin = "access-control-allow-origin: *\\r\\n";
        assert_eq!(with("Access-Control-Expose-Headers", "ETag"), Some((begin.to_owned(), false)));
        let methods = with("Access-Control-Allow-Methods", "GET");
        assert_eq!(methods, Some((format!("{begin}Access-Control-Allow-Methods: GET\\r\\n"), true)));
        assert_eq!(with("Vary", "Origin"), Some((format!("{begin}Vary: Origin\\r\\n"), false)));
    }

    #[test]
    fn fields_that_would_break_the_head_are_refused() {
        assert_eq!(ResponsePolicy::of(&settings(&[("X", "a\r\nY: b")])).err(), Some(EncodeError::FieldValue));
        assert_eq!(ResponsePolicy::of(&settings(&[("X Y", "a")])).err(), Some(EncodeError::FieldName));
        let broken = Settings { content_type: Some("a/b\nX: y".to_owned()), ..Settings::default() };
        assert_eq!(ResponsePolicy::of(&broken).err(), Some(EncodeError::FieldValue));
    }
}
