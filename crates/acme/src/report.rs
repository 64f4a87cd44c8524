//! Events that an operator wants to know of.

use std::fmt;
use std::time::SystemTime;

use crate::problem::Problem;

/// An event. `Display` gives a line for a log.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Report {
    /// The authority has an account for this server now.
    AccountCreated {
        /// The account's URL.
        url: String,
        /// An account was known before, and the authority does not accept it any more.
        replaces_lost: bool,
    },
    /// A certificate is being ordered.
    Ordering {
        /// The names that it will be for.
        names: Vec<String>,
        /// Why now.
        reason: Reason,
    },
    /// A certificate was obtained and is stored.
    Obtained {
        /// The names that it is for.
        names: Vec<String>,
        /// When it expires.
        expires: SystemTime,
        /// When it will be renewed.
        renewal: SystemTime,
    },
    /// A certificate will be renewed at another time than announced before, because the authority
    /// suggests so (RFC 9773).
    RenewalMoved {
        /// When it will be renewed.
        renewal: SystemTime,
        /// A page of the authority that explains why.
        explanation: Option<String>,
    },
    /// An attempt has failed. The certificate in use stays in use.
    Failed {
        /// Why.
        problem: Problem,
        /// When the next attempt is.
        retry: SystemTime,
        /// When the certificate in use expires; `None` if there is none.
        expires: Option<SystemTime>,
    },
    /// A file of the state directory was damaged and is left out.
    Damaged {
        /// Which one, and why.
        problem: Problem,
    },
}

/// Why a certificate is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// There is none.
    First,
    /// The one in use is for other names, or from another authority.
    SettingsChanged,
    /// Its time to be renewed has come.
    Due,
    /// An order that was begun before is continued.
    Continued,
}

impl Report {
    /// It should be in an error log, not in one of events alone.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Damaged { .. })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
