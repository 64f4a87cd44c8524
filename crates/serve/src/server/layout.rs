//! The layout of a server: how many loops it runs, on which CPUs, and over which tables of
//! descriptors.
//!
//! One loop per CPU is best. A process may have so many descriptors, though, and that limit is one
//! of each *table*, which threads share only because they are started that way. Where more
//! connections are wanted than one table holds, there are several loops on each CPU, each in a
//! thread with a table of its own. They cost a little: each has its own cache, and a CPU that
//! changes between them finds fewer completions at a time.

use thalweg_sys::resource_limits::descriptors;

use crate::config::ServerConfig;

/// Descriptors of a table that are not connections: drivers, wakers, folders, logs, what is being
/// opened.
const OTHERS: usize = 256;

/// The layout of loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The CPU of each loop.
    pub(crate) cpus: Vec<usize>,
    /// Each loop has a table of descriptors of its own.
    pub(crate) own_tables: bool,
    /// Most connections of one loop.
    pub(crate) connections_max: usize,
}

impl Layout {
    /// For these CPUs, with the limit of descriptors as it is now.
    pub(crate) fn of(config: &ServerConfig, cpus: &[usize]) -> Self {
        let limit = usize::try_from(descriptors().soft).unwrap_or(usize::MAX);
        Self::within(limit, config.limits.connections_max, config.cache.entries_max, cpus)
    }

    /// For so many connections, of which 0 means as many as one table holds, and so many files that
    /// a loop may keep open.
    fn within(descriptors: usize, connections_max: usize, files_max: usize, cpus: &[usize]) -> Self {
        // Cached files are closed when descriptors run out, so they need only a part of them.
        let files = files_max.min(descriptors / 8);
        let of_table = descriptors.saturating_sub(OTHERS + files).max(1);
        if connections_max <= of_table {
            let connections_max = if connections_max == 0 { of_table } else { connections_max };
            return Self { cpus: cpus.to_vec(), own_tables: false, connections_max };
        }
        // The kernel spreads connections by chance; a tenth more than an even share fits
        // everywhere.
        let with_chance = connections_max.saturating_add(connections_max / 10);
        let loops_per_cpu = with_chance.div_ceil(cpus.len().max(1)).div_ceil(of_table).min(LOOPS_PER_CPU_MAX);
        let cpus = cpus.iter().flat_map(|&cpu| std::iter::repeat_n(cpu, loops_per_cpu)).collect();
        Self { cpus, own_tables: true, connections_max: of_table }
    }
}

/// A limit of descriptors that would need more than this had better be raised.
const LOOPS_PER_CPU_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_loops_as_the_limit_of_descriptors_asks_for() {
        #[track_caller]
        fn check(descriptors: usize, connections: usize, cpus: &[usize], loops: usize, own_tables: bool, each: usize) {
            let layout = Layout::within(descriptors, connections, 8192, cpus);
            assert_eq!((layout.cpus.len(), layout.own_tables, layout.connections_max), (loops, own_tables, each));
        }
        // As many as there is room for.
        check(20_000, 0, &[0, 1], 2, false, 17_244);
        check(1024, 0, &[3], 1, false, 640);
        // Few, or a high limit.
        check(20_000, 1000, &[0, 1], 2, false, 1000);
        check(524_288, 131_072, &[0, 1], 2, false, 131_072);
        // Several tables.
        check(20_000, 30_000, &[0, 1], 2, true, 17_244);
        check(20_000, 100_000, &[0], 7, true, 17_244);
        check(20_000, 100_000, &[0, 1], 8, true, 17_244);
        // Absurd requests and limits.
        check(1024, usize::MAX, &[0], 64, true, 640);
        check(0, 10, &[0], 11, true, 1);
    }

    #[test]
    fn the_loops_of_a_cpu_are_neighbours() {
        assert_eq!(Layout::within(20_000, 60_000, 0, &[4, 7]).cpus, [4, 4, 7, 7]);
    }
}
