//! Redirects among the responses of a trial: those that were followed, those that could not be, and
//! where one of these leads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a target and of a `Location` field that are kept.
const TEXT_BYTES_MAX: usize = 2048;

/// The redirects of one trial. Those that the load was not to follow are counted by their status
/// alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Redirects {
    /// Redirects that were followed. Each has cost a request beside those that were offered.
    pub followed: u64,
    /// Not followed, since they lead to another host, port or scheme.
    pub other_host: u64,
    /// Not followed, since they have no `Location` field, or none that is the address of something.
    pub no_location: u64,
    /// Not followed, since as many as are allowed had led there: a loop, or a long chain.
    pub too_many: u64,
    /// The first redirect that was not followed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sample: Option<RedirectSample>,
}

/// A redirect that was not followed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RedirectSample {
    /// The status of the response.
    pub status: u16,
    /// The target of its request: path and query.
    pub target: String,
    /// The response's `Location` field; empty if it has none.
    pub location: String,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFollowed {
    /// It leads to another host, port or scheme.
    OtherHost,
    /// It leads nowhere.
    NoLocation,
    /// As many as are allowed were followed before.
    TooMany,
}

impl Redirects {
    /// Counts a redirect that was not followed.
    pub fn record(&mut self, why: NotFollowed) {
        match why {
            NotFollowed::OtherHost => self.other_host += 1,
            NotFollowed::NoLocation => self.no_location += 1,
            NotFollowed::TooMany => self.too_many += 1,
        }
    }

    /// Adds the redirects of another load thread or trial.
    pub fn merge(&mut self, other: &Self) {
        self.followed += other.followed;
        self.other_host += other.other_host;
        self.no_location += other.no_location;
        self.too_many += other.too_many;
        if self.sample.is_none() {
            self.sample.clone_from(&other.sample);
        }
    }
}

impl RedirectSample {
    /// Keeps what is shown of a redirect. A peer may send anything: the texts are bounded, and what
    /// a terminal might obey becomes a question mark.
    pub fn of(status: u16, target: &[u8], location: Option<&[u8]>) -> Self {
        let shown = |text: &[u8]| {
            let kept = &text[..text.len().min(TEXT_BYTES_MAX)];
            kept.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' }).collect()
        };
        Self { status, target: shown(target), location: shown(location.unwrap_or_default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_add_up_and_the_first_sample_stays() {
        let sample = |location: &str| Some(RedirectSample::of(301, b"/a", Some(location.as_bytes())));
        let mut sum = Redirects { followed: 2, ..Redirects::default() };
        for why in [NotFollowed::OtherHost, NotFollowed::TooMany, NotFollowed::TooMany, NotFollowed::NoLocation] {
            sum.record(why);
        }
        sum.merge(&Redirects { followed: 1, other_host: 1, sample: sample("/b"), ..Redirects::default() });
        sum.merge(&Redirects { sample: sample("/c"), ..Redirects::default() });
        let expected = Redirects { followed: 3, other_host: 2, no_location: 1, too_many: 2, sample: sample("/b") };
        assert_eq!(sum, expected);
    }

    #[test]
    fn a_peer_cannot_make_a_location_long_or_dangerous() {
        assert_eq!(RedirectSample::of(302, b"/", Some(b"/\x1b[2J\xff")).location, "/?[2J?");
        assert_eq!(RedirectSample::of(302, b"/", Some(&[b'x'; 5000])).location.len(), TEXT_BYTES_MAX);
        assert_eq!(RedirectSample::of(302, b"/", None).location, "");
    }
}
