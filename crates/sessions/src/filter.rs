//! Which requests of a log are taken.

use globset::GlobSet;
use thalweg_formats::access_log::LogLine;

use crate::method::LoggedMethod;

/// Which requests are taken: those that meet all conditions.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Statuses; none: all, and lines without one.
    pub statuses: Vec<StatusRange>,
    /// Methods.
    pub methods: Methods,
    /// Paths, of which one has to match; none: all.
    pub include: Option<GlobSet>,
    /// Paths that are left out.
    pub exclude: Option<GlobSet>,
    /// From this second on, since 1970-01-01 00:00:00 UTC.
    pub from_unix_s: Option<i64>,
    /// Before this second.
    pub to_unix_s: Option<i64>,
    /// The virtual host, which then has to stand at the beginning of each line.
    pub host: Option<String>,
    /// The share of clients, from 0 to 1; which ones depends on the seed and on nothing else.
    pub sample: Option<(f64, u64)>,
}

/// Statuses from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange(pub u16, pub u16);

/// A set of methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods(u8);

impl Default for Methods {
    /// GET, HEAD and POST.
    fn default() -> Self {
        [LoggedMethod::Get, LoggedMethod::Head, LoggedMethod::Post].into_iter().collect()
    }
}

impl FromIterator<LoggedMethod> for Methods {
    fn from_iter<I: IntoIterator<Item = LoggedMethod>>(methods: I) -> Self {
        Self(methods.into_iter().fold(0, |set, method| set | 1 << method as u8))
    }
}

impl Methods {
    pub(crate) fn contains(self, method: LoggedMethod) -> bool {
        self.0 & 1 << method as u8 != 0
    }
}

impl Filter {
    pub(crate) fn takes_time(&self, unix_s: i64) -> bool {
        self.from_unix_s.is_none_or(|from| unix_s >= from) && self.to_unix_s.is_none_or(|to| unix_s < to)
    }

    pub(crate) fn takes_status(&self, line: &LogLine<'_>) -> bool {
        self.statuses.is_empty()
            || line.status.is_some_and(|status| {
                self.statuses.iter().any(|&StatusRange(first, last)| (first..=last).contains(&status))
            })
    }

    /// `path` comes without a query.
    pub(crate) fn takes_path(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|globs| globs.is_match(path))
            && !self.exclude.as_ref().is_some_and(|globs| globs.is_match(path))
    }

    pub(crate) fn takes_client(&self, client: &[u8]) -> bool {
        self.sample.is_none_or(|(share, seed)| unit_interval(client, seed) < share)
    }
}

/// A number from 0 to 1 that a client and a seed determine in every version of the program: FNV-1a,
/// whose bits are mixed as by SplitMix64's last step.
fn unit_interval(client: &[u8], seed: u64) -> f64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut hash =
        client.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_share_of_the_clients_and_depends_on_the_seed() {
        let taken = |seed| {
            let filter = Filter { sample: Some((0.1, seed)), ..Filter::default() };
            let clients =
                (0..100_000_u32).map(|number| format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255));
            clients
                .enumerate()
                .filter(|(_, client)| filter.takes_client(client.as_bytes()))
                .map(|(number, _)| number)
                .collect::<Vec<_>>()
        };
        let (first, second) = (taken(0), taken(1));
        // Ten standard deviations of a binomial distribution are 949.
        assert!(first.len().abs_diff(10_000) < 949 && second.len().abs_diff(10_000) < 949);
        let both = first.iter().filter(|number| second.binary_search(number).is_ok()).count();
        assert!(both.abs_diff(1_000) < 320, "the samples of two seeds are independent: {both}");
    }
}
