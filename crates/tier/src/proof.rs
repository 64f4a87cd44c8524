//! Proofs of peers: each request from one proves that its sender knows the secret of the cluster.
//!
//! A proof holds for one target, for a minute and once: it has the time at which it was made and a
//! nonce, so that somebody who reads requests of peers cannot repeat one. The accepted proofs of
//! the last minutes are remembered, a bounded number of them. Those of earlier versions have
//! neither time nor nonce, and are accepted by version 0.3 alone.
//!
//! Deliberately not here: the clock, the field, and the answer to a request without a proof.

use std::collections::HashSet;
use std::fmt;
use std::mem;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use thalweg_cache::Key;

/// The most seconds between the time of a proof and the clock of the server that checks it.
const SECONDS_MAX: u64 = 60;

/// Seconds for which a proof is remembered: one whose clock is ahead is of use for so long.
const REMEMBERED_S: i64 = 2 * SECONDS_MAX as i64;

/// Proofs that are remembered of one such time: some 9 MB of nonces, and 8,700 requests a second.
const REMEMBERED_MAX: usize = 1 << 20;

/// Makes and checks the proofs of a mount.
pub(crate) struct Proofs {
    mount: Box<str>,
    secret: Key,
    /// The secret as earlier versions use it.
    earlier_secret: Key,
    accepted: Mutex<Nonces>,
}

/// A proof that was accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Proven {
    /// It is not accepted a second time.
    Once,
    /// It is one of an earlier version, which anybody who has read it can use again.
    Repeatable,
}

/// Why a proof is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Wrong,
    /// The time in the proof is this many seconds from this server's clock: the sender's clock is
    /// wrong, or the request was delayed.
    Untimely(u64),
    Repeated,
    /// This server remembers no more nonces.
    TooMany,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong => f.write_str("does not prove that it has the cluster's token"),
            Self::Untimely(seconds) => {
                write!(f, "its time differs by {seconds} s from this server's; set the clocks of both, as by NTP")
            }
            Self::Repeated => f.write_str("has come before: somebody repeats requests of the cluster"),
            Self::TooMany => write!(f, "is one of more than {REMEMBERED_MAX} in {REMEMBERED_S} s"),
        }
    }
}

impl Proofs {
    pub(crate) fn new(mount: &str, secret: &[u8]) -> Self {
        let earlier_secret = Key::of(secret);
        // Other bytes than those of earlier proofs, so that no proof is one of the other kind.
        let secret = Key::of(&[b"Thalweg-Peer 2\0", secret].concat());
        Self { mount: mount.into(), secret, earlier_secret, accepted: Mutex::default() }
    }

    /// The proof of a request for a target: seconds since 1970, the nonce, and what follows from
    /// both by the secret.
    pub(crate) fn prove(&self, target: &str, now: i64, nonce: u64) -> String {
        format!("{now} {nonce:016x} {}", self.code(target, now, nonce))
    }

    /// Whether a request for a target has a proof, which is then used up.
    pub(crate) fn check(&self, proof: &[u8], target: &str, now: i64) -> Result<Proven, Refused> {
        let proof = str::from_utf8(proof).map_err(|_| Refused::Wrong)?;
        let mut words = proof.split(' ');
        let (Some(time), Some(nonce), Some(code), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            let is_right = is_equal(proof, &self.earlier(target).to_string());
            return if is_right { Ok(Proven::Repeatable) } else { Err(Refused::Wrong) };
        };
        let time: i64 = time.parse().map_err(|_| Refused::Wrong)?;
        let nonce = u64::from_str_radix(nonce, 16).map_err(|_| Refused::Wrong)?;
        if !is_equal(code, &self.code(target, time, nonce).to_string()) {
            return Err(Refused::Wrong);
        }
        let seconds = time.abs_diff(now);
        if seconds > SECONDS_MAX {
            return Err(Refused::Untimely(seconds));
        }
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(nonce, now)
    }

    fn code(&self, target: &str, time: i64, nonce: u64) -> Key {
        let (time, nonce) = (time.to_le_bytes(), nonce.to_le_bytes());
        Key::of(&[&self.secret.0[..], &time, &nonce, self.mount.as_bytes(), b"\0", target.as_bytes()].concat())
    }

    /// The proof of version 0.2.
    fn earlier(&self, target: &str) -> Key {
        Key::of(&[&self.earlier_secret.0[..], self.mount.as_bytes(), b"\0", target.as_bytes()].concat())
    }
}

/// Whether two texts are equal, in a time that does not tell how much of them is.
fn is_equal(left: &str, right: &str) -> bool {
    let differing = left.bytes().zip(right.bytes()).fold(0, |all, (left, right)| all | (left ^ right));
    left.len() == right.len() && differing == 0
}

/// The nonces of accepted proofs, for [`REMEMBERED_S`] at least and twice that at most.
#[derive(Default)]
struct Nonces {
    recent: HashSet<u64, RandomState>,
    older: HashSet<u64, RandomState>,
    /// When `recent` was begun.
    begun_s: i64,
}

