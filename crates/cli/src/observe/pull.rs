//! The observer that a measuring command pulls from.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use thalweg_lab::observe::HostObserver;
use thalweg_lab::path_check::PathCheck;
use thalweg_observe::remote::path_request;

use super::token::token;
use crate::exit::Failure;
use crate::options::ObserverOptions;

/// Connects to the observer that the options name, if they name one.
///
/// # Errors
/// The token is none, or the observer cannot be reached or refuses it.
pub(crate) fn observer(options: &ObserverOptions, load_cpus: &[usize]) -> Result<Option<HostObserver>, Failure> {
    let Some(address) = &options.observe else { return Ok(None) };
    let token = token(options.observe_token_file.as_deref())?;
    HostObserver::there(address, token, load_cpus)
        .map(Some)
        .map_err(|error| Failure::unreachable(format!("--observe: {error}")))
}

/// The bulk transfer from the observer that the options name.
///
/// # Errors
/// The token is none, or the observer's name has no address.
pub(crate) fn path_check(options: &ObserverOptions) -> Result<Option<PathCheck>, Failure> {
    let Some(address) = &options.observe else { return Ok(None) };
    let token = token(options.observe_token_file.as_deref())?;
    let found = address.to_socket_addrs().and_then(|found| first(&found.collect::<Vec<_>>()));
    let peer = found.map_err(|error| Failure::unreachable(format!("--observe: {address} has no address: {error}")))?;
    Ok(Some(PathCheck { peer, request: path_request(address, token.as_ref()) }))
}

/// The first address that accepts a connection, or the first of all.
fn first(addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
    match addresses {
        [] => Err(io::ErrorKind::NotFound.into()),
        [only] => Ok(*only),
        [first, ..] => Ok(thalweg_lab::routing::first_that_accepts(addresses).unwrap_or(*first)),
    }
}
