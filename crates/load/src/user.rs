//! Users: which of a user's calls may be made now, and which wait for a response or for the end of
//! a pause.

use std::num::NonZero;
use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;
use std::time::Duration;

use thalweg_sys::{Instant, SocketId};

use crate::call::Due;
use crate::input::sessions::Sessions;
use crate::plan::UserPlan;

/// The users that are not over. Places are used again, each with its list of connections, so that
/// there are as many as there were users at once.
#[derive(Default)]
pub(crate) struct Users {
    places: Vec<User>,
    free: Vec<UserId>,
}

/// Names a user until it is over: one more than its place, so that each connection has room for the
/// name of one or none in four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UserId(NonZero<u32>);

/// A user under way. It has the ids of its connections, and nothing of their state.
pub(crate) struct User {
    /// When it arrived.
    pub(crate) began: Instant,
    /// When the calls that may be made now came due, and the thread saw that they were.
    due: Instant,
    noticed: Instant,
    /// They have found no room.
    kept_waiting: bool,
    /// Its connections, in the order in which they were opened, and how many it has had.
    pub(crate) connections: Vec<SocketId>,
    pub(crate) opened: u32,
    /// No more calls are made; when those under way have ended, it has ended so.
    stopped: Option<Ending>,
    script: Script,
    /// Calls that are due and have not begun, that have begun and not ended, and that have ended.
    released: u32,
    under_way: u32,
    ended: u32,
}

enum Script {
    /// So many more calls after those that were released.
    Calls {
        left: u32,
    },
    Session {
        user: Arc<UserPlan>,
        index: usize,
        burst: usize,
        next: usize,
    },
}

/// How a user ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// With its last call, or where the server ended it in good order.
    Completed,
    /// With a call that failed.
    Failed,
    /// With the schedule.
    Cut,
}

/// The next step of a user, after a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Calls are due now, or others are under way.
    GoOn,
    /// The next call is due then.
    Think(Instant),
    /// That was the last one.
    Done,
}

impl Users {
    /// Begins user number `number` of the run, which arrived at `began`; its first call is due at
    /// once.
    pub(crate) fn begin(&mut self, user: &Arc<UserPlan>, number: u64, began: Instant) -> UserId {
        let Some(id) = self.free.pop() else {
            self.places.push(User::begin(user, number, began, Vec::new()));
            let places = u32::try_from(self.places.len()).ok().and_then(NonZero::new);
            return UserId(places.expect("users are bounded by connections"));
        };
        let place = &mut self[id];
        let mut connections = std::mem::take(&mut place.connections);
        connections.clear();
        *place = User::begin(user, number, began, connections);
        id
    }

    /// Ends a user. Its id is not used any more.
    pub(crate) fn end(&mut self, id: UserId) {
        self.free.push(id);
    }

    /// How many are not over.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// How many there were at once, at most.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }
}

impl Index<UserId> for Users {
    type Output = User;

    fn index(&self, id: UserId) -> &User {
        &self.places[id.0.get() as usize - 1]
    }
}

impl IndexMut<UserId> for Users {
    fn index_mut(&mut self, id: UserId) -> &mut User {
        &mut self.places[id.0.get() as usize - 1]
    }
}

impl User {
    fn begin(user: &Arc<UserPlan>, number: u64, began: Instant, connections: Vec<SocketId>) -> Self {
        let script = match &**user {
            UserPlan::Calls(calls) => Script::Calls { left: calls - 1 },
            UserPlan::Sessions { sessions, .. } => {
                let index = (number % sessions.len() as u64) as usize;
                Script::Session { user: user.clone(), index, burst: 0, next: 0 }
            }
        };
        let (opened, stopped, kept_waiting) = (0, None, false);
        let (due, noticed, released) = (began, began, 1);
        Self {
            began,
            due,
            noticed,
            kept_waiting,
            connections,
            opened,
            stopped,
            script,
            released,
            under_way: 0,
            ended: 0,
        }
    }

    /// Notes when the thread saw that calls were due.
    pub(crate) fn notice(&mut self, now: Instant) {
        self.noticed = now.max(self.due);
    }

    /// Notes that calls that are due find no room.
    pub(crate) fn keep_waiting(&mut self) {
        self.kept_waiting = true;
    }

    /// When the calls that may be made now were due.
    pub(crate) fn due(&self) -> Due {
        Due { intended: self.due, noticed: self.noticed, prompt: !self.kept_waiting }
    }

