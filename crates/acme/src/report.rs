//! Events that an operator wants to know of.

use std::fmt;
use std::time::SystemTime;

use crate::challenge::ChallengeKind;
use crate::problem::Problem;
use crate::time::timestamp;

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
    /// The control of a name could not be proved in one way, and is tried in another one now.
    NextChallenge {
        /// How the first one failed.
        problem: Problem,
        /// The other way.
        kind: ChallengeKind,
        /// When the certificate in use expires; `None` if there is none.
        expires: Option<SystemTime>,
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
    /// A file of the state directory is damaged or cannot be used; the client does without.
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
    /// It belongs in a log of errors.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::NextChallenge { .. } | Self::Failed { .. } | Self::Damaged { .. })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AccountCreated { url, replaces_lost: false } => write!(f, "ACME: new account {url}"),
            Self::AccountCreated { url, replaces_lost: true } => {
                write!(f, "ACME: the authority does not accept the stored account any more; new account {url}")
            }
            Self::Ordering { names, reason } => {
                write!(f, "ACME: ordering a certificate for {}: {reason}", names.join(", "))
            }
            Self::Obtained { names, expires, renewal } => write!(
                f,
                "ACME: obtained a certificate for {}, which expires at {} and will be renewed at {}",
                names.join(", "),
                timestamp(*expires),
                timestamp(*renewal)
            ),
            Self::RenewalMoved { renewal, explanation } => {
                write!(f, "ACME: the authority suggests to renew the certificate at {}", timestamp(*renewal))?;
                explanation.as_ref().map_or(Ok(()), |page| write!(f, "; it explains this at {page}"))
            }
            Self::NextChallenge { problem, kind, .. } => write!(f, "ACME: {problem}; trying {kind} now"),
            Self::Failed { problem, retry, expires } => {
                write!(f, "ACME: {problem}; next attempt at {}; ", timestamp(*retry))?;
                match expires {
                    Some(expires) => write!(f, "the certificate in use expires at {}", timestamp(*expires)),
                    None => write!(f, "there is no certificate yet"),
                }
            }
            Self::Damaged { problem } => write!(f, "ACME: {problem}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "there is none yet",
            Self::SettingsChanged => "the names or the authority have changed",
            Self::Due => "it is time to renew",
            Self::Continued => "an order that was begun is continued",
        })
    }
}
