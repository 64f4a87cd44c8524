//! Turns of tests that share the machine: tests of functions run side by side, those that measure
//! small loads run side by side, and those that measure large ones run alone.
//!
//! A test that waits for its turn takes a thread of the test program. With more threads than run
//! tests at once, as `make check` has them, tests that wait gather, and run one behind the other:
//! each change of turns costs the time in which the last tests of the turn before end, with CPUs
//! that are idle.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The kind of a test, by what it may run beside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Function,
    SmallLoad,
    Alone,
}

const KINDS: [Kind; 3] = [Kind::Function, Kind::SmallLoad, Kind::Alone];

impl Kind {
    /// How many tests of the kind run at once. Most of them wait more than they compute.
    fn at_once(self) -> usize {
        match self {
            Self::Function => cpus() * 3 / 2,
            Self::SmallLoad => 3,
            Self::Alone => 1,
        }
    }
}

/// The tests of all kinds, in the order of [`KINDS`].
struct Turns {
    turn: Kind,
    waiting: [usize; KINDS.len()],
    running: [usize; KINDS.len()],
    /// So many tests that wait for another turn end the turn of functions: no thread is left for
    /// more of these.
    patience: usize,
}

static TURNS: Mutex<Option<Turns>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

impl Turns {
    fn new() -> Self {
        let given = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
        let patience = given.unwrap_or_else(cpus).saturating_sub(Kind::Function.at_once()).max(1);
        Self { turn: Kind::Function, waiting: [0; KINDS.len()], running: [0; KINDS.len()], patience }
    }

    /// Whether a test of this kind, which waits, may begin. Between two tests the turn may change.
    fn may_begin(&mut self, kind: Kind) -> bool {
        let is_over = self.turn == Kind::Function && self.waiting[1..].iter().sum::<usize>() >= self.patience;
        if self.running == [0; KINDS.len()] && (is_over || self.waiting[self.turn as usize] == 0) {
            let others = KINDS.into_iter().cycle().skip(self.turn as usize + 1).take(KINDS.len());
            self.turn = others.into_iter().find(|other| self.waiting[*other as usize] > 0).unwrap_or(kind);
            return self.turn == kind;
        }
        self.turn == kind && !is_over && self.running[kind as usize] < kind.at_once()
    }
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

/// A test's part of the machine, until it ends.
pub struct Part(Kind);

impl Part {
    fn wait_for(kind: Kind) -> Self {
        let mut turns = turns();
        turns.get_or_insert_with(Turns::new).waiting[kind as usize] += 1;
        let mut turns = CHANGED
            .wait_while(turns, |turns| !turns.as_mut().is_some_and(|turns| turns.may_begin(kind)))
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = &mut *turns {
            turns.waiting[kind as usize] -= 1;
            turns.running[kind as usize] += 1;
        }
        // Others of the kind may begin as well.
        CHANGED.notify_all();
        Self(kind)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(turns) = &mut *turns() {
            turns.running[self.0 as usize] -= 1;
        }
        CHANGED.notify_all();
    }
}

/// A test that has failed holds nothing up.
fn turns() -> MutexGuard<'static, Option<Turns>> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For tests whose result does not depend on how fast the machine is.
pub fn shared() -> Part {
    Part::wait_for(Kind::Function)
}

/// For tests that measure times or rates of a few hundred requests a second, and measure again if
/// they come out wrong: a few of them do not disturb one another.
pub fn small_load() -> Part {
    Part::wait_for(Kind::SmallLoad)
}

/// For tests that measure more than that, or take all CPUs.
pub fn exclusive() -> Part {
    Part::wait_for(Kind::Alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests that begin one after the other as long as no test ends, by kind.
    fn begun(turns: &mut Turns) -> [usize; KINDS.len()] {
        loop {
            let Some(kind) = KINDS.into_iter().find(|&kind| turns.waiting[kind as usize] > 0 && turns.may_begin(kind))
            else {
                return turns.running;
            };
            turns.waiting[kind as usize] -= 1;
            turns.running[kind as usize] += 1;
        }
    }

    fn turns(turn: Kind, waiting: [usize; KINDS.len()], running: [usize; KINDS.len()]) -> Turns {
        Turns { turn, waiting, running, patience: 9 }
    }

    #[test]
    fn each_kind_runs_by_itself_and_all_have_their_turns() {
        let functions = Kind::Function.at_once();
        let check = |turn, waiting, running, expected| {
            assert_eq!(begun(&mut turns(turn, waiting, running)), expected, "{waiting:?} wait, {running:?} run");
        };
        check(Kind::Function, [50, 0, 0], [0, 0, 0], [functions, 0, 0]);
        // Functions go on while others gather, and end their turn when many have.
        check(Kind::Function, [50, 4, 4], [1, 0, 0], [functions, 0, 0]);
        check(Kind::Function, [50, 4, 5], [1, 0, 0], [1, 0, 0]);
        check(Kind::Function, [50, 4, 5], [0, 0, 0], [0, 3, 0]);
        check(Kind::Function, [0, 0, 5], [1, 0, 0], [1, 0, 0]);
        check(Kind::Function, [0, 0, 5], [0, 0, 0], [0, 0, 1]);
        // All of a kind that have gathered run before the next kind does.
        check(Kind::SmallLoad, [50, 2, 5], [0, 1, 0], [0, 3, 0]);
        check(Kind::SmallLoad, [50, 0, 5], [0, 1, 0], [0, 1, 0]);
        check(Kind::SmallLoad, [50, 0, 5], [0, 0, 0], [0, 0, 1]);
        check(Kind::Alone, [50, 3, 5], [0, 0, 0], [0, 0, 1]);
        check(Kind::Alone, [50, 3, 0], [0, 0, 0], [functions, 0, 0]);
        check(Kind::Alone, [0, 3, 0], [0, 0, 0], [0, 3, 0]);
    }
}
