//! Takes samples of this host, one at each call.

use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_sys::proc::{self, CpuTime, thread_cpu};

use crate::clock::Clock;
use crate::facts::HostFacts;
use crate::host::HostReader;
use crate::sample::Sample;
use crate::server::{ServerName, ServerReader};

/// A sample that costs more than this has the server's threads followed less closely.
const COST_MAX: Duration = Duration::from_millis(4);

/// Takes samples of this host and of the named server on it.
///
/// The files stay open, and the thread that calls it is the one whose CPU time it counts as its
/// cost: it should do nothing else of weight.
#[derive(Debug)]
pub struct Sampler {
    host: HostReader,
    server: Option<ServerReader>,
    clock: Clock,
    facts: HostFacts,
    buffer: Vec<u8>,
    number: u64,
    last: Option<(Instant, Sample)>,
    spent: CpuTime,
}

impl Sampler {
    /// A sampler of this host, which has yet to take its first reading. `interval` goes into the
    /// facts only.
    pub fn new(server: Option<ServerName>, clock: Clock, interval: Duration) -> Self {
        let mut unavailable = Vec::new();
        let reader = HostReader::open(Path::new("/"), &mut unavailable);
        let host = proc::host();
        let facts = HostFacts {
            name: host.name,
            kernel: host.kernel,
            machine: host.machine,
            cpu_model: host.cpu_model,
            cpus: host.cpus,
            memory_bytes: host.memory_bytes,
            boot_id: proc::sysctl("kernel.random.boot_id").unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interval_s: interval.as_secs_f64(),
            server: server.as_ref().map_or_else(String::new, ToString::to_string),
            unavailable,
        };
        Self {
            host: reader,
            server: server.map(ServerReader::new),
            clock,
            facts,
            buffer: Vec::new(),
            number: 0,
            last: None,
            spent: thread_cpu(),
        }
    }

    /// The host, and what of it cannot be observed as far as that is known by now.
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// Reads all accounts and gives the activity since the last call. The first call gives `None`,
    /// since there is nothing to compare with.
    pub fn sample(&mut self) -> Option<Sample> {
        let now = Instant::now();
        let readings = self.host.read(&mut self.buffer);
        let server = self.server.as_mut().and_then(|server| server.read(&mut self.buffer));
        self.note_refusal();
        let sample = self.last.as_ref().map(|(then, earlier)| {
            self.number += 1;
            Sample {
                number: self.number,
                unix_s: self.clock.at(now),
                seconds: now.duration_since(*then).as_secs_f64(),
                server,
                ..readings.clone().host_since(earlier)
            }
        });
        self.last = Some((now, readings));
        let spent = thread_cpu();
        let cost = spent.since(self.spent).total_ns();
        self.spent = spent;
        let server = self.server.as_mut().filter(|_| sample.is_some() && cost > COST_MAX.as_nanos() as u64);
        if let Some(server) = server {
            server.follow_less();
        }
        sample.map(|sample| Sample { cost_us: cost / 1_000, ..sample })
    }

    fn note_refusal(&mut self) {
        const FUTEX: &str = "waits for locks: ";
        let refusal = self.server.as_ref().and_then(ServerReader::futex_refusal);
        if let Some(reason) = refusal.filter(|_| !self.facts.unavailable.iter().any(|line| line.starts_with(FUTEX))) {
            self.facts.unavailable.push(format!("{FUTEX}{reason}"));
        }
    }
}
