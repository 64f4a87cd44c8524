//! The servers of the world: the target, which is a yardstick, and the sink that clients are
//! calibrated with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use thalweg_lab::sink::SinkApp;
use thalweg_reactor::sim::Sim;
use thalweg_reactor::{App, LoopControl};
use thalweg_sys::driver::{Completion, Driver, Listen};
use thalweg_sys::{DriverChoice, Instant, SocketId};
use thalweg_yardstick::server::{ServerConfig, YardstickApp};
use thalweg_yardstick::{Arrivals, Model, truth};

/// The host of the servers, of a network for documentation (RFC 5737).
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const TARGET: SocketAddr = SocketAddr::new(HOST, 80);
pub(crate) const SINK: SocketAddr = SocketAddr::new(HOST, 81);

/// The application of a server.
#[expect(clippy::large_enum_variant, reason = "there are two in a world")]
enum Server {
    Yardstick(YardstickApp),
    /// A server that answers at once, in the protocols that yardsticks do not speak too.
    Sink(SinkApp),
}

impl Server {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        match self {
            Self::Yardstick(app) => app.on_completion(sim, completion),
            Self::Sink(app) => app.on_completion(sim, completion),
        }
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        match self {
            Self::Yardstick(app) => app.on_iteration(sim, now),
            Self::Sink(app) => app.on_iteration(sim, now),
        }
    }
}

/// A server with the time at which it has something to do.
struct Member {
    app: Server,
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
    /// None yet.
    pub(crate) fn none() -> Self {
        Self { members: Vec::new(), sockets: Vec::new() }
    }

    /// Starts a yardstick.
    pub(crate) fn start(&mut self, sim: &mut Sim, address: SocketAddr, model: &Model, body_bytes: usize) {
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
        self.end(sim, address);
        let mut app = YardstickApp::computed(&config, sim.now());
        app.listen(sim, Listen::Address(address)).expect("the address is free");
        self.members.push(Member { app: Server::Yardstick(app), listener: address, due: Some(sim.now()) });
    }

    /// Starts a sink.
    pub(crate) fn start_sink(&mut self, sim: &mut Sim, address: SocketAddr, app: SinkApp) {
        self.end(sim, address);
        app.listen(sim, Listen::Address(address)).expect("the address is free");
        self.members.push(Member { app: Server::Sink(app), listener: address, due: None });
    }

    /// Ends the server at that address, if there is one.
    fn end(&mut self, sim: &mut Sim, address: SocketAddr) {
        if let Some(place) = self.members.iter().position(|member| member.listener == address) {
            sim.end_process(address);
            self.members.remove(place);
            for socket in &mut self.sockets {
                *socket = socket
                    .filter(|(_, owner)| *owner != place)
                    .map(|(id, owner)| (id, owner - usize::from(owner > place)));
            }
        }
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
