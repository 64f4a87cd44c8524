//! Users in a pause whose connections the server has closed: nothing but this keeps their time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_sys::Instant;

use crate::user::UserId;

/// Users in a pause without a connection.
#[derive(Default)]
pub(super) struct PausedUsers {
    users: BinaryHeap<Reverse<PausedUser>>,
    count: u64,
}

/// A user in a pause, ordered by its end; the number distinguishes users with the same end.
struct PausedUser {
    until: Instant,
    number: u64,
    user: UserId,
}

impl PausedUsers {
    pub(super) fn push(&mut self, until: Instant, user: UserId) {
        self.count += 1;
        self.users.push(Reverse(PausedUser { until, number: self.count, user }));
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<UserId> {
        if self.next_due()? > now {
            return None;
        }
        self.users.pop().map(|Reverse(paused)| paused.user)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.users.peek().map(|Reverse(paused)| paused.until)
    }

    pub(super) fn len(&self) -> usize {
        self.users.len()
    }
}

impl PartialEq for PausedUser {
    fn eq(&self, other: &Self) -> bool {
        (self.until, self.number) == (other.until, other.number)
    }
}

impl Eq for PausedUser {}

impl PartialOrd for PausedUser {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PausedUser {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.until, self.number).cmp(&(other.until, other.number))
    }
}
