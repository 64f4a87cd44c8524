//! The evidence that a search has collected.

use thalweg_measure::search::SearchResult;
use thalweg_report::document::Trial;

use crate::evidence::{Diagnosis, SecondClient};

/// Everything that a search has collected.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The result of the search.
    pub result: &'a SearchResult,
    /// The client's ceiling against the sink, requests per second.
    pub ceiling: f64,
    /// Every trial in order.
    pub trials: &'a [Trial],
    /// Client and target share this host.
    pub shared_host: bool,
    /// The overload that was made for the evidence, if there was an upper bound to exceed.
    pub diagnosis: Option<&'a Diagnosis>,
    /// One client process against two.
    pub second_client: &'a SecondClient,
}
