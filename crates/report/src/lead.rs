//! Which of several figures is the highest, as far as intervals and lower bounds let one say.

use super::words;

/// The figure of one server, of a kind of which more is better.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    /// The server.
    pub(super) server: &'a str,
    /// Its figure.
    pub(super) value: f64,
    /// The interval that holds the figure with 95 % probability.
    pub(super) interval95: Option<[f64; 2]>,
    /// Whether the figure is a lower bound.
    pub(super) at_least: bool,
}

/// The highest figure of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lead<'a> {
    /// One server has it.
    Alone {
        /// This server.
        first: &'a str,
        /// The server with the next figure.
        second: &'a str,
        /// The first figure over the second; infinite if the second is 0.
        ratio: f64,
        /// Whether the ratio is a lower bound.
        at_least: bool,
    },
    /// Several have the same exact figure.
    Shared(Vec<&'a str>),
    /// Others may have a higher one.
    Open {
        /// Those with the highest value: the first one, and those that are equal to it.
        highest: Vec<&'a str>,
        /// Those whose interval reaches that of the first.
        overlapping: Vec<&'a str>,
        /// Those that have a lower bound alone.
        bounds: Vec<&'a str>,
    },
}

impl Entry<'_> {
    fn low(&self) -> f64 {
        self.interval95.map_or(self.value, |[low, _]| low)
    }

    fn high(&self) -> f64 {
        self.interval95.map_or(self.value, |[_, high]| high)
    }

    fn is_exact(&self) -> bool {
        !self.at_least && self.interval95.is_none()
    }
}

impl<'a> Lead<'a> {
    /// The lead among these figures; `None` with fewer than two.
    pub(super) fn of(entries: &[Entry<'a>]) -> Option<Self> {
        let mut entries = entries.to_vec();
        // Of equal figures, a lower bound is first: what it stands for may be higher.
        entries.sort_by(|a, b| b.value.total_cmp(&a.value).then(b.at_least.cmp(&a.at_least)));
        let (first, others) = entries.split_first()?;
        let second = others.first()?;
        let is_equal = |other: &&Entry<'a>| first.is_exact() && other.is_exact() && other.value == first.value;
        // A lower bound is at least equal to an exact figure of the same value.
        let overlaps = |other: &&Entry<'a>| match first.at_least && first.interval95.is_none() {
            true => other.high() > first.value,
            false => other.high() >= first.low(),
        };
        let names = |of: &dyn Fn(&&Entry<'a>) -> bool| others.iter().filter(of).map(|other| other.server).collect();
        let equal: Vec<&str> = names(&|other| is_equal(other));
        let bounds: Vec<&str> = names(&|other| other.at_least);
        let overlapping: Vec<&str> = names(&|other| !other.at_least && !is_equal(other) && overlaps(other));
        let highest: Vec<&str> = [first.server].into_iter().chain(equal).collect();
        Some(if !bounds.is_empty() || !overlapping.is_empty() {
            Self::Open { highest, overlapping, bounds }
        } else if highest.len() > 1 {
            Self::Shared(highest)
        } else {
            let ratio = first.value / second.value;
            Self::Alone { first: first.server, second: second.server, ratio, at_least: first.at_least }
        })
    }

    /// Whether this server is the first, or may be.
    pub(super) fn may_be_first(&self, server: &str) -> bool {
        match self {
            Self::Alone { first, .. } => *first == server,
            Self::Shared(all) => all.contains(&server),
            Self::Open { highest, overlapping, bounds } => {
                [highest, overlapping, bounds].iter().any(|names| names.contains(&server))
            }
        }
    }

    /// The lead as a clause.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Alone { first, second, ratio, .. } if ratio.is_infinite() => {
                format!("{first} is first, and {second} has 0")
            }
            Self::Alone { first, second, ratio, at_least } => {
                let at_least = if *at_least { "at least " } else { "" };
                format!("{first} is first, with {at_least}{ratio:.2} times the figure of {second}")
            }
            Self::Shared(all) => format!("{} share the highest figure", listed(all)),
            Self::Open { highest, overlapping, bounds } => open_in_words(highest, overlapping, bounds),
        }
    }
}

fn open_in_words(highest: &[&str], overlapping: &[&str], bounds: &[&str]) -> String {
    let has = if highest.len() == 1 { "has" } else { "have" };
    let why_bounds = if bounds.len() == 1 { "it has a lower bound alone" } else { "they have lower bounds alone" };
    let others = match (overlapping.is_empty(), bounds.is_empty()) {
        (_, true) => format!("{} may have a higher one (their intervals overlap)", listed(overlapping)),
        (true, false) => format!("{} may have a higher one ({why_bounds})", listed(bounds)),
        (false, false) => format!(
            "{} may have a higher one (their intervals overlap), and so may {} ({why_bounds})",
            listed(overlapping),
            listed(bounds)
        ),
    };
    format!("{} {has} the highest figure; {others}", listed(highest))
}

