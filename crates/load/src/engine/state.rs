//! The state of a load thread's engine, and methods that all of its parts need.

use std::collections::VecDeque;
use std::sync::Arc;

use sha2::Sha256;
use thalweg_reactor::Wheel;
use thalweg_sys::{Instant, PortRange, SocketId};

use super::disturbance::Disturbance;
use super::pacer::Pacer;
use super::paused::PausedUsers;
use super::requests::Requests;
use crate::barrier::StartBarrier;
use crate::call::{CallList, Calls, Due};
use crate::connection::{Buffers, Connection};
use crate::figures::RunFigures;
use crate::plan::choice::Chooser;
use crate::plan::{Plan, UserPlan};
use crate::progress::{FirstEnds, Progress};
use crate::protocol::{Http1, Protocol};
use crate::redirect::Follower;
use crate::replay::Feed;
use crate::schedule::Schedule;
use crate::transport::TlsMemory;
use crate::user::Users;

/// A load thread's share of a run.
pub struct Engine<P: Protocol = Http1> {
    pub(super) plan: Arc<Plan>,
    pub(super) thread: usize,
    pub(super) start_barrier: Arc<StartBarrier>,
    pub(super) progress: Arc<Progress>,
    pub(super) requests: Requests<P::Encoder>,
    /// Follows redirects, if the plan does.
    pub(super) follower: Option<Box<Follower>>,
    /// The feed of a recording's requests, until the schedule begins.
    pub(super) feed: Option<Feed>,
    pub(super) chooser: Chooser,
    pub(super) user: Option<Arc<UserPlan>>,
    pub(super) source: usize,
    /// The turn of the plan's addresses.
    pub(super) peer_turn: usize,
    /// Connections that have begun with a PROXY header.
    pub(super) proxied: u32,
    pub(super) ports: Option<PortRange>,
    pub(super) connections_max: usize,
    pub(super) connections: Vec<Connection<P>>,
    /// The calls of all connections.
    pub(super) calls: Calls,
    /// Calls that were taken off their connections, to be made on others.
    pub(super) put_back: CallList,
    /// Connections that are idle, and those that are busy and have room for another call. An entry
    /// may have become stale.
    pub(super) idle: VecDeque<SocketId>,
    pub(super) roomy: VecDeque<SocketId>,
    /// Connections that submit calls at the end of the iteration.
    pub(super) unsent: Vec<SocketId>,
    pub(super) open: usize,
    pub(super) connecting: usize,
    /// The connecting ones that users have opened to go on.
    pub(super) reopening: usize,
    /// Connections with calls under way.
    pub(super) busy: usize,
    /// Users that are not over, and those of them that are without a connection.
    pub(super) users: Users,
    pub(super) paused: PausedUsers,
    pub(super) deadlines: Wheel,
    pub(super) pacer: Option<Pacer>,
    pub(super) phase: Phase,
    /// Hashers for digests, used again.
    #[expect(clippy::vec_box, reason = "a call takes a box out, since it would be large with the hasher itself")]
    pub(super) hashers: Vec<Box<Sha256>>,
    /// Buffers of connections that were closed, used again with their memory.
    #[expect(clippy::vec_box, reason = "connections have them in boxes")]
    pub(super) spare_buffers: Vec<Box<Buffers>>,
    pub(super) tls_memory: TlsMemory,
    /// A handshake was completed, after which the next one can resume its session; and its ticket
    /// has not come yet.
    pub(super) has_session: bool,
    pub(super) awaits_ticket: bool,
    pub(super) next_publish: Instant,
    pub(super) disturbance: Disturbance,
    pub(super) last_turn: Instant,
    /// The time that the driver has spent awake without work.
    pub(super) busy_wait_ns: u64,
    /// The lateness of the latest wake-up, as the driver reports it.
    pub(super) overslept_ns: u64,
    /// Arrivals wait for which no connection may be made.
    pub(super) is_short_of_room: bool,
    /// Attempts to connect in this iteration.
    pub(super) attempts: u64,
    /// The server's name for itself, of the latest response.
    pub(super) server: Vec<u8>,
    /// How the first requests have ended, those of the warm-up among them.
    pub(super) first_ends: FirstEnds,
    pub(super) figures: RunFigures,
}

pub(super) enum Phase {
    /// Opening connections before the start, so many more and until then at the latest.
    Opening { left: usize, since: Instant, until: Instant },
    /// Waiting at the start barrier.
    Waiting,
    /// On the schedule, or finishing the calls under way.
    Running(Box<Schedule>),
}

/// A call to be made.
pub(super) struct NextCall {
    pub(super) due: Due,
    pub(super) measured: bool,
    /// Its request, if the schedule or the user determines it.
    pub(super) request: Option<u32>,
    /// No call follows it on its connection.
    pub(super) last: bool,
}

/// The end of a user's call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// Without a whole response; so many calls are lost, itself included.
    Failed { lost: u32 },
    /// With a response, on a connection that can go on.
    Usable,
    /// With a response, on a connection that cannot; so many calls that were under way behind it
    /// are lost.
    Last { lost: u32 },
}

impl<P: Protocol> Engine<P> {
    pub(super) fn timeout_ns(&self) -> u64 {
        self.plan.timeout.as_nanos() as u64
    }

    pub(super) fn connection(&mut self, id: SocketId) -> &mut Connection<P> {
        let connection = &mut self.connections[id.index()];
        debug_assert!(connection.id == id, "the driver names open sockets only");
        connection
    }

    /// Whether the connection was not closed meanwhile.
    #[inline]
    pub(super) fn is_live(&self, id: SocketId) -> bool {
        let connection = &self.connections[id.index()];
        connection.id == id && connection.is_open()
    }

    /// Arms the timer for a connection's deadline.
    pub(super) fn arm(&mut self, id: SocketId, at: Instant) {
        let connection = &mut self.connections[id.index()];
        // Deadlines move on from call to call, and the entry for the earlier one serves. Only a
        // connection's first call, or the end of a pause, can be due earlier than the entry is.
        if connection.armed.is_none_or(|armed| at < armed) {
            connection.armed = Some(at);
            self.deadlines.arm(id.to_bits(), at);
        }
    }

    /// The plan's time-out from now on, for a call at a pace whose response takes the path's delay
    /// as well.
    pub(super) fn paced_deadline(&self, from: Instant) -> Option<Instant> {
        self.pacer.as_ref().map(|pacer| from + pacer.path_delay() + self.plan.timeout)
    }

    pub(super) fn is_in_window(&self, now: Instant) -> bool {
        matches!(&self.phase, Phase::Running(schedule) if schedule.is_in_window(now))
    }
}
