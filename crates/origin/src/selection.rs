//! The order in which the origins of a group are asked for one object, without regard to their
//! health.
//!
//! By weight, each origin has its share of the objects (weighted rendezvous hashing): so all parts
//! of one object come from one origin, and an origin that is added or removed moves its own share
//! alone.

use crate::config::Order;
use crate::message::AttemptPolicy;

/// Chooses origins.
#[derive(Debug)]
pub(crate) struct Selector {
    order: Order,
    /// The names and weights.
    origins: Vec<(Box<str>, u32)>,
}

impl Selector {
    pub(crate) fn new<'a>(order: Order, origins: impl Iterator<Item = (&'a str, u32)>) -> Self {
        Self { order, origins: origins.map(|(name, weight)| (name.into(), weight)).collect() }
    }

    /// The places of the origins to ask for an object, one after the other.
    pub(crate) fn order(&self, object: &str, policy: &AttemptPolicy) -> Vec<usize> {
        let preferred = policy.preferred.filter(|place| *place < self.origins.len());
        if let Some(only) = preferred.filter(|_| policy.only_preferred) {
            return vec![only];
        }
        let mut places: Vec<_> = (0..self.origins.len()).collect();
        if self.order == Order::Weighted {
            let scores: Vec<_> = self.origins.iter().map(|(name, weight)| score(object, name, *weight)).collect();
            places.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
        }
        if let Some(preferred) = preferred {
            places.retain(|place| *place != preferred);
            places.insert(0, preferred);
        }
        places
    }
}

/// The score of an origin for an object: the origin with the greatest one has it. With `u` evenly
/// distributed between 0 and 1, `-weight / ln(u)` is the greatest in proportion to the weights.
fn score(object: &str, name: &str, weight: u32) -> f64 {
    let hash = mixed(fnv(fnv(FNV_BASIS, name.as_bytes()) ^ 0xff, object.as_bytes()));
    // 53 bits, and never 0 or 1.
    let even = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -f64::from(weight) / even.ln()
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of 64 bits, which stays the same from start to start.
fn fnv(basis: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(basis, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The last step of splitmix64: each bit depends on all.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(order: Order, weights: &[u32]) -> Selector {
        let names = ["a", "b", "c"];
        Selector::new(order, names.into_iter().zip(weights.iter().copied()))
    }

    fn first(selector: &Selector, number: usize) -> usize {
        selector.order(&format!("/pool/{number}.iso"), &AttemptPolicy::default())[0]
    }

    fn shares(weights: &[u32]) -> [usize; 3] {
        let selector = selector(Order::Weighted, weights);
        let mut shares = [0; 3];
        (0..12_000).for_each(|number| shares[first(&selector, number)] += 1);
        shares
    }

    #[test]
    fn shares_follow_the_weights() {
        let check = |weights: &[u32], expected: [usize; 3]| {
            let found = shares(weights);
            let is_near = found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 300);
            assert!(is_near, "{weights:?}: {found:?}");
        };
        check(&[1], [12_000, 0, 0]);
        check(&[1, 1], [6000, 6000, 0]);
        check(&[7, 3, 2], [7000, 3000, 2000]);
        check(&[1, 0xffff_ffff], [0, 12_000, 0]);
        assert_eq!(selector(Order::Failover, &[1, 5]).order("/a", &AttemptPolicy::default()), [0, 1]);
    }

    #[test]
    fn an_object_stays_with_its_origin() {
        let (two, three) = (selector(Order::Weighted, &[3, 2]), selector(Order::Weighted, &[3, 2, 1]));
        for number in 0..2000 {
            let (before, after) = (first(&two, number), first(&three, number));
            assert_eq!(before, first(&two, number));
            assert!(after == before || after == 2, "{number}: an added origin takes from others alone");
        }
    }

    #[test]
    fn each_origin_is_in_the_order_once_and_a_preferred_one_is_first() {
        let selector = selector(Order::Weighted, &[5, 1, 1]);
        for preferred in [None, Some(1), Some(2), Some(7)] {
            let mut places = selector.order("/a", &AttemptPolicy { preferred, ..AttemptPolicy::default() });
            assert!(preferred.is_none_or(|place| place == 7 || places[0] == place), "{places:?}");
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2]);
        }
        let only = AttemptPolicy { preferred: Some(2), only_preferred: true, ..AttemptPolicy::default() };
        assert_eq!(selector.order("/a", &only), [2]);
    }
}
