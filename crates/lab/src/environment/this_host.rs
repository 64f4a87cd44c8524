//! This host as the world of trials: load threads, the kernel's clock, real sockets.

use std::any::Any;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use std::{io, thread};

use thalweg_load::{LoadError, Plan, TlsPlan, start};
use thalweg_sys::PeerAddr;
use thalweg_sys::affinity::allowed_cpus;
use thalweg_sys::proc::cgroup_throttled_ns;

use super::cpu_watch::CpuWatch;
use super::figures::Examination;
use super::sampler::Sampler;
use super::{Environment, FOLLOW_INTERVAL, Follow, ObservedRun, ServerSetUp, SinkTarget};
use crate::command::{CommandError, RunningCommand};
use crate::observe::LocalServer;
use crate::sink::{self, Sink, SinkSettings};
use crate::target::{Target, TargetError};

/// How long a target may take to accept one connection before it is set up anew.
const REACH_TIMEOUT: Duration = Duration::from_millis(500);

/// This host, with its clock at 0 when it is made.
#[derive(Debug)]
pub struct ThisHost {
    began: Instant,
}

impl ThisHost {
    /// A command begins.
    pub fn begin() -> Self {
        Self { began: Instant::now() }
    }
}

impl Environment for ThisHost {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pause(&self, length: Duration) {
        thread::sleep(length);
    }

    fn cpus(&self) -> Vec<usize> {
        allowed_cpus().unwrap_or_default()
    }

    fn run(&self, plan: Plan, follow: &mut Follow<'_>) -> Result<ObservedRun, LoadError> {
        let cpus = plan.cpus.clone();
        let throttled_before = cgroup_throttled_ns();
        let running = start(plan)?;
        let progress = running.progress();
        let watch = CpuWatch::start(progress.clone(), &cpus);
        while !running.is_finished() {
            thread::sleep(FOLLOW_INTERVAL);
            if follow(&progress).is_break() {
                running.stop();
            }
        }
        let joined = running.join();
        let others = watch.end();
        let throttled = cgroup_throttled_ns().zip(throttled_before);
        let throttled_ns = throttled.map_or(0, |(now, before)| now.saturating_sub(before));
        Ok(ObservedRun { figures: joined?, progress, others, throttled_ns })
    }

    fn sink(&self, plan: &Plan, body_bytes: usize) -> io::Result<SinkTarget> {
        let sink = Sink::start(SinkSettings {
            body_bytes,
            version: plan.version(),
            tls: plan.tls.is_some(),
            cpu: self.cpus().into_iter().find(|cpu| !plan.cpus.contains(cpu)),
            driver: plan.driver,
            connections_max: plan.connections,
        })?;
        let mut plan = Plan {
            peer: sink.address().into(),
            peers: Vec::new(),
            proxy: None,
            proxy_header: None,
            sources: Vec::new(),
            ..plan.clone()
        };
        if let Some(tls) = &mut plan.tls {
            let settings = sink.client(&tls.settings).map_err(io::Error::other)?;
            *tls = TlsPlan { settings, server_name: sink::NAME.to_owned(), resume: tls.resume };
        }
        Ok(SinkTarget { plan, sink: Box::new(sink) })
    }

    fn examine(&self, server: Option<&LocalServer>, plan: &Plan, overload: &mut dyn FnMut()) -> Examination {
        let sampler = Sampler::new(server.cloned(), plan);
        let idle = sampler.idle_handshakes();
        let ((), samples) = sampler.beside(overload);
        samples.figures(idle, sampler.interface())
    }

    fn is_host_of(&self, target: &Target) -> bool {
        target.is_local()
    }

    fn server_of(&self, target: &Target) -> Option<LocalServer> {
        match &target.address {
            PeerAddr::Tcp(address) if target.is_local() => LocalServer::on_port(address.port()),
            _ => None,
        }
    }

    fn reach(&self, target: &Target, patience: Duration, sources: &[IpAddr]) -> Result<(), TargetError> {
        target.reach(patience, sources)
    }

    fn set_up(&self, server: &ServerSetUp<'_>, wants_stop: &dyn Fn() -> bool) -> Result<Box<dyn Any>, CommandError> {
        let was_reachable = server.target.reach(REACH_TIMEOUT, &[]).is_ok();
        let running = RunningCommand::start(server.command, server.parameter)?;
        running.wait_until_reachable(server.target, was_reachable, server.patience, wants_stop)?;
        Ok(Box::new(running))
    }
}
