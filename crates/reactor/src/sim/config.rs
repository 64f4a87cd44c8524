//! How the simulated network behaves.

/// The behaviour of simulated connections. Probabilities are between 0 and 1; times are virtual.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Decides all that is random: the same seed and the same calls give the same completions.
    pub seed: u64,
    /// Most sockets open at once, listeners included.
    pub sockets_max: usize,
    /// The most that one completion delivers.
    pub receive_buffer_bytes: usize,
    /// Most bytes that the network holds for one direction of a connection, from the sender's
    /// kernel to the receiver's. A sender makes progress only as far as there is room.
    pub socket_buffer_bytes: usize,
    /// Connections that may wait to be accepted; further ones have to try again, as SYNs do when
    /// Linux drops them.
    pub backlog: usize,
    /// From one side to the other.
    pub latency_ns: u64,
    /// At most this much is added to the latency of each segment, and to the time until its bytes
    /// are delivered.
    pub jitter_ns: u64,
    /// Bytes per second in each direction of a connection; `None` is without limit.
    pub bandwidth: Option<u64>,
    /// How often only a part of what has arrived is delivered: of all sizes down to one byte, small
    /// ones as often as large.
    pub fragment_probability: f64,
    /// A wait returns up to this much later than it could, with all that has happened until then.
    pub oversleep_ns: u64,
    /// Per segment (what the kernel takes at once, 64 KiB at most): the connection is reset in the
    /// middle of it.
    pub reset_probability: f64,
    /// Per reset: the bytes that the receiver has not yet been given are lost with it, also those
    /// that came before.
    pub reset_loss_probability: f64,
    /// Per segment: from here on nothing comes through any more, in neither direction.
    pub mute_probability: f64,
    /// Per connect: refused although there is a listener.
    pub refuse_probability: f64,
    /// Per connect: it gets no response.
    pub blackhole_probability: f64,
    /// Per connect: it fails at once, for want of a descriptor or of a local address.
    pub connect_failure_probability: f64,
    /// Per accepted connection: accepting stops for want of a descriptor. The connection waits.
    pub accept_failure_probability: f64,
}

impl SimConfig {
    /// A network in which nothing goes wrong: 50 µs each way, all that has arrived delivered at
    /// once.
    pub const fn calm(seed: u64) -> Self {
        Self {
            seed,
            sockets_max: 4096,
            receive_buffer_bytes: 64 * 1024,
            socket_buffer_bytes: 256 * 1024,
            backlog: 4096,
            latency_ns: 50_000,
            jitter_ns: 0,
            bandwidth: None,
            fragment_probability: 0.0,
            oversleep_ns: 0,
            reset_probability: 0.0,
            reset_loss_probability: 0.0,
            mute_probability: 0.0,
            refuse_probability: 0.0,
            blackhole_probability: 0.0,
            connect_failure_probability: 0.0,
            accept_failure_probability: 0.0,
        }
    }

    /// A network that is slow, uneven and cramped but breaks nothing by itself: what is sent
    /// arrives, in pieces of any size.
    pub const fn rough(seed: u64) -> Self {
        Self {
            socket_buffer_bytes: 24 * 1024,
            backlog: 64,
            latency_ns: 200_000,
            jitter_ns: 2_000_000,
            bandwidth: Some(50_000_000),
            fragment_probability: 0.5,
            oversleep_ns: 300_000,
            reset_loss_probability: 0.5,
            ..Self::calm(seed)
        }
    }

    /// A rough network in which everything also fails now and then.
    pub const fn hostile(seed: u64) -> Self {
        Self {
            reset_probability: 0.01,
            mute_probability: 0.003,
            refuse_probability: 0.02,
            blackhole_probability: 0.01,
            connect_failure_probability: 0.02,
            accept_failure_probability: 0.02,
            ..Self::rough(seed)
        }
    }
}
