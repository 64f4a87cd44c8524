//! The search for the most connections that a server holds: by a factor up to the first number that
//! it does not hold, then by halves of what is between. Pure: the caller makes the trials.
//!
//! `measure::search` is not for this: it looks for a rate between noisy trials of some seconds,
//! with an interval of probability. The number of connections is a limit that a server has or has
//! not, and a trial costs the time in which they all come.

/// The factor between numbers that are tried until one is missed.
const GROWTH: usize = 2;
/// How often a number has to be missed to count as missed: something else on the host may have
/// disturbed the first trial. The same of a client that falls short, for which that is likelier.
const MISSES: u32 = 2;
const SHORTFALLS: u32 = 4;

/// The outcome of a trial with so many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// All were held and conformed.
    Met,
    /// The server did not hold all of them.
    Missed,
    /// The client fell short.
    ClientFellShort,
}

/// The search.
#[derive(Clone, Debug)]
pub(super) struct ConnectionSearch {
    /// The most that were held.
    met: usize,
    /// The least that were not, and whether it was the client that fell short there.
    above: Option<(usize, bool)>,
    first: usize,
    max: usize,
    width: f64,
    /// The number under trial, and how often it was missed and the client fell short of it.
    doubted: (usize, u32, u32),
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MostHeld {
    /// The most that were held; 0 if none were.
    pub met: usize,
    /// The least that the server did not hold; `None` if there was no such number.
    pub missed: Option<usize>,
    /// Whether the client came to its end before the server did.
    pub limited_by_client: bool,
}

impl ConnectionSearch {
    /// A search that begins with `first` connections, tries at most `max`, and ends when the bounds
    /// are within `width`, relative to the lower one, or next to each other.
    ///
    /// # Panics
    /// If a number is zero or `first` is above `max`.
    pub(super) fn new(first: usize, max: usize, width: f64) -> Self {
        assert!(first > 0 && first <= max && width >= 0.0, "a search has a range");
        Self { met: 0, above: None, first, max, width, doubted: (0, 0, 0) }
    }

    /// The number to try next; `None` if the search is over.
    pub(super) fn step(&self) -> Option<usize> {
        match self.above {
            None if self.met == 0 => Some(self.first),
            None if self.met >= self.max => None,
            None => Some((self.met * GROWTH).min(self.max)),
            Some((above, _)) => {
                let apart = above - self.met;
                let enough = (self.met as f64 * self.width).max(1.0);
                (apart as f64 > enough).then(|| self.met + apart / 2)
            }
        }
    }

    /// Records what the trial of the number that [`step`](Self::step) named showed.
    pub(super) fn record(&mut self, connections: usize, held: Held) {
        if self.doubted.0 != connections {
            self.doubted = (connections, 0, 0);
        }
        match held {
            Held::Met => self.met = self.met.max(connections),
            Held::Missed => self.doubted.1 += 1,
            Held::ClientFellShort => self.doubted.2 += 1,
        }
        let (_, missed, fell_short) = self.doubted;
        if missed >= MISSES || fell_short >= SHORTFALLS {
            self.above = Some((connections, missed < MISSES));
        }
    }

    /// The result so far.
    pub(super) fn result(&self) -> MostHeld {
        let beyond_client = self.above.is_some_and(|(_, by_client)| by_client);
        MostHeld {
            met: self.met,
            missed: self.above.filter(|(_, by_client)| !by_client).map(|(above, _)| above),
            limited_by_client: beyond_client || (self.above.is_none() && self.met >= self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a simulated server; `trial` says what the n-th trial with so many connections
    /// shows. The result and the number of trials.
    fn search(first: usize, max: usize, width: f64, trial: impl Fn(usize, usize) -> Held) -> (MostHeld, usize) {
        let mut search = ConnectionSearch::new(first, max, width);
        let mut trials = 0;
        while let Some(connections) = search.step() {
            assert!((1..=max).contains(&connections), "{connections} of {max}");
            search.record(connections, trial(trials, connections));
            trials += 1;
            assert!(trials < 200, "the search does not end: {search:?}");
        }
        (search.result(), trials)
    }

    fn server(limit: usize) -> impl Fn(usize, usize) -> Held {
        move |_, connections| if connections <= limit { Held::Met } else { Held::Missed }
    }

    #[test]
    fn the_limit_of_a_server_is_found() {
        for limit in [1, 2, 63, 64, 65, 90, 250, 1000, 3000, 25_000, 100_000] {
            let (exact, _) = search(64, 1 << 20, 0.0, server(limit));
            assert_eq!(exact, MostHeld { met: limit, missed: Some(limit + 1), limited_by_client: false });
            let (near, trials) = search(64, 1 << 20, 0.02, server(limit));
            assert!(near.met <= limit && near.met as f64 >= limit as f64 / 1.02 - 1.0, "{near:?} of {limit}");
            assert!(near.missed.is_some_and(|missed| missed > limit), "{near:?} of {limit}");
            assert!(trials <= 40, "{trials} trials for {limit}");
        }
    }

    #[test]
    fn a_server_that_holds_none_has_none() {
        let (none, _) = search(64, 1000, 0.02, server(0));
        assert_eq!(none, MostHeld { met: 0, missed: Some(1), limited_by_client: false });
    }

    #[test]
    fn the_client_bounds_the_search() {
        let (at_max, trials) = search(64, 1000, 0.02, server(5000));
        assert_eq!(at_max, MostHeld { met: 1000, missed: None, limited_by_client: true });
        assert_eq!(trials, 5);
        // The client cannot do more than 700, the server could.
        let client = |_, connections| if connections <= 700 { Held::Met } else { Held::ClientFellShort };
        let (fell_short, _) = search(64, 1 << 20, 0.0, client);
        assert_eq!(fell_short, MostHeld { met: 700, missed: None, limited_by_client: true });
    }

    #[test]
    fn one_disturbed_trial_decides_nothing() {
        for disturbed in 0..12 {
            for what in [Held::Missed, Held::ClientFellShort] {
                let trial = |n, connections| if n == disturbed { what } else { server(1000)(n, connections) };
                let (found, _) = search(64, 1 << 20, 0.0, trial);
                assert_eq!(found.met, 1000, "trial {disturbed} {what:?}");
            }
        }
    }
}