    /// Takes a call that is due: which request it is, if the user says.
    pub(crate) fn take_call(&mut self) -> Option<Option<u32>> {
        if !self.has_released() {
            return None;
        }
        self.released -= 1;
        self.under_way += 1;
        Some(match &mut self.script {
            Script::Calls { .. } => None,
            Script::Session { user, index, burst, next } => {
                let (sessions, bursts) = played(user, *index);
                let request = sessions.calls(bursts.start + *burst)[*next];
                *next += 1;
                Some(request)
            }
        })
    }

    /// Notes that a call was responded to.
    pub(crate) fn on_response(&mut self, now: Instant) -> Next {
        self.under_way -= 1;
        self.ended += 1;
        match &mut self.script {
            Script::Calls { left: 0 } => Next::Done,
            Script::Calls { left } => {
                *left -= 1;
                self.release(1, now)
            }
            Script::Session { user, index, burst, next } => {
                let (sessions, bursts) = played(user, *index);
                let length = sessions.calls(bursts.start + *burst).len();
                if *next == 1 && length > 1 && self.released == 0 {
                    return self.release(length as u32 - 1, now);
                }
                if *next < length || self.under_way > 0 {
                    return Next::GoOn;
                }
                if *burst + 1 == bursts.len() {
                    return Next::Done;
                }
                let UserPlan::Sessions { think, .. } = &**user else { unreachable!("a session's user has sessions") };
                let think = sessions.think(bursts.start + *burst).unwrap_or(*think);
                *burst += 1;
                *next = 0;
                let at = now + think;
                self.release(1, at);
                if think == Duration::ZERO { Next::GoOn } else { Next::Think(at) }
            }
        }
    }

    /// Notes that calls under way, so many of them, have ended without a response, or must not be
    /// made any more.
    pub(crate) fn on_lost(&mut self, calls: u32) {
        self.under_way -= calls;
    }

    /// No more calls are made. A failure is the more important ending.
    pub(crate) fn stop(&mut self, ending: Ending) {
        if ending == Ending::Failed || self.stopped.is_none() {
            self.stopped = Some(ending);
        }
    }

    pub(crate) fn stopped(&self) -> Option<Ending> {
        self.stopped
    }

    fn release(&mut self, calls: u32, due: Instant) -> Next {
        self.released = calls;
        self.due = due;
        self.noticed = due;
        self.kept_waiting = false;
        Next::GoOn
    }

    /// Whether the call that was taken last is the last of all.
    pub(crate) fn is_last_call(&self) -> bool {
        self.released == 0
            && match &self.script {
                Script::Calls { left } => *left == 0,
                Script::Session { user, index, burst, next } => {
                    let (sessions, bursts) = played(user, *index);
                    *burst + 1 == bursts.len() && *next == sessions.calls(bursts.start + *burst).len()
                }
            }
    }

    /// Whether it goes on with another connection if the server closes one between two calls.
    pub(crate) fn reconnects(&self) -> bool {
        matches!(self.script, Script::Session { .. })
    }

    /// How many connections it may have at once.
    pub(crate) fn connections_max(&self) -> usize {
        match &self.script {
            Script::Calls { .. } => 1,
            Script::Session { user, .. } => match &**user {
                UserPlan::Sessions { connections, .. } => *connections,
                UserPlan::Calls(_) => unreachable!("a session's user has sessions"),
            },
        }
    }

    /// Whether a call is due that has not begun and may be made.
    pub(crate) fn has_released(&self) -> bool {
        self.released > 0 && self.stopped.is_none()
    }

    /// Calls that have begun and not ended.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Calls that were responded to.
    pub(crate) fn ended(&self) -> u32 {
        self.ended
    }

    /// Calls that have not begun.
    pub(crate) fn calls_left(&self) -> u64 {
        match &self.script {
            Script::Calls { left } => u64::from(*left) + u64::from(self.released),
            Script::Session { user, index, burst, next } => {
                let (sessions, bursts) = played(user, *index);
                let calls: usize = bursts.skip(*burst).map(|burst| sessions.calls(burst).len()).sum();
                (calls - next) as u64
            }
        }
    }
}

