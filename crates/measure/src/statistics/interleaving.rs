//! The order of the sides in an interleaved comparison: random by a seed, and balanced, so that
//! neither drift nor the place within a pair favours a side.

/// The order of `sides` sides in round `round`: of two sides A B or B A. Each second round is the
/// one before it backwards (A B B A or B A A B), so that a steady drift cancels out over both.
pub fn order(seed: u64, round: usize, sides: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).collect();
    let block = mixed(seed, round as u64 / 2);
    for last in (1..sides).rev() {
        let chosen = mixed(block, last as u64) % (last as u64 + 1);
        order.swap(last, chosen as usize);
    }
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// A number by chance that follows from both (SplitMix64).
fn mixed(seed: u64, position: u64) -> u64 {
    let mut z = seed.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_of_two_pairs_is_balanced_and_their_order_varies() {
        let blocks: Vec<[Vec<usize>; 2]> =
            (0..1000).map(|block| [order(7, 2 * block, 2), order(7, 2 * block + 1, 2)]).collect();
        assert!(blocks.iter().all(|[first, second]| first[0] == second[1] && first[1] == second[0]));
        let beginning_with_a = blocks.iter().filter(|[first, _]| first[0] == 0).count();
        assert!((450..550).contains(&beginning_with_a), "{beginning_with_a} of 1000");
    }

    #[test]
    fn rounds_are_permutations_and_come_in_mirrored_twos() {
        for round in (0..20).step_by(2) {
            let (forth, mut mirrored) = (order(3, round, 5), order(3, round + 1, 5));
            mirrored.reverse();
            assert_eq!(forth, mirrored);
            let mut sorted = forth;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert_ne!(order(3, 0, 5), order(4, 0, 5), "this seed gives another order");
    }
}
