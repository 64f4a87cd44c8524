//! The choice of the next request from a list.
//!
//! A thread chooses by itself: in sequence it takes every `threads`-th place of the list, at random
//! it draws from a stream of its own.

use std::str::FromStr;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

use crate::request::RequestList;
use crate::weights::Weights;

/// The exponent of `zipf` alone: requests for web pages are near it.
const EXPONENT_DEFAULT: f64 = 1.0;

/// Beyond this the second request of a list is not sent in any run.
const EXPONENT_MAX: f64 = 20.0;

/// Keeps the choice's random numbers apart from those that arrivals draw from the same seed.
const STREAM: u64 = 0x63_686f_6963_6500;

/// The order in which requests are taken from the list.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Pick {
    /// One after the other, and from the start again.
    #[default]
    Sequential,
    /// Each with the same probability.
    Random,
    /// By rank, which is the place in the list: number *k* with a probability in proportion to `1 /
    /// k^exponent`.
    Zipf(f64),
    /// Each with a probability in proportion to its weight ([`RequestList::weighted`]).
    Weighted,
}

/// A text that names no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    /// Another name.
    #[error("`{0}` is unknown; expected sequential, random, zipf, zipf:EXPONENT or weighted")]
    Name(String),
    /// An exponent that is none.
    #[error("`{0}` is not an exponent from 0 to {EXPONENT_MAX}; expected for example zipf:1.0")]
    Exponent(String),
}

impl FromStr for Pick {
    type Err = PickError;

    fn from_str(text: &str) -> Result<Self, PickError> {
        match text.split_once(':') {
            None if text == "sequential" => Ok(Self::Sequential),
            None if text == "random" => Ok(Self::Random),
            None if text == "weighted" => Ok(Self::Weighted),
            None if text == "zipf" => Ok(Self::Zipf(EXPONENT_DEFAULT)),
            Some(("zipf", exponent)) => {
                let value = exponent.parse().ok().filter(|value| (0.0..=EXPONENT_MAX).contains(value));
                value.map(Self::Zipf).ok_or_else(|| PickError::Exponent(exponent.to_owned()))
            }
            _ => Err(PickError::Name(text.to_owned())),
        }
    }
}

/// Chooses for one thread. Each choice costs constant time and allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    count: usize,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Sequential { next: usize, step: usize },
    Random(Pcg64Mcg),
    Zipf(Pcg64Mcg, Zipf<f64>),
    Weighted(Pcg64Mcg, Arc<Weights>),
}

/// The list from which a thread chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices<'a> {
    /// How many requests it has.
    pub count: usize,
    /// Their weights, if they have some.
    pub weights: Option<&'a Arc<Weights>>,
}

impl<'a> Choices<'a> {
    /// The choices that a list gives. Nothing is ever chosen from an empty one, whose requests come
    /// from elsewhere.
    pub(crate) fn of(requests: &'a RequestList) -> Self {
        Self { count: requests.len().max(1), weights: requests.weights() }
    }
}

impl Chooser {
    /// Chooses from a list, for thread `thread` of `threads`.
    ///
    /// # Panics
    /// The list is empty, it has no weights for [`Pick::Weighted`], there is no such thread, or a
    /// Zipf exponent is out of bounds.
    pub(crate) fn new(pick: Pick, choices: Choices<'_>, seed: u64, thread: usize, threads: usize) -> Self {
        let Choices { count, weights } = choices;
        assert!(count > 0 && thread < threads, "there is a list and a thread");
        let random = || Pcg64Mcg::seed_from_u64(seed ^ STREAM ^ (thread as u64).rotate_left(32));
        let way = match pick {
            Pick::Sequential => Way::Sequential { next: thread % count, step: threads % count },
            Pick::Random => Way::Random(random()),
            Pick::Zipf(exponent) => {
                let ranks = Zipf::new(count as f64, exponent).expect("the exponent is not negative");
                Way::Zipf(random(), ranks)
            }
            Pick::Weighted => Way::Weighted(random(), weights.expect("the list has weights").clone()),
        };
        Self { count, way }
    }

