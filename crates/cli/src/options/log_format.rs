//! The format of an access log, for the commands that read one.

use thalweg_sessions::LogFormat;

/// The format; `None`: found by the first lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFormatOption(pub Option<LogFormat>);

impl LogFormatOption {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(Self(None)) } else { text.parse().map(|format| Self(Some(format))) }
    }
}