impl Nonces {
    fn insert(&mut self, nonce: u64, now: i64) -> Result<Proven, Refused> {
        let age_s = now - self.begun_s;
        if age_s >= REMEMBERED_S {
            self.older = mem::take(&mut self.recent);
            if age_s >= 2 * REMEMBERED_S {
                self.older.clear();
            }
        }
        // A clock that was set back keeps them longer.
        if !(0..REMEMBERED_S).contains(&age_s) {
            self.begun_s = now;
        }
        if self.older.contains(&nonce) || self.recent.contains(&nonce) {
            return Err(Refused::Repeated);
        }
        if self.recent.len() >= REMEMBERED_MAX {
            return Err(Refused::TooMany);
        }
        self.recent.insert(nonce);
        Ok(Proven::Once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn proofs() -> Proofs {
        Proofs::new("m", b"0123456789abcdef")
    }

    #[test]
    fn a_request_of_a_peer_cannot_be_repeated() {
        let (sender, receiver) = (proofs(), proofs());
        let proof = sender.prove("/a", NOW, 7);
        let check = |proof: &str, target: &str, now: i64| receiver.check(proof.as_bytes(), target, now);
        assert_eq!(check(&proof, "/a", NOW), Ok(Proven::Once));
        // As long as its time is right, and also if its clock is ahead.
        for seconds in 0..=60 {
            assert_eq!(check(&proof, "/a", NOW + seconds), Err(Refused::Repeated), "{seconds}");
        }
        let ahead = sender.prove("/a", NOW + 120, 8);
        assert_eq!(check(&ahead, "/a", NOW + 60), Ok(Proven::Once));
        for seconds in 60..=180 {
            assert_eq!(check(&ahead, "/a", NOW + seconds), Err(Refused::Repeated), "{seconds}");
        }
        assert_eq!(check(&ahead, "/a", NOW + 181), Err(Refused::Untimely(61)));
        assert_eq!(check(&sender.prove("/a", NOW + 181, 9), "/a", NOW + 181), Ok(Proven::Once));
    }

    #[test]
    fn a_proof_holds_for_its_target_its_mount_its_secret_and_its_time() {
        let receiver = proofs();
        let check = |proof: &str, now: i64| receiver.check(proof.as_bytes(), "/a", now);
        let proof = proofs().prove("/a", NOW, 7);
        let (time, rest) = proof.split_once(' ').unwrap();
        let (nonce, code) = rest.split_once(' ').unwrap();
        assert_eq!((time, nonce, code.len()), ("1700000000", "0000000000000007", 32));
        let wrong = [
            proofs().prove("/b", NOW, 7),
            Proofs::new("n", b"0123456789abcdef").prove("/a", NOW, 7),
            Proofs::new("m", b"0123456789abcdeg").prove("/a", NOW, 7),
            format!("1700000001 {nonce} {code}"),
            format!("{time} 0000000000000008 {code}"),
            format!("{time} {nonce} {}", &code[1..]),
            format!("{time} {nonce} "),
            format!("{proof} {code}"),
            code.to_owned(),
            String::new(),
            "-9223372036854775808 0 0".to_owned(),
        ];
        for proof in wrong {
            assert_eq!(check(&proof, NOW), Err(Refused::Wrong), "{proof}");
        }
        assert_eq!(receiver.check(b"\xff", "/a", NOW), Err(Refused::Wrong));
        for (now, expected) in [(NOW - 61, Err(Refused::Untimely(61))), (NOW + 61, Err(Refused::Untimely(61)))] {
            assert_eq!(check(&proof, now), expected);
        }
        // Nothing of these has used it up.
        assert_eq!(check(&proof, NOW + 60), Ok(Proven::Once));
    }

    #[test]
    fn proofs_of_version_0_2_are_accepted_and_known_as_such() {
        let proofs = proofs();
        let proof = Key::of(&[&Key::of(b"0123456789abcdef").0[..], b"m\0/a"].concat()).to_string();
        for _ in 0..2 {
            assert_eq!(proofs.check(proof.as_bytes(), "/a", NOW), Ok(Proven::Repeatable));
        }
        assert_eq!(proofs.check(proof.as_bytes(), "/b", NOW), Err(Refused::Wrong));
    }

    #[test]
    fn the_memory_of_proofs_is_bounded_and_forgets() {
        let mut nonces = Nonces::default();
        (0..REMEMBERED_MAX as u64).for_each(|nonce| assert_eq!(nonces.insert(nonce, NOW), Ok(Proven::Once)));
        assert_eq!(nonces.insert(u64::MAX, NOW + REMEMBERED_S - 1), Err(Refused::TooMany));
        assert_eq!(nonces.insert(u64::MAX, NOW + REMEMBERED_S), Ok(Proven::Once));
        assert_eq!(nonces.insert(5, NOW + REMEMBERED_S), Err(Refused::Repeated));
        // A clock that is set back forgets nothing.
        assert_eq!(nonces.insert(5, NOW), Err(Refused::Repeated));
        assert_eq!(nonces.insert(5, NOW + 3 * REMEMBERED_S), Ok(Proven::Once));
        assert_eq!(nonces.recent.len() + nonces.older.len(), 1);
    }
}