    /// The next request's place in the list.
    pub(crate) fn choose(&mut self) -> usize {
        match &mut self.way {
            Way::Sequential { next, step } => {
                let chosen = *next;
                *next += *step;
                if *next >= self.count {
                    *next -= self.count;
                }
                chosen
            }
            Way::Random(random) => random.random_range(0..self.count),
            Way::Weighted(random, weights) => weights.draw(random),
            // Ranks are whole numbers from 1 on; rounding may reach one beyond the last of a very
            // long list.
            Way::Zipf(random, ranks) => (ranks.sample(random) as usize).clamp(1, self.count) - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ChiSquared, ContinuousCDF};
    use thalweg_trees::{Tree, TreeName, TreeSettings};

    use super::*;

    const SEED: u64 = 20_260_301;

    fn unweighted(count: usize) -> Choices<'static> {
        Choices { count, weights: None }
    }

    #[test]
    fn orders_are_read_or_refused() {
        let read = |text: &str| text.parse::<Pick>();
        assert_eq!(read("sequential"), Ok(Pick::Sequential));
        assert_eq!(read("random"), Ok(Pick::Random));
        assert_eq!(read("zipf"), Ok(Pick::Zipf(1.0)));
        assert_eq!(read("zipf:0.8"), Ok(Pick::Zipf(0.8)));
        assert_eq!(read("weighted"), Ok(Pick::Weighted));
        for wrong in ["", "Zipf", "sequential:1", "zipf1"] {
            assert_eq!(read(wrong), Err(PickError::Name(wrong.to_owned())));
        }
        for wrong in ["", "x", "-1", "nan", "inf", "21"] {
            assert_eq!(read(&format!("zipf:{wrong}")), Err(PickError::Exponent(wrong.to_owned())));
        }
    }

    #[test]
    fn threads_share_the_sequence() {
        let taken = |count, thread, threads| {
            let mut chooser = Chooser::new(Pick::Sequential, unweighted(count), SEED, thread, threads);
            std::array::from_fn::<usize, 6, _>(|_| chooser.choose())
        };
        assert_eq!(taken(4, 0, 1), [0, 1, 2, 3, 0, 1]);
        assert_eq!(taken(5, 1, 2), [1, 3, 0, 2, 4, 1]);
        assert_eq!(taken(4, 1, 2), [1, 3, 1, 3, 1, 3]);
        assert_eq!(taken(3, 7, 8), [1, 0, 2, 1, 0, 2]);
        assert_eq!(taken(1, 3, 4), [0; 6]);
    }

    #[test]
    fn the_seed_decides_and_threads_differ() {
        for pick in [Pick::Random, Pick::Zipf(1.0)] {
            let taken = |seed, thread| {
                let mut chooser = Chooser::new(pick, unweighted(1000), seed, thread, 2);
                std::array::from_fn::<usize, 20, _>(|_| chooser.choose())
            };
            assert_eq!(taken(1, 0), taken(1, 0));
            assert_ne!(taken(1, 0), taken(1, 1));
            assert_ne!(taken(1, 0), taken(2, 0));
        }
    }

    /// Pearson's test: what was drawn fits `weight` of each place, at a level that one seed in a
    /// thousand misses.
    fn check_fits(pick: Pick, count: usize, weight: impl Fn(usize) -> f64) {
        const DRAWS: usize = 200_000;
        let mut drawn = vec![0.0; count];
        let weights = Arc::new(Weights::new((0..count).map(&weight).collect(), count).unwrap());
        let mut chooser = Chooser::new(pick, Choices { count, weights: Some(&weights) }, SEED, 0, 1);
        for _ in 0..DRAWS {
            drawn[chooser.choose()] += 1.0;
        }
        let sum: f64 = (0..count).map(&weight).sum();
        let distance = |(place, drawn): (usize, f64)| {
            let expected = DRAWS as f64 * weight(place) / sum;
            assert!(expected >= 5.0, "the test needs more draws than {expected} at {place}");
            (drawn - expected).powi(2) / expected
        };
        let chi_squared: f64 = drawn.into_iter().enumerate().map(distance).sum();
        let probability = 1.0 - ChiSquared::new((count - 1) as f64).unwrap().cdf(chi_squared);
        assert!(probability > 1e-3, "{pick:?} of {count}, seed {SEED}: {chi_squared} has probability {probability}");
    }

