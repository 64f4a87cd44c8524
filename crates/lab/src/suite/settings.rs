//! The settings of a suite, and why one cannot be run.

use std::net::IpAddr;
use std::time::Duration;

use thalweg_load::{LoadError, PackError, TlsPlan};
use thalweg_report::document::SuiteName;
use thalweg_sys::DriverChoice;
use thalweg_trees::TreeError;

use crate::search::SearchError;

/// The clients of WebBench's mixes in the document: 1, 16, and up to 144 by 16.
pub const CLIENTS: [u32; 10] = [1, 16, 32, 48, 64, 80, 96, 112, 128, 144];

/// The pace of HEAnet's concurrent downloads, which the document does not name: that of ACME's
/// modems.
pub const PACE_BITS_PER_S: u64 = 33_600;

/// The settings of a suite beside its rules.
#[derive(Clone, Debug)]
pub struct SuiteSettings {
    /// The share of the suite's times and numbers that is run, above 0 and at most 1.
    pub scale: f64,
    /// The CPU of each load thread; never empty.
    pub cpus: Vec<usize>,
    /// The driver.
    pub driver: DriverChoice,
    /// Seed of the tree and of everything random in the load.
    pub seed: u64,
    /// Maximum time of a request; of a paced download without a byte.
    pub timeout: Duration,
    /// Local addresses of connections; none leaves the choice to the kernel.
    pub sources: Vec<IpAddr>,
    /// Further fields of all requests, such as credentials.
    pub fields: Vec<(String, String)>,
    /// TLS, where the target has it.
    pub tls: Option<TlsPlan>,
    /// The load for which the tree of specweb96 (operations per second) or specweb99 (connections)
    /// was made; `None`: the tree's default.
    pub load: Option<f64>,
    /// webbench: the clients of each mix, ascending.
    pub clients: Vec<u32>,
    /// webbench: the longest random delay before a client's first request.
    pub start_delay: Duration,
    /// heanet: the pace of its concurrent downloads.
    pub pace_bits_per_s: u64,
    /// acme-modem, heanet, specweb99: most connections tried; `None`: as many as this host allows.
    pub connections_max: Option<usize>,
    /// specweb99: the path of the dynamic requests; `None` leaves them out.
    pub dynamic: Option<String>,
}

impl SuiteSettings {
    /// The documents' own settings, for load threads on these CPUs.
    pub fn new(cpus: Vec<usize>) -> Self {
        Self {
            scale: 1.0,
            cpus,
            driver: DriverChoice::default(),
            seed: 1,
            timeout: Duration::from_secs(5),
            sources: Vec::new(),
            fields: Vec::new(),
            tls: None,
            load: None,
            clients: CLIENTS.to_vec(),
            start_delay: Duration::ZERO,
            pace_bits_per_s: PACE_BITS_PER_S,
            connections_max: None,
            dynamic: None,
        }
    }

    /// A time of the suite, scaled, and at least `least`.
    pub(super) fn time(&self, whole: Duration, least: Duration) -> Duration {
        whole.mul_f64(self.scale).max(least)
    }

    /// A number of the suite, scaled, and at least `least`.
    pub(super) fn number(&self, whole: u64, least: u64) -> u64 {
        ((whole as f64 * self.scale).round() as u64).max(least)
    }

    /// The departures from the document that the scale makes; none without one.
    pub(super) fn scaled(&self, what: &str) -> Option<String> {
        (self.scale < 1.0).then(|| format!("scaled by {}: {what}", self.scale))
    }
}

/// Why a suite cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The tree has no such setting.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A trial could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A search could not be made.
    #[error(transparent)]
    Search(SearchError),
    /// A request cannot be written.
    #[error("{path:?}: {source}")]
    Request {
        /// The path.
        path: String,
        /// The fault.
        source: PackError,
    },
    /// The server does not have the suite's tree.
    #[error("the tree of {suite} is not at {url}: {what}; write it with `thalweg files {files}` and serve DIR there")]
    NotThere {
        /// The suite.
        suite: SuiteName,
        /// The URL.
        url: String,
        /// The response to one of its files.
        what: String,
        /// The arguments that write it.
        files: String,
    },
    /// The server does not answer dynamic requests.
    #[error(
        "the dynamic requests beneath {path} are not all answered with 200 and the size of their file: {what}; have the \
        server forward {path}/ to `thalweg suite origin`, or leave --dynamic out"
    )]
    NotDynamic {
        /// Their path.
        path: String,
        /// The responses by status.
        what: String,
    },
    /// This host lacks what the connections need.
    #[error("{0}")]
    Host(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_scaled() {
        let check = |scale: f64, time: Duration, number: u64| {
            let settings = SuiteSettings { scale, ..SuiteSettings::new(vec![0]) };
            assert_eq!(settings.time(Duration::from_secs(300), Duration::from_secs(2)), time, "{scale}");
            assert_eq!(settings.number(5000, 20), number, "{scale}");
            assert_eq!(settings.scaled("less").is_some(), scale < 1.0, "{scale}");
        };
        check(1.0, Duration::from_secs(300), 5000);
        check(0.01, Duration::from_secs(3), 50);
        check(0.001, Duration::from_secs(2), 20);
        let settings = SuiteSettings { scale: 0.25, ..SuiteSettings::new(vec![0]) };
        assert_eq!(settings.scaled("less").unwrap(), "scaled by 0.25: less");
    }
}
