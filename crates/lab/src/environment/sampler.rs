//! Samples of path and server, taken by a thread beside a load.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_load::Plan;
use thalweg_sys::PeerAddr;
use thalweg_sys::affinity::{allowed_cpus, pin_to};
use thalweg_sys::handshake::{Handshake, HandshakeState};
use thalweg_sys::interface;
use thalweg_sys::proc::{TcpCounters, cgroup_throttled_ns_of, tcp_counters};
use thalweg_sys::tasks::{self, Task, TaskState};

use super::figures::{HandshakeTimes, InterfaceFigures};
use crate::observe::LocalServer;

/// The interval of the samples.
const INTERVAL: Duration = Duration::from_millis(50);
/// Every so many intervals a handshake begins.
const HANDSHAKE_EVERY: u32 = 2;
/// The part of a trial in which queues build up; nothing is sampled.
const SETTLING: Duration = Duration::from_millis(300);
/// Handshakes without load, and their distance.
const IDLE_HANDSHAKES: u32 = 8;
const IDLE_DISTANCE: Duration = Duration::from_millis(25);
/// The time after which a SYN is sent again (RFC 6298, 2.1). A handshake that takes longer has no
/// known time.
const RETRANSMISSION: Duration = Duration::from_secs(1);
/// Threads of a server that are looked at.
const TASKS_MAX: usize = 128;

/// The sampler of one target.
#[derive(Debug)]
pub(super) struct Sampler {
    /// `None` for a Unix socket.
    peer: Option<SocketAddr>,
    source: Option<IpAddr>,
    server: Option<LocalServer>,
    /// CPUs without a load thread, if there are any.
    cpus: Vec<usize>,
}

/// The samples of one trial.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) path: Option<PathSamples>,
    pub(super) server: Option<ServerSamples>,
}

/// The handshakes of a trial, and the segments that were counted meanwhile.
#[derive(Debug, Default)]
pub(super) struct PathSamples {
    pub(super) times_ns: Vec<u64>,
    pub(super) unanswered: usize,
    pub(super) counted: Option<TcpCounters>,
}

/// The server's threads at several moments.
#[derive(Debug)]
pub(super) struct ServerSamples {
    pub(super) name: String,
    pub(super) cpus_allowed: usize,
    pub(super) rounds: Vec<Round>,
    pub(super) throttled_ns: u64,
}

/// The server's threads at one moment.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) at: Instant,
    pub(super) tasks: Vec<Task>,
    pub(super) descriptors: Option<(u64, u64)>,
}

impl Round {
    pub(super) fn in_state(&self, state: TaskState) -> usize {
        self.tasks.iter().filter(|task| task.state == state).count()
    }
}

impl Sampler {
    pub(super) fn new(server: Option<LocalServer>, plan: &Plan) -> Self {
        let peer = if let PeerAddr::Tcp(address) = plan.peer { Some(address) } else { None };
        let mut cpus = allowed_cpus().unwrap_or_default();
        cpus.retain(|cpu| !plan.cpus.contains(cpu));
        Self { peer, source: plan.sources.first().copied(), server, cpus }
    }

    /// The interface to the target, if its speed is known.
    pub(super) fn interface(&self) -> Option<InterfaceFigures> {
        let name = interface::towards(self.peer?)?;
        Some(InterfaceFigures { bits_per_s: interface::speed(&name)?, name })
    }

    /// Handshakes without load.
    pub(super) fn idle_handshakes(&self) -> HandshakeTimes {
        let mut handshakes = Handshakes::default();
        for _ in 0..IDLE_HANDSHAKES {
            self.begin(&mut handshakes);
            thread::sleep(IDLE_DISTANCE);
            handshakes.collect();
        }
        handshakes.settle();
        HandshakeTimes::of(handshakes.times_ns, handshakes.unanswered)
    }