fn listed(names: &[&str]) -> String {
    words::enumerated(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// The ratio of `entry` to the highest figure of its row; `None` if that one is the entry itself,
/// is 0, or bounds on both sides leave the ratio open.
pub(super) fn ratio_to_first(entry: &Entry<'_>, entries: &[Entry<'_>]) -> Option<String> {
    let first = entries.iter().max_by(|a, b| a.value.total_cmp(&b.value).then(a.at_least.cmp(&b.at_least)))?;
    if first.server == entry.server || first.value <= 0.0 || (first.at_least && entry.at_least) {
        return None;
    }
    let bound = match (first.at_least, entry.at_least) {
        (true, _) => "at most ",
        (_, true) => "at least ",
        _ => "",
    };
    let ratio = entry.value / first.value;
    let decimals = if ratio < 0.1 { 4 } else { 2 };
    Some(format!("{bound}{ratio:.decimals$} of {}", first.server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(server: &str, value: f64) -> Entry<'_> {
        Entry { server, value, interval95: None, at_least: false }
    }

    fn within(server: &str, value: f64, low: f64, high: f64) -> Entry<'_> {
        Entry { interval95: Some([low, high]), ..exact(server, value) }
    }

    fn at_least(server: &str, value: f64) -> Entry<'_> {
        Entry { at_least: true, ..exact(server, value) }
    }

    #[test]
    fn the_lead_is_told_as_far_as_it_is_known() {
        #[track_caller]
        fn check(entries: &[Entry<'_>], words: &str, leaders: &[&str]) {
            let lead = Lead::of(entries).unwrap();
            assert_eq!(lead.in_words(), words);
            let may_be_first: Vec<&str> =
                entries.iter().map(|entry| entry.server).filter(|server| lead.may_be_first(server)).collect();
            assert_eq!(may_be_first, leaders);
        }
        let a = exact("A", 100.0);
        check(&[exact("B", 50.0), a], "A is first, with 2.00 times the figure of B", &["A"]);
        check(&[a, exact("B", 0.0)], "A is first, and B has 0", &["A"]);
        check(&[a, exact("B", 100.0), exact("C", 3.0)], "A and B share the highest figure", &["A", "B"]);
        check(&[exact("A", 0.0), exact("B", 0.0)], "A and B share the highest figure", &["A", "B"]);
        check(
            &[at_least("A", 100.0), exact("B", 80.0)],
            "A is first, with at least 1.25 times the figure of B",
            &["A"],
        );
        let words = "A is first, with at least 1.00 times the figure of B";
        check(&[exact("B", 100.0), at_least("A", 100.0)], words, &["A"]);
        let words = "A has the highest figure; B may have a higher one (it has a lower bound alone)";
        check(&[a, at_least("B", 98.0)], words, &["A", "B"]);
        check(&[at_least("A", 100.0), at_least("B", 98.0)], words, &["A", "B"]);
        let words = "A has the highest figure; B and C may have a higher one (they have lower bounds alone)";
        check(&[a, at_least("B", 98.0), at_least("C", 5.0)], words, &["A", "B", "C"]);
        let words = "A has the highest figure; B and C may have a higher one (their intervals overlap)";
        let a_within = within("A", 100.0, 94.0, 106.0);
        check(
            &[a_within, within("B", 98.0, 92.0, 104.0), within("C", 93.0, 90.0, 96.0), within("D", 90.0, 89.0, 91.0)],
            words,
            &["A", "B", "C"],
        );
        check(&[a_within, within("B", 90.0, 89.0, 93.0)], "A is first, with 1.11 times the figure of B", &["A"]);
        let words = "A has the highest figure; B may have a higher one (their intervals overlap), and so may C (it has a \
                     lower bound alone)";
        check(&[a_within, exact("B", 95.0), at_least("C", 10.0)], words, &["A", "B", "C"]);
        let words = "A and B have the highest figure; C may have a higher one (it has a lower bound alone)";
        check(&[a, exact("B", 100.0), at_least("C", 10.0)], words, &["A", "B", "C"]);
        assert_eq!(Lead::of(&[a]), None);
    }

    #[test]
    fn each_other_server_has_its_ratio_to_the_first() {
        let ratio = |own: Entry<'_>, other: Entry<'_>| ratio_to_first(&own, &[own, other]);
        assert_eq!(ratio(exact("B", 50.0), exact("A", 100.0)).unwrap(), "0.50 of A");
        assert_eq!(ratio(exact("B", 1.0), exact("A", 100.0)).unwrap(), "0.0100 of A");
        assert_eq!(ratio(at_least("B", 50.0), exact("A", 100.0)).unwrap(), "at least 0.50 of A");
        assert_eq!(ratio(exact("B", 50.0), at_least("A", 100.0)).unwrap(), "at most 0.50 of A");
        assert_eq!(ratio(at_least("B", 50.0), at_least("A", 100.0)), None);
        assert_eq!(ratio(exact("A", 100.0), exact("B", 50.0)), None);
        assert_eq!(ratio(exact("A", 0.0), exact("B", 0.0)), None);
    }
}
