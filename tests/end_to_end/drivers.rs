//! The drivers that a test runs on.
//!
//! The contract of `crates/reactor` holds both drivers to the same behaviour, so a test runs on the
//! ring, and a third of the tests on epoll too: which third, depends on the commit alone, so that a
//! failure can be repeated. A test of something that the drivers do differently runs on
//! [`BOTH_DRIVERS`], with its reason in a comment.
//!
//! `THALWEG_TEST_DRIVERS=all` runs all tests on both, `THALWEG_TEST_SEED` replaces the commit.

use std::cell::OnceCell;
use std::io::Write;
use std::process::Command;

use crate::process::test_name;

/// The drivers by the names of `--driver`: the ring where the kernel grants it, and epoll.
pub(crate) const BOTH_DRIVERS: [&str; 2] = ["auto", "epoll"];

/// A test in so many runs on epoll too.
const EPOLL_ONE_IN: u64 = 3;

/// The seed where neither the environment nor a repository has one.
const SEED_OF_ARCHIVE: &str = "archive";

thread_local! {
    /// The drivers of the test that this thread runs.
    static CHOSEN: OnceCell<Vec<&'static str>> = const { OnceCell::new() };
}

/// The drivers of the test that calls it in its own thread.
pub(crate) fn drivers() -> Vec<&'static str> {
    CHOSEN.with(|chosen| chosen.get_or_init(choose).clone())
}

fn choose() -> Vec<&'static str> {
    let (test, seed) = (test_name(), seed());
    let is_all = std::env::var("THALWEG_TEST_DRIVERS").is_ok_and(|drivers| drivers == "all");
    let drivers = if is_all || runs_on_epoll_too(&test, &seed) { &BOTH_DRIVERS[..] } else { &BOTH_DRIVERS[..1] };
    // Not by a macro, whose output of tests that pass is lost.
    let _ = writeln!(std::io::stderr(), "drivers: {} (seed {seed})", drivers.join(" and "));
    drivers.to_vec()
}

fn runs_on_epoll_too(test: &str, seed: &str) -> bool {
    fnv1a(format!("{seed}\0{test}").as_bytes()).is_multiple_of(EPOLL_ONE_IN)
}

/// The seed of the environment, or else the commit of the sources.
fn seed() -> String {
    if let Ok(seed) = std::env::var("THALWEG_TEST_SEED") {
        return seed;
    }
    let mut git = Command::new("git");
    git.args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"]);
    let commit = git.output().ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    commit.filter(|commit| !commit.is_empty()).unwrap_or_else(|| SEED_OF_ARCHIVE.to_owned())
}

/// The hash FNV-1a of 64 bits, which stays the same in later versions of Rust.
fn fnv1a(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(seed: &str) -> Vec<usize> {
        (0..3000).filter(|number| runs_on_epoll_too(&format!("module::a_test_{number}"), seed)).collect()
    }

    #[test]
    fn a_seed_chooses_the_same_third_each_time() {
        // Published for the empty text and for "foobar".
        assert_eq!([fnv1a(b""), fnv1a(b"foobar")], [0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8]);
        let [one, other] = ["one", "other"].map(chosen);
        for chosen in [&one, &other] {
            // A third of 3000, with five standard deviations to either side.
            assert!((870..1130).contains(&chosen.len()), "{}", chosen.len());
        }
        assert_eq!(one, chosen("one"));
        let in_both = one.iter().filter(|number| other.contains(number)).count();
        assert!(in_both < one.len() / 2, "{in_both} of {} are the same", one.len());
    }
}
