//! The figures of path and server, in the form in which they are judged.

/// The path and the server, as they were seen while a load was offered.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// The path; `None` for a Unix socket.
    pub path: Option<PathFigures>,
    /// The server's processes, where they run on this host.
    pub server: Option<ServerFigures>,
    /// The interface to the target, if its speed is known.
    pub interface: Option<InterfaceFigures>,
}

/// A network interface of this host.
#[derive(Clone, Debug)]
pub struct InterfaceFigures {
    /// Its name.
    pub name: String,
    /// Its speed in bits per second.
    pub bits_per_s: u64,
}

/// The path between client and server.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathFigures {
    /// Handshakes without load.
    pub idle: HandshakeTimes,
    /// Handshakes during the overload.
    pub loaded: HandshakeTimes,
    /// Segments that the client received out of order, per segment received: what was lost on the
    /// way from the server, or overtaken.
    pub out_of_order: f64,
    /// Segments that the client sent again, per segment sent.
    pub retransmitted: f64,
}

/// Times from SYN to SYN-ACK, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HandshakeTimes {
    /// Handshakes whose time is known.
    pub count: usize,
    /// Handshakes whose SYN got no answer at first, or none at all.
    pub unanswered: usize,
    /// The shortest.
    pub min_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90 % are at most this.
    pub p90_us: f64,
}

/// The server's processes on this host during the overload.
#[derive(Clone, Debug, Default)]
pub struct ServerFigures {
    /// The program's name.
    pub name: String,
    /// CPUs that it may run on.
    pub cpus_allowed: usize,
    /// Its threads, the busiest first.
    pub tasks: Vec<TaskFigures>,
    /// Open descriptors of the process that is nearest to its limit, and that limit.
    pub descriptors: Option<(u64, u64)>,
    /// Threads in the wait for storage, on average.
    pub storage: f64,
    /// Threads that ran or were ready to, on average.
    pub runnable: f64,
    /// Share of the time for which the quota of its control group stopped it.
    pub throttled: f64,
}

/// A thread of the server. Shares are of the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFigures {
    /// Its name.
    pub name: String,
    /// The share for which it ran.
    pub cpu: f64,
    /// The share for which it was ready to run and was not run.
    pub wait: f64,
}

impl HandshakeTimes {
    /// Of times that are known, in nanoseconds.
    pub fn of(mut times_ns: Vec<u64>, unanswered: usize) -> Self {
        times_ns.sort_unstable();
        let at = |share: f64| {
            let place = (share * times_ns.len() as f64) as usize;
            times_ns.get(place.min(times_ns.len().saturating_sub(1))).map_or(0.0, |ns| *ns as f64 / 1e3)
        };
        Self { count: times_ns.len(), unanswered, min_us: at(0.0), p50_us: at(0.5), p90_us: at(0.9) }
    }
}
