//! Weights of requests: how often each is chosen in proportion to the others.

use rand::Rng;
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

/// A greater one is taken for a mistake.
const WEIGHT_MAX: f64 = 1e100;

/// The weights of a list of requests, prepared for draws in constant time (the alias method of
/// Walker and Vose). They take 12 bytes a request.
#[derive(Debug)]
pub struct Weights {
    table: WeightedAliasIndex<f64>,
    count: usize,
}

/// Weights with which nothing can be drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WeightError {
    /// A weight is no positive number.
    #[error("a weight is greater than 0 and at most 1e100; {0} is not")]
    Weight(f64),
    /// There are more weights than requests, or fewer.
    #[error("{weights} weights for {requests} requests; each request has one")]
    Count {
        /// The weights.
        weights: usize,
        /// The requests.
        requests: usize,
    },
}

impl Weights {
    /// Prepares weights, one for each of `requests` requests.
    ///
    /// # Errors
    /// A weight is wrong, or their number is.
    pub fn new(weights: Vec<f64>, requests: usize) -> Result<Self, WeightError> {
        let count = weights.len();
        if count != requests || count == 0 {
            return Err(WeightError::Count { weights: count, requests });
        }
        if let Some(&wrong) = weights.iter().find(|&&weight| !is_weight(weight)) {
            return Err(WeightError::Weight(wrong));
        }
        let table = WeightedAliasIndex::new(weights).expect("positive numbers far below the greatest one");
        Ok(Self { table, count })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Draws the place of a request.
    pub(crate) fn draw(&self, random: &mut impl Rng) -> usize {
        self.table.sample(random)
    }
}

/// Whether a request can have this weight.
pub(crate) fn is_weight(weight: f64) -> bool {
    weight > 0.0 && weight <= WEIGHT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_nothing_can_be_drawn_with_are_refused() {
        let refused = |weights: &[f64], requests| Weights::new(weights.to_vec(), requests).unwrap_err();
        for wrong in [0.0, -1.0, f64::INFINITY, 1e101] {
            assert_eq!(refused(&[1.0, wrong], 2), WeightError::Weight(wrong));
        }
        assert!(matches!(refused(&[f64::NAN], 1), WeightError::Weight(_)));
        assert_eq!(refused(&[1.0], 2), WeightError::Count { weights: 1, requests: 2 });
        assert_eq!(refused(&[], 0), WeightError::Count { weights: 0, requests: 0 });
        assert!(Weights::new(vec![1e-300, 1e100], 2).is_ok());
    }
}