    /// Does `work` and samples meanwhile.
    pub(super) fn beside<T>(&self, work: impl FnOnce() -> T) -> (T, Samples) {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let sampling = scope.spawn(|| self.sample(&ended));
            let done = work();
            ended.store(true, Ordering::Release);
            // A panic of the thread is a defect; it goes on here.
            (done, sampling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    fn sample(&self, ended: &AtomicBool) -> Samples {
        if !self.cpus.is_empty() {
            // If it is refused, the samples cost the load threads a little of their time.
            let _ = pin_to(&self.cpus);
        }
        thread::sleep(SETTLING);
        let counters = tcp_counters();
        let throttled = self.throttled_ns();
        let mut handshakes = Handshakes::default();
        let mut rounds = Vec::new();
        for round in 0u32.. {
            if ended.load(Ordering::Acquire) {
                break;
            }
            if round.is_multiple_of(HANDSHAKE_EVERY) {
                self.begin(&mut handshakes);
            }
            rounds.extend(self.server.as_ref().map(round_of));
            thread::sleep(INTERVAL);
            handshakes.collect();
        }
        let counted = tcp_counters().zip(counters).map(|(now, before)| TcpCounters {
            segments_in: now.segments_in.saturating_sub(before.segments_in),
            out_of_order: now.out_of_order.saturating_sub(before.out_of_order),
            segments_out: now.segments_out.saturating_sub(before.segments_out),
            retransmitted: now.retransmitted.saturating_sub(before.retransmitted),
            listen_overflows: now.listen_overflows.saturating_sub(before.listen_overflows),
        });
        let throttled_ns = self.throttled_ns().saturating_sub(throttled);
        handshakes.settle();
        let Handshakes { times_ns, unanswered, .. } = handshakes;
        let server = self.server.as_ref().map(|server| ServerSamples {
            name: server.name().to_owned(),
            cpus_allowed: cpus_of(server),
            rounds,
            throttled_ns,
        });
        Samples { path: self.peer.map(|_| PathSamples { times_ns, unanswered, counted }), server }
    }

    fn begin(&self, handshakes: &mut Handshakes) {
        // A host without a port left shows in the load, too.
        let begun = self.peer.and_then(|peer| Handshake::begin(peer, self.source).ok());
        handshakes.pending.extend(begun.map(|handshake| (Instant::now(), handshake)));
    }

    fn throttled_ns(&self) -> u64 {
        let pids = self.server.as_ref().map_or(&[][..], LocalServer::pids);
        pids.iter().filter_map(|pid| cgroup_throttled_ns_of(*pid)).max().unwrap_or(0)
    }
}

/// Handshakes under way, and the times of those that have ended.
#[derive(Debug, Default)]
struct Handshakes {
    pending: Vec<(Instant, Handshake)>,
    times_ns: Vec<u64>,
    unanswered: usize,
}

impl Handshakes {
    /// Takes the times of those that have ended. One that was refused has none.
    fn collect(&mut self) {
        let Self { pending, times_ns, unanswered } = self;
        pending.retain(|(begun, handshake)| {
            match handshake.state() {
                HandshakeState::Pending if begun.elapsed() < RETRANSMISSION => return true,
                HandshakeState::Pending | HandshakeState::Retransmitted => *unanswered += 1,
                HandshakeState::Answered(ns) => times_ns.push(ns),
                HandshakeState::Failed => {}
            }
            false
        });
    }

    /// Waits for those that are pending, as long as they may have a time.
    fn settle(&mut self) {
        self.collect();
        while !self.pending.is_empty() {
            thread::sleep(INTERVAL / 5);
            self.collect();
        }
    }
}

fn round_of(server: &LocalServer) -> Round {
    let pids = server.pids();
    let tasks: Vec<Task> = pids.iter().flat_map(|pid| tasks::tasks(*pid, TASKS_MAX)).take(TASKS_MAX).collect();
    let descriptors = pids.iter().filter_map(|pid| tasks::descriptors(*pid));
    let descriptors = descriptors.max_by(|a, b| (a.0 as f64 / a.1 as f64).total_cmp(&(b.0 as f64 / b.1 as f64)));
    Round { at: Instant::now(), tasks, descriptors }
}

/// How many CPUs the server's processes may use together.
fn cpus_of(server: &LocalServer) -> usize {
    let mut cpus: Vec<usize> = server.pids().iter().filter_map(|pid| tasks::allowed_cpus(*pid)).flatten().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len()
}
