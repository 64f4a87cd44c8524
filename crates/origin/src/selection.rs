//! The order in which the origins of a group are asked for one request, without regard to their
//! health.

use crate::config::Order;
use crate::message::AttemptPolicy;

/// Distributes requests by weight: each origin gets its share in every stretch of requests, evenly
/// spread (the smooth weighted round robin of nginx).
#[derive(Debug)]
pub(crate) struct Selector {
    order: Order,
    weights: Vec<i64>,
    /// The lead of each origin; the sum is zero.
    leads: Vec<i64>,
}

impl Selector {
    pub(crate) fn new(order: Order, weights: impl Iterator<Item = u32>) -> Self {
        let weights: Vec<_> = weights.map(i64::from).collect();
        Self { order, leads: vec![0; weights.len()], weights }
    }

    /// The places of the origins to ask, one after the other.
    pub(crate) fn order(&mut self, policy: &AttemptPolicy) -> Vec<usize> {
        let preferred = policy.preferred.filter(|place| *place < self.weights.len());
        if let Some(only) = preferred.filter(|_| policy.only_preferred) {
            return vec![only];
        }
        let mut places: Vec<_> = (0..self.weights.len()).collect();
        if self.order == Order::Weighted {
            for (lead, weight) in self.leads.iter_mut().zip(&self.weights) {
                *lead += weight;
            }
            places.sort_by_key(|place| -self.leads[*place]);
            self.leads[places[0]] -= self.weights.iter().sum::<i64>();
        }
        if let Some(preferred) = preferred {
            places.retain(|place| *place != preferred);
            places.insert(0, preferred);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firsts(order: Order, weights: &[u32], requests: usize) -> String {
        let mut selector = Selector::new(order, weights.iter().copied());
        let policy = AttemptPolicy::default();
        (0..requests).map(|_| char::from(b'a' + selector.order(&policy)[0] as u8)).collect()
    }

    #[test]
    fn shares_follow_the_weights_and_are_spread() {
        assert_eq!(firsts(Order::Failover, &[1, 5], 4), "aaaa");
        assert_eq!(firsts(Order::Weighted, &[1, 1], 4), "abab");
        assert_eq!(firsts(Order::Weighted, &[5, 1, 1], 14), "aabacaaaabacaa");
        let many = firsts(Order::Weighted, &[7, 3, 2], 1200);
        assert_eq!(["a", "b", "c"].map(|origin| many.matches(origin).count()), [700, 300, 200]);
    }

    #[test]
    fn each_origin_is_in_the_order_once_and_a_preferred_one_is_first() {
        let mut selector = Selector::new(Order::Weighted, [5, 1, 1].into_iter());
        for preferred in [None, Some(1), Some(2), Some(7)] {
            let mut places = selector.order(&AttemptPolicy { preferred, ..AttemptPolicy::default() });
            assert!(preferred.is_none_or(|place| place == 7 || places[0] == place), "{places:?}");
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2]);
        }
        let only = AttemptPolicy { preferred: Some(2), only_preferred: true, ..AttemptPolicy::default() };
        assert_eq!(selector.order(&only), [2]);
    }
}
