//! The sessions that a client may resume, by server.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

/// Servers whose sessions are kept.
const SERVERS_MAX: usize = 256;

/// Tickets that are kept of each server, one for each of many connections at once: a ticket is used
/// once (RFC 8446, C.4), and a server may send a single one on each connection. One has some
/// hundred bytes.
const TICKETS_MAX: usize = 4096;

/// Sessions in memory.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<ServerName<'static>, Server>>);

#[derive(Default)]
struct Server {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// The oldest one first.
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the entry of a server, unless there are too many others.
    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Server)) {
        let mut servers = self.lock();
        if servers.len() < SERVERS_MAX || servers.contains_key(&name) {
            change(servers.entry(name).or_default());
        }
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.change(name, |server| server.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().get(name)?.group
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.change(name, |server| server.tls12 = Some(session));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock().get(name)?.tls12.clone()
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        if let Some(server) = self.lock().get_mut(name) {
            server.tls12 = None;
        }
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.change(name, |server| {
            if server.tickets.len() == TICKETS_MAX {
                server.tickets.pop_front();
            }
            server.tickets.push_back(ticket);
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The latest one is the least likely to have expired.
        self.lock().get_mut(name)?.tickets.pop_back()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("servers", &self.lock().len()).finish_non_exhaustive()
    }
}
