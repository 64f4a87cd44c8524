//! The plan that the command line describes.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// A canned client and a canned server: the system calls of an HTTP exchange and nothing else.
#[derive(Parser)]
#[command(
    after_help = "Example: floor server --driver uring --port 28000 --cpu 0 &\n         floor client --driver uring --port 28000 --cpu 1 --seconds 8"
)]
pub struct Plan {
    pub role: Role,
    /// How it talks to the kernel
    #[arg(long, default_value = "uring")]
    pub driver: Driver,
    /// Port on 127.0.0.1; a server takes 0 for any, and says on stderr which
    #[arg(long)]
    pub port: u16,
    /// Client: connections that are open at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub connections: u16,
    /// End after as many requests
    #[arg(long)]
    pub requests: Option<u64>,
    /// End after as many seconds; a server with neither ends on SIGTERM or SIGINT
    #[arg(long)]
    pub seconds: Option<u32>,
    /// Server: bytes of the response's body
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(0..=1 << 17))]
    pub bytes: u32,
    /// Server (epoll): send these files in turn instead, with sendfile; repeatable
    #[arg(long, conflicts_with_all = ["bytes", "close"])]
    pub file: Vec<PathBuf>,
    /// Server: bytes of a file per system call
    #[arg(long, default_value_t = 60 << 10, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub chunk: u64,
    /// Client: what to ask for
    #[arg(long, default_value = "/000.txt")]
    pub path: String,
    /// A connection per request, instead of keeping it
    #[arg(long)]
    pub close: bool,
    /// CPU to run on
    #[arg(long)]
    pub cpu: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    Client,
    Server,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    Epoll,
    Uring,
}

impl Plan {
    pub fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    /// Requests to make or serve; without a bound, more than any run makes.
    pub fn requests_max(&self) -> u64 {
        self.requests.unwrap_or(u64::MAX)
    }
}
