//! The environment that the lab's procedures are given.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use thalweg_lab::command::CommandError;
use thalweg_lab::environment::{
    Environment, Examination, Follow, HandshakeTimes, ObservedRun, PathFigures, ServerSetUp, SinkTarget,
};
use thalweg_lab::observe::LocalServer;
use thalweg_lab::sink::{NAME, SinkApp};
use thalweg_load::{LoadError, Plan, TlsPlan};
use thalweg_sys::Instant;
use thalweg_sys::driver::Driver;
use thalweg_tls::{ClientOptions, ClientSettings, Resume};
use thalweg_wire::Version;
use thalweg_yardstick::Model;

use crate::client::ClientModel;
use crate::load::{plan, request};
use crate::servers::{SINK, TARGET};
use crate::world::{LATENCY, World};

/// Bytes of each response's body.
const BODY_BYTES: usize = 64;
/// Handshakes that an examination looks at.
const HANDSHAKES: usize = 8;

/// A client, a yardstick and the network between them, in virtual time.
pub struct VirtualLab {
    world: RefCell<World>,
    clock: Rc<Cell<Instant>>,
    began: Instant,
    set_up: Box<dyn Fn(&str) -> Model>,
}

impl VirtualLab {
    /// A lab whose target follows that model. It is at [`target`](crate::target).
    pub fn new(model: Model, client: ClientModel) -> Self {
        let lab = Self::without_target(client, move |_| model);
        lab.start(&model);
        lab
    }

    /// A lab whose target is a sink, which answers at once, with that version of HTTP, over TLS or
    /// not. Returns the load of [`plan`](crate::plan) in this protocol, too.
    ///
    /// # Errors
    /// TLS could not be set up.
    pub fn of_sink(version: Version, tls: bool, client: ClientModel) -> io::Result<(Self, Plan)> {
        let sink = SinkApp::new(version, tls, BODY_BYTES)?;
        let mut plan = Plan { requests: [request(version)].into(), ..plan() };
        if tls {
            let alpn = if version == Version::Http2 { &b"h2"[..] } else { b"http/1.1" };
            let options = ClientOptions { alpn: vec![alpn.to_vec()], insecure: true, ..ClientOptions::default() };
            let settings = ClientSettings::new(options).and_then(|settings| sink.client(&settings));
            let settings = settings.map_err(io::Error::other)?;
            plan.tls = Some(TlsPlan { settings, server_name: NAME.to_owned(), resume: Resume::default() });
        }
        let lab = Self::without_target(client, |_| unreachable!("no command sets a sink up"));
        lab.start_sink(TARGET, sink);
        Ok((lab, plan))
    }

    /// A lab whose target is set up by commands: `model` is the one of a command's parameter, such
    /// as the number of a restart or the side of a comparison.
    pub fn without_target(client: ClientModel, model: impl Fn(&str) -> Model + 'static) -> Self {
        let world = World::new(client);
        let (clock, began) = (Rc::clone(&world.clock), world.sim.now());
        Self { world: RefCell::new(world), clock, began, set_up: Box::new(model) }
    }

    fn start_sink(&self, address: SocketAddr, app: SinkApp) {
        let World { sim, servers, .. } = &mut *self.world.borrow_mut();
        servers.start_sink(sim, address, app);
    }

    fn start(&self, model: &Model) {
        let World { sim, servers, .. } = &mut *self.world.borrow_mut();
        servers.start(sim, TARGET, model, BODY_BYTES);
    }
}

impl fmt::Debug for VirtualLab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualLab").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Environment for VirtualLab {
    fn now(&self) -> Duration {
        self.clock.get() - self.began
    }

    fn pause(&self, length: Duration) {
        self.world.borrow_mut().pass(self.clock.get() + length);
    }

    /// One for the load, and one for the sink.
    fn cpus(&self) -> Vec<usize> {
        vec![0, 1]
    }

    fn run(&self, plan: Plan, follow: &mut Follow<'_>) -> Result<ObservedRun, LoadError> {
        Ok(self.world.borrow_mut().run(plan, follow))
    }

    fn sink(&self, plan: &Plan, body_bytes: usize) -> io::Result<SinkTarget> {
        let app = SinkApp::new(plan.version(), plan.tls.is_some(), body_bytes)?;
        let mut plan = Plan { peer: SINK.into(), sources: Vec::new(), ..plan.clone() };
        if let Some(tls) = &mut plan.tls {
            tls.settings = app.client(&tls.settings).map_err(io::Error::other)?;
        }
        self.start_sink(SINK, app);
        Ok(SinkTarget { plan, sink: Box::new(()) })
    }

    /// A handshake is answered by the target's kernel, whatever its server does.
    fn examine(&self, _server: Option<&LocalServer>, _plan: &Plan, overload: &mut dyn FnMut()) -> Examination {
        overload();
        let us = 2.0 * LATENCY.as_nanos() as f64 / 1e3;
        let times = HandshakeTimes { count: HANDSHAKES, unanswered: 0, min_us: us, p50_us: us, p90_us: us };
        let path = PathFigures { idle: times, loaded: times, ..PathFigures::default() };
        Examination { path: Some(path), ..Examination::default() }
    }

    fn set_up(&self, server: &ServerSetUp<'_>, _wants_stop: &dyn Fn() -> bool) -> Result<Box<dyn Any>, CommandError> {
        self.start(&(self.set_up)(&server.parameter.value));
        Ok(Box::new(()))
    }
}
