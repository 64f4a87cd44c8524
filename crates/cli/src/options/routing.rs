//! The options for the way from the target's name to an address.

use std::net::IpAddr;

use clap::Args;
use thalweg_lab::routing::{ConnectTo, Family, Resolve, Routing};
use thalweg_sys::UnixAddr;

use super::headings::CONNECTIONS;

/// The way to the target.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = CONNECTIONS)]
pub(crate) struct RoutingOptions {
    /// Use IPv4 addresses of the target's name alone
    #[arg(short = '4', long, conflicts_with = "ipv6", hide_short_help = true)]
    pub ipv4: bool,
    /// Use IPv6 addresses of the target's name alone
    #[arg(short = '6', long, hide_short_help = true)]
    pub ipv6: bool,
    /// Addresses of a name at a port, which are not looked up, as in curl: HOST:PORT:ADDRESS,...;
    /// repeatable
    #[arg(long, value_name = "ENTRY", hide_short_help = true)]
    pub resolve: Vec<Resolve>,
    /// Connect to another host and port than the URL's, as in curl: HOST1:PORT1:HOST2:PORT2;
    /// repeatable
    #[arg(long, value_name = "ENTRY", hide_short_help = true)]
    pub connect_to: Vec<ConnectTo>,
}

impl RoutingOptions {
    /// The way; through this Unix socket, if there is one, and from these local addresses.
    pub(crate) fn routing(&self, socket: Option<&UnixAddr>, from: &[Vec<IpAddr>]) -> Routing {
        let preferred = from.iter().flatten().next().map(|source| Family::of(*source));
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::V4),
            (_, true) => Some(Family::V6),
            _ => None,
        };
        let (resolve, connect_to) = (self.resolve.clone(), self.connect_to.clone());
        Routing { socket: socket.cloned(), proxy: None, family, preferred, resolve, connect_to }
    }
}
