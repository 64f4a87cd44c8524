//! One client process against two at the same total.

use thalweg_report::document::{Finding, LimitedBy, Strength};
use thalweg_units::display;

use super::collected::Evidence;
use crate::evidence::SecondClient;

const KIND: &str = "two clients";

/// The growth of the goodput from which on two processes carry more than one.
const BETTER: f64 = 1.05;

pub(super) fn findings(seen: &Evidence<'_>) -> Vec<Finding> {
    let finding = match seen.second_client {
        SecondClient::NotNeeded => None,
        SecondClient::NoSpareCpu => Some(Finding::context(
            KIND,
            "a second client process was not tried: there was no idle CPU for it".to_owned(),
        )),
        SecondClient::Failed(error) => {
            Some(Finding::context(KIND, format!("a second client process was not tried: {error}")))
        }
        SecondClient::Compared(compared) => {
            let [offered, one, two] = [compared.offered, compared.one, compared.two].map(display::rate);
            let figures = format!("of {offered} in all, one client process carried {one} and two of them {two}");
            let finding = if compared.two >= BETTER * compared.one {
                let sentence = format!("{figures}: the client was the limit");
                Finding::of(LimitedBy::Client, Strength::Proves, KIND, sentence).caused_by("client CPU")
            } else {
                Finding::context(KIND, format!("{figures}: a second one does not help"))
            };
            Some(finding.figure("one", compared.one).figure("two", compared.two))
        }
    };
    finding.into_iter().collect()
}
