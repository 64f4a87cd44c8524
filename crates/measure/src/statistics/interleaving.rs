//! The order of the sides in an interleaved comparison: random by a seed, and balanced, so that
//! neither drift nor the place within a pair favours a side.

/// Whether pair `pair` begins with A. Of each two pairs one does, in an order by chance: A B B A or
/// B A A B. A steady drift cancels out over such four rounds.
pub fn begins_with_a(seed: u64, pair: usize) -> bool {
    let block_begins_with_a = mixed(seed, pair as u64 / 2) & 1 == 0;
    block_begins_with_a == pair.is_multiple_of(2)
}

/// The order of `levels` levels in cycle `cycle`. Each second cycle is the one before it backwards,
/// for the same reason.
pub fn cycle_order(seed: u64, cycle: usize, levels: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..levels).collect();
    let block = mixed(seed, cycle as u64 / 2);
    for last in (1..levels).rev() {
        let chosen = mixed(block, last as u64) % (last as u64 + 1);
        order.swap(last, chosen as usize);
    }
    if cycle % 2 == 1 {
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
        let blocks: Vec<[bool; 2]> =
            (0..1000).map(|block| [begins_with_a(7, 2 * block), begins_with_a(7, 2 * block + 1)]).collect();
        assert!(blocks.iter().all(|[first, second]| first != second));
        let beginning_with_a = blocks.iter().filter(|[first, _]| *first).count();
        assert!((450..550).contains(&beginning_with_a), "{beginning_with_a} of 1000");
    }

    #[test]
    fn cycles_are_permutations_and_come_in_mirrored_twos() {
        for cycle in (0..20).step_by(2) {
            let (order, mut mirrored) = (cycle_order(3, cycle, 5), cycle_order(3, cycle + 1, 5));
            mirrored.reverse();
            assert_eq!(order, mirrored);
            let mut sorted = order;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert_ne!(cycle_order(3, 0, 5), cycle_order(4, 0, 5), "this seed gives another order");
    }
}
