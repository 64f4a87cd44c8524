//! Sessions as they are played: which requests follow which.

use std::time::Duration;

/// Sessions, with their requests as indices of a list.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// Never empty.
    pub sessions: Vec<Session>,
}

/// One user's calls on one connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// Never empty.
    pub bursts: Vec<Burst>,
}

/// Calls that belong together: when the first is answered, the others are made at once.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Never empty.
    pub requests: Box<[u32]>,
    /// Time from its last answer to the next burst.
    pub think: Option<Duration>,
}

impl Sessions {
    /// Calls per session.
    pub fn calls_mean(&self) -> f64 {
        let calls = |session: &Session| session.bursts.iter().map(|burst| burst.requests.len()).sum::<usize>();
        self.sessions.iter().map(calls).sum::<usize>() as f64 / self.sessions.len() as f64
    }
}