    #[test]
    fn choices_have_the_distribution_that_was_asked_for() {
        check_fits(Pick::Random, 100, |_| 1.0);
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.2, 2.0] {
            check_fits(Pick::Zipf(exponent), 60, |place| ((place + 1) as f64).powf(-exponent));
        }
        check_fits(Pick::Zipf(1.0), 2, |place| 1.0 / (place + 1) as f64);
        check_fits(Pick::Zipf(0.8), 1000, |place| ((place + 1) as f64).powf(-0.8));
        check_fits(Pick::Weighted, 100, |place| f64::from([3, 1, 10, 1][place % 4]));
        check_fits(Pick::Weighted, 1000, |place| ((place + 1) as f64).powf(-0.8) * 1e-9);
    }

    /// Classes, files of a class and directories get their shares as SPECweb99's rules have them:
    /// within 1 %, or three standard deviations where these are more.
    ///
    /// Of a million requests the rarest class has 10,000, whose standard deviation alone is 1 %, so
    /// that twenty million are drawn as well.
    #[test]
    fn requests_have_the_shares_of_specweb99() {
        let settings = TreeSettings { load: Some(1000.0), ..TreeSettings::default() };
        let tree = Tree::new(TreeName::SpecWeb99, &settings).unwrap();
        let count = tree.files().len();
        let weights = tree.files().iter().map(|file| file.weight).collect();
        let weights = Arc::new(Weights::new(weights, count).unwrap());
        let mut chooser = Chooser::new(Pick::Weighted, Choices { count, weights: Some(&weights) }, SEED, 0, 1);
        let mut drawn = vec![0_u64; count];
        for draws in [1_000_000, 20_000_000] {
            while drawn.iter().sum::<u64>() < draws {
                (0..1_000_000).for_each(|_| drawn[chooser.choose()] += 1);
            }
            check_shares_of_specweb99(&drawn, draws as f64);
        }
    }

    fn check_shares_of_specweb99(drawn: &[u64], draws: f64) {
        let check = |group: &dyn Fn(usize) -> usize, expected: &[f64]| {
            for (number, expected) in expected.iter().enumerate() {
                let found: u64 =
                    (0..drawn.len()).filter(|&place| group(place) == number).map(|place| drawn[place]).sum();
                let deviation = (expected * (1.0 - expected) / draws).sqrt();
                let apart = (found as f64 / draws - expected).abs();
                assert!(apart < (0.01 * expected).max(3.0 * deviation), "{number}: {found} of {draws}, not {expected}");
            }
        };
        check(&|place| place % 36 / 9, &[0.35, 0.50, 0.14, 0.01]);
        check(&|place| place % 9, &[0.0393, 0.0589, 0.0884, 0.1178, 0.3535, 0.1767, 0.0707, 0.0505, 0.0442]);
        let directories = drawn.len() / 36;
        let harmonic: f64 = (1..=directories).map(|rank| 1.0 / rank as f64).sum();
        let zipf: Vec<f64> = (1..=directories).map(|rank| 1.0 / rank as f64 / harmonic).collect();
        check(&|place| place / 36, &zipf[..10]);
        let found = drawn.chunks(36).map(|files| files.iter().sum::<u64>() as f64 / draws);
        let distance: f64 = found.zip(&zipf).map(|(found, p)| (found - p).powi(2) / p).sum();
        let probability = 1.0 - ChiSquared::new((directories - 1) as f64).unwrap().cdf(distance * draws);
        assert!(probability > 1e-3, "seed {SEED}: {distance} has probability {probability}");
    }

    #[test]
    fn every_choice_is_in_the_list() {
        for count in [1, 2, 3, usize::MAX >> 11] {
            for pick in [Pick::Random, Pick::Zipf(0.0), Pick::Zipf(1.0), Pick::Zipf(EXPONENT_MAX)] {
                let mut chooser = Chooser::new(pick, unweighted(count), SEED, 1, 2);
                assert!((0..1000).all(|_| chooser.choose() < count), "{pick:?} of {count}");
            }
        }
    }
}
