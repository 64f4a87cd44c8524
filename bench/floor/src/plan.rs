//! The plan that the command line describes.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// A canned client and a canned server: the system calls of an HTTP exchange and nothing else.
#[derive(Parser)]
#[command(
    after_help = "Example: floor server --driver uring --port 28000 --cpu 0 &\n         floor client --driver uring --port 28000 --cpu 1 --seconds 8"
)]
pub(crate) struct Plan {
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
    /// Client (epoll): speak TLS 1.3
    #[arg(long)]
    pub tls: bool,
    /// Server (epoll): speak TLS 1.3 with the certificate chain and key of these files
    #[arg(long, value_name = "CHAIN:KEY", value_parser = certificate)]
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// With TLS and --close: resume sessions by tickets
    #[arg(long, requires = "close")]
    pub resume: bool,
    /// Speak HTTP/2 (epoll), a client with so many streams per connection
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024), conflicts_with = "close")]
    pub streams: u16,
    /// CPU to run on
    #[arg(long)]
    pub cpu: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Client,
    Server,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    Epoll,
    Uring,
}

impl Plan {
    pub(crate) fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    /// Whether there is more between socket and exchange than HTTP/1 over TCP.
    pub(crate) fn is_layered(&self) -> bool {
        self.tls || self.certificate.is_some() || self.streams > 0
    }

    /// Requests to make or serve; without a bound, more than any run makes.
    pub(crate) fn requests_max(&self) -> u64 {
        self.requests.unwrap_or(u64::MAX)
    }
}

fn certificate(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (chain, key) = text.split_once(':').ok_or("two files with a colon between them: CHAIN:KEY")?;
    Ok((chain.into(), key.into()))
}
