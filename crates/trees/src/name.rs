//! Names of trees.

use std::fmt;
use std::str::FromStr;

/// The name of a tree, as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeName {
    /// 1000 files of 512 bytes: ACME's test of the cost of a connection.
    AcmeSmall,
    /// The 36 files of one directory of SPECweb96, about 5 MB: ACME's pseudo-SPEC test.
    AcmeSpec,
    /// Ten files of 5 MB: ACME's test of raw bandwidth.
    AcmeBig,
    /// Ten such files again, which ACME's clients read at the rate of a modem.
    AcmeModem,
    /// Files of 100, 1000, 2000 and 10000 bytes: HEAnet's files for benchmarks.
    Heanet,
    /// About 60 MB in the file classes of WebBench's static test.
    WebBench,
    /// SPECweb96's file set, which grows with the target load.
    SpecWeb96,
    /// SPECweb99's file set, which grows with the number of connections.
    SpecWeb99,
    /// A mirror of a Debian-like archive, of any size.
    Mirror,
}

/// A text that names no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tree `{name}`; expected one of {}", TreeName::list())]
pub struct NameError {
    /// The text.
    pub name: String,
}

impl TreeName {
    /// All trees, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::AcmeSmall,
        Self::AcmeSpec,
        Self::AcmeBig,
        Self::AcmeModem,
        Self::Heanet,
        Self::WebBench,
        Self::SpecWeb96,
        Self::SpecWeb99,
        Self::Mirror,
    ];

    /// The name as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AcmeSmall => "acme-small",
            Self::AcmeSpec => "acme-spec",
            Self::AcmeBig => "acme-big",
            Self::AcmeModem => "acme-modem",
            Self::Heanet => "heanet",
            Self::WebBench => "webbench",
            Self::SpecWeb96 => "specweb96",
            Self::SpecWeb99 => "specweb99",
            Self::Mirror => "mirror",
        }
    }

    /// All names, for messages.
    fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TreeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let known = Self::ALL.into_iter().find(|name| name.as_str() == text);
        known.ok_or_else(|| NameError { name: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        for name in TreeName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn a_wrong_name_is_refused_with_all_that_there_are() {
        let error = "acme".parse::<TreeName>().unwrap_err().to_string();
        assert!(error.contains("`acme`"), "{error}");
        assert!(TreeName::ALL.iter().all(|name| error.contains(name.as_str())), "{error}");
    }
}
