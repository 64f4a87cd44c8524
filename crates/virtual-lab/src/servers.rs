//! The servers of the world: the target, which is a yardstick, and the sink that clients are
//! calibrated with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use thalweg_reactor::sim::Sim;
use thalweg_reactor::{App, LoopControl};
use thalweg_sys::driver::{Completion, Driver, Listen};
use thalweg_sys::{DriverChoice, Instant, SocketId};
use thalweg_yardstick::server::{ServerConfig, YardstickApp};
use thalweg_yardstick::{Arrivals, Law, Model, truth};

/// The host of the servers, of a network for documentation (RFC 5737).
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const TARGET: SocketAddr = SocketAddr::new(HOST, 80);
pub(crate) const SINK: SocketAddr = SocketAddr::new(HOST, 81);

/// The time that the sink needs for a request.
const SINK_SERVICE: Duration = Duration::from_micros(1);

/// A server with the time at which it has something to do.
struct Member {
    app: YardstickApp,
    listener: SocketAddr,
    due: Option<Instant>,
}

/// The servers, each with its connections.
pub(crate) struct Servers {
    members: Vec<Member>,
    /// By the index of a socket: the server's own socket there, with the server.
    sockets: Vec<Option<(SocketId, usize)>>,
}

impl Servers {
    /// The sink alone.
    pub(crate) fn open(sim: &mut Sim, body_bytes: usize) -> Self {
        let mut servers = Self { members: Vec::new(), sockets: Vec::new() };
        let law = Law::Fixed { time_s: SINK_SERVICE.as_secs_f64() };
        servers.start(sim, SINK, &Model::plain(1, law), body_bytes);
        servers
    }

    /// Starts a server, in the place of the one at that address if there is one.
    pub(crate) fn start(&mut self, sim: &mut Sim, address: SocketAddr, model: &Model, body_bytes: usize) {
        if let Some(place) = self.members.iter().position(|member| member.listener == address) {
            sim.end_process(address);
            self.members.remove(place);
            self.sockets.iter_mut().for_each(|socket| {
                *socket = socket
                    .filter(|(_, owner)| *owner != place)
                    .map(|(id, owner)| (id, owner - usize::from(owner > place)));
            });
        }
        let config = ServerConfig {
            model: *model,
            truth: truth(model, Arrivals::Constant, &[]),
            body_bytes,
            retry_after_s: None,
            listen: address,
            cpus: Vec::new(),
            burn: false,
            driver: DriverChoice::default(),
            connections_max: usize::MAX,
            wake_early_ns: 0,
        };
        let mut app = YardstickApp::computed(&config, sim.now());
        app.listen(sim, Listen::Address(address)).expect("the address is free");
        self.members.push(Member { app, listener: address, due: Some(sim.now()) });
    }

    /// Hands a completion to the server that it is for; whether there is one.
    pub(crate) fn take(&mut self, sim: &mut Sim, completion: Completion) -> Result<(), Completion> {
        let owner = match &completion {
            Completion::Accepted { listener, socket } => {
                let address = sim.local_addr(*listener).expect("a listener has an address");
                let owner = self.members.iter().position(|member| member.listener == address);
                let owner = owner.expect("only servers listen");
                let at = socket.index();
                if self.sockets.len() <= at {
                    self.sockets.resize(at + 1, None);
                }
                self.sockets[at] = Some((*socket, owner));
                Some(owner)
            }
            other => other.subject().and_then(|socket| match self.sockets.get(socket.index()) {
                Some(Some((own, owner))) if *own == socket => Some(*owner),
                _ => None,
            }),
        };
        let Some(owner) = owner else { return Err(completion) };
        let member = &mut self.members[owner];
        member.app.on_completion(sim, completion);
        member.due = Some(sim.now());
        Ok(())
    }

    /// Has the servers do what is due. Returns the time of what comes next.
    pub(crate) fn go_on(&mut self, sim: &mut Sim, now: Instant) -> Option<Instant> {
        for member in &mut self.members {
            if member.due.is_some_and(|due| due <= now)
                && let LoopControl::WaitUntil(until) = member.app.on_iteration(sim, now)
            {
                member.due = until;
            }
        }
        self.members.iter().filter_map(|member| member.due).min()
    }
}