/// The sessions that a user plays, and the bursts of its own.
fn played(user: &UserPlan, index: usize) -> (&Sessions, Range<usize>) {
    let UserPlan::Sessions { sessions, .. } = user else { unreachable!("a session's user has sessions") };
    (sessions, sessions.bursts(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    use crate::input::sessions::load_sessions;

    const START: Instant = Instant::from_ns(1_000);

    fn at(ns: u64) -> Instant {
        START.plus_ns(ns)
    }

    #[test]
    fn calls_follow_one_another() {
        let mut user = User::begin(&Arc::new(UserPlan::Calls(3)), 0, START, Vec::new());
        for ns in 0..3 {
            assert_eq!(user.calls_left(), 3 - ns);
            assert_eq!(user.take_call(), Some(None));
            assert_eq!(user.is_last_call(), ns == 2);
            assert_eq!(user.take_call(), None, "the next call waits for the response");
            let next = user.on_response(at(ns));
            assert_eq!(next, if ns == 2 { Next::Done } else { Next::GoOn });
        }
        assert_eq!((user.due().intended, user.ended(), user.calls_left()), (at(1), 3, 0));
    }

    /// Three calls, a pause of a microsecond, one call, no pause, one call; the second of two
    /// sessions of that kind.
    fn session() -> User {
        let text = "/0 think=0\n\n/5\n /6\n /7\n/8 think=0\n/9\n";
        let mut targets = Vec::new();
        let made = load_sessions(
            "sessions",
            text.as_bytes(),
            |_| unreachable!("no bodies"),
            |call| {
                targets.push(call.target.to_string());
                Ok::<_, Infallible>(targets.len() as u32 - 1)
            },
        );
        let sessions = Arc::new(made.unwrap());
        let user = UserPlan::Sessions { sessions, think: Duration::from_micros(1), connections: 1 };
        User::begin(&Arc::new(user), 3, START, Vec::new())
    }

    #[test]
    fn a_burst_s_first_response_releases_the_others() {
        let mut user = session();
        assert_eq!((user.take_call(), user.take_call()), (Some(Some(1)), None));
        assert_eq!(user.on_response(at(10)), Next::GoOn);
        assert_eq!((user.take_call(), user.take_call(), user.take_call()), (Some(Some(2)), Some(Some(3)), None));
        assert_eq!(user.due().intended, at(10));
        assert_eq!(user.on_response(at(20)), Next::GoOn, "the burst's last call is under way");
        assert_eq!(user.on_response(at(30)), Next::Think(at(1_030)));
        assert_eq!((user.due().intended, user.calls_left()), (at(1_030), 2));
        assert_eq!(user.take_call(), Some(Some(4)));
        assert!(!user.is_last_call());
        assert_eq!(user.on_response(at(1_040)), Next::GoOn, "no pause");
        assert_eq!((user.take_call(), user.is_last_call()), (Some(Some(5)), true));
        assert_eq!((user.on_response(at(1_050)), user.ended()), (Next::Done, 5));
    }

    #[test]
    fn calls_of_a_burst_may_come_one_at_a_time() {
        let mut user = session();
        user.take_call();
        user.on_response(at(10));
        user.take_call();
        assert_eq!(user.on_response(at(20)), Next::GoOn);
        assert_eq!((user.calls_left(), user.has_released(), user.take_call()), (3, true, Some(Some(3))));
        assert_eq!(user.on_response(at(30)), Next::Think(at(1_030)));
    }

    #[test]
    fn a_user_that_has_stopped_makes_no_more_calls() {
        let mut user = session();
        user.take_call();
        user.on_response(at(10));
        user.take_call();
        user.stop(Ending::Cut);
        assert_eq!((user.has_released(), user.take_call(), user.stopped()), (false, None, Some(Ending::Cut)));
        user.stop(Ending::Failed);
        user.stop(Ending::Cut);
        user.on_lost(1);
        assert_eq!((user.stopped(), user.under_way(), user.calls_left()), (Some(Ending::Failed), 0, 3));
    }

    #[test]
    fn places_of_users_are_used_again() {
        let (mut users, plan) = (Users::default(), Arc::new(UserPlan::Calls(1)));
        let first = users.begin(&plan, 0, START);
        users[first].connections.push(SocketId::from_bits(1));
        let second = users.begin(&plan, 1, START);
        users.end(first);
        let third = users.begin(&plan, 2, START);
        assert!(third == first && third != second && users[third].connections.is_empty());
        assert_eq!((users.len(), users.places()), (2, 2));
    }
}
