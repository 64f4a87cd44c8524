//! The listening sockets of a server, apart from the loops that accept from them.
//!
//! The sockets live here; loops and the status listener accept from duplicates. So a socket
//! outlives the thread that uses it, can be passed to the successor process or to another role in
//! this one, and can be closed. Connections wait in the kernel's queue of the socket, which all its
//! duplicates in all processes share: none of them is lost when one process takes over from
//! another.
//!
//! A change is prepared first, which may fail and changes nothing, and applied then, which cannot
//! fail.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use thalweg_sys::PeerAddr;
use thalweg_sys::socket::{self, SocketFile};

use super::failure::StartError;
use crate::config::{ListenAddr, ServerConfig};

/// All sockets on which a server listens.
#[derive(Debug, Default)]
pub struct Listeners {
    entries: Vec<Entry>,
    /// Inherited sockets that are not in use yet.
    spare: Vec<Group>,
    next_id: u32,
    /// Owner and mode of the files of Unix sockets.
    socket_file: SocketFile,
}

/// An address and the sockets that share it.
#[derive(Debug)]
pub struct Group {
    /// The address as the configuration has it, perhaps with port 0.
    pub asked: ListenAddr,
    /// A service manager has opened it: its file, if it has one, is not ours to remove.
    pub by_service_manager: bool,
    /// The sockets, at least one.
    pub sockets: Vec<OwnedFd>,
}

/// A group that is listened on.
#[derive(Debug)]
struct Entry {
    id: u32,
    group: Group,
    at: ListenAddr,
    role: Role,
    /// Device and inode of a Unix socket's file, if it is ours to remove.
    file: Option<(u64, u64)>,
}

/// The part of a server that accepts from a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Loops,
    Status,
}

/// The treatment of the files of Unix sockets whose listeners are closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Files {
    /// Nothing listens there from now on.
    Remove,
    /// Another process goes on listening.
    Keep,
}

/// For each loop, the sockets that it accepts from, with the numbers of their groups.
pub(crate) type Shares = Vec<Vec<(u32, OwnedFd)>>;

/// A change of listeners that is prepared: what is new is open, and nothing has changed yet.
pub(crate) struct Change {
    /// The loops begin to accept from these.
    pub(crate) added: Shares,
    /// The loops stop accepting from these groups, which are closed.
    pub(crate) removed: Vec<u32>,
    /// The loops stop accepting from these groups, which the status listener goes on with.
    pub(crate) released: Vec<u32>,
    /// Duplicates of the status listener's sockets, if there is one.
    pub(crate) status: Vec<OwnedFd>,
    /// The loops go on with the sockets that the status listener has now.
    pub(crate) takes_from_status: bool,
    /// All groups after the change: that of the status listener, then those of the loops in the
    /// order of the configuration.
    after: Vec<Planned>,
    next_id: u32,
}

/// A group from which the loops accept.
pub(crate) struct LoopGroup {
    /// Its number.
    pub(crate) number: u32,
    /// Its address as the configuration has it.
    pub(crate) asked: ListenAddr,
    /// Its address with the port that the kernel chose.
    pub(crate) at: ListenAddr,
}

/// A group after a change.
enum Planned {
    /// There is such a group, perhaps in the other role.
    Known(u32, Role),
    New(Entry),
}

impl Group {
    /// A socket that a service manager has opened.
    ///
    /// # Errors
    /// It is no listening stream socket.
    pub fn by_service_manager(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { asked: address_of(&socket)?, by_service_manager: true, sockets: vec![socket] })
    }
}

impl Listeners {
    /// Listens on the addresses, once for each loop. Inherited sockets are used for their address,
    /// as many as they are; those for which there is no address are closed when the server has
    /// started. Files of Unix sockets that are made, now or later, are made as `socket_file` has
    /// it.
    ///
    /// # Errors
    /// An address cannot be had.
    pub fn open(
        asked: &[ListenAddr],
        socket_file: SocketFile,
        mut inherited: Vec<Group>,
        loops: usize,
    ) -> Result<Self, StartError> {
        if asked.is_empty() {
            return Err(StartError::NoAddress);
        }
        let mut listeners = Self { socket_file, ..Self::default() };
        for address in asked {
            let group = take_group(&mut inherited, address)
                .map_or_else(|| bind_patiently(address, socket_file, loops), Ok)
                .and_then(|group| listeners.enter(group, Role::Loops));
            group.map_err(|error| StartError::Listen { address: address.clone(), error })?;
        }
        listeners.spare = inherited;
        Ok(listeners)
    }

    /// Listens on the address of the status listener, with inherited sockets or a new one. Returns
    /// duplicates of them; the sockets are passed to a successor process with the others.
    pub(crate) fn open_status(&mut self, address: &ListenAddr) -> Result<Vec<OwnedFd>, StartError> {
        let refused = |error| StartError::Listen { address: address.clone(), error };
        let spare = take_group(&mut self.spare, address);
        let group = spare.map_or_else(|| bind_patiently(address, self.socket_file, 1), Ok).map_err(refused)?;
        let duplicates = duplicates_of(&group).map_err(refused)?;
        self.enter(group, Role::Status).map_err(refused)?;
        Ok(duplicates)
    }

    /// Closes the inherited sockets that are not in use.
    pub(crate) fn close_spare(&mut self) {
        self.spare.clear();
    }

    /// The addresses from which the loops accept, in the order of the configuration, with the ports
    /// that the kernel chose.
    pub fn addresses(&self) -> Vec<ListenAddr> {
        self.of_role(Role::Loops).map(|entry| entry.at.clone()).collect()
    }

    /// All addresses and their sockets, for a process that follows.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.entries.iter().map(|entry| &entry.group)
    }

    /// The address that the configuration has for one that is listened on.
    pub(crate) fn asked_for(&self, at: &ListenAddr) -> Option<&ListenAddr> {
        self.of_role(Role::Loops).find(|entry| entry.at == *at).map(|entry| &entry.group.asked)
    }

    /// The loops' groups.
    pub(crate) fn groups_of_loops(&self) -> Vec<LoopGroup> {
        self.of_role(Role::Loops).map(LoopGroup::of).collect()
    }

    /// Each loop's duplicates.
    pub(crate) fn shares(&self, loops: usize) -> io::Result<Shares> {
        share(self.of_role(Role::Loops), loops)
    }

    /// Prepares to listen on these addresses for the loops, and on this one for the status
    /// listener. A group keeps its sockets if its address is still wanted, also in the other role:
    /// the kernel then goes on queueing connections while the role changes. (A group that comes
    /// from the status listener has one socket for all loops, like a Unix socket.)
    ///
    /// # Errors
    /// An address cannot be had. Nothing has changed then.
    pub(crate) fn prepare(
        &self,
        asked: &[ListenAddr],
        status: Option<&ListenAddr>,
        loops: usize,
    ) -> Result<Change, StartError> {
        let mut added = Self { next_id: self.next_id, socket_file: self.socket_file, ..Self::default() };
        let planned = self.assign(asked, status);
        let mut after = Vec::with_capacity(planned.len());
        let mut status_sockets = Vec::new();
        for (address, role, known) in planned {
            let refused = |error| StartError::Listen { address: address.clone(), error };
            if let Some(entry) = known {
                if role == Role::Status {
                    status_sockets = duplicates_of(&entry.group).map_err(StartError::Loop)?;
                }
                after.push(Planned::Known(entry.id, role));
                continue;
            }
            match role {
                Role::Status => status_sockets = added.open_status(address)?,
                Role::Loops => bind(address, self.socket_file, loops)
                    .and_then(|group| added.enter(group, Role::Loops))
                    .map_err(refused)?,
            }
            after.extend(added.entries.pop().map(Planned::New));
        }
        let role_after = |entry: &Entry| {
            after.iter().find_map(|planned| match planned {
                Planned::Known(id, role) if *id == entry.id => Some(*role),
                _ => None,
            })
        };
        let of_loops = |role| self.of_role(Role::Loops).filter(move |entry| role_after(entry) == role);
        let from_status = self.of_role(Role::Status).filter(|entry| role_after(entry) == Some(Role::Loops));
        let new = after.iter().filter_map(|planned| match planned {
            Planned::New(entry) if entry.role == Role::Loops => Some(entry),
            _ => None,
        });
        Ok(Change {
            added: share(new.chain(from_status.clone()), loops).map_err(StartError::Loop)?,
            removed: of_loops(None).map(|entry| entry.id).collect(),
            released: of_loops(Some(Role::Status)).map(|entry| entry.id).collect(),
            takes_from_status: from_status.count() > 0,
            status: status_sockets,
            next_id: added.next_id,
            after,
        })
    }

    /// For each address that is wanted, its role and the group that there is for it: one of the
    /// same role if possible, then one of the other role that would be closed.
    fn assign<'a>(
        &self,
        asked: &'a [ListenAddr],
        status: Option<&'a ListenAddr>,
    ) -> Vec<(&'a ListenAddr, Role, Option<&Entry>)> {
        let status = status.map(|address| (address, Role::Status));
        let of_loops = asked.iter().map(|address| (address, Role::Loops));
        let mut planned: Vec<_> = status.into_iter().chain(of_loops).map(|(at, role)| (at, role, None)).collect();
        let mut free: Vec<&Entry> = self.entries.iter().collect();
        for is_same_role in [true, false] {
            for (address, role, known) in planned.iter_mut().filter(|(_, _, known)| known.is_none()) {
                let fits = |entry: &&Entry| (entry.role == *role) == is_same_role && entry.group.asked == **address;
                *known = free.iter().position(fits).map(|at| free.remove(at));
            }
        }
        planned
    }

    /// Applies a change: its new groups are listened on, groups that it does not have are closed.
    /// Duplicates of those are their owners' to close.
    pub(crate) fn apply(&mut self, change: Change) {
        let mut before = std::mem::take(&mut self.entries);
        self.next_id = change.next_id;
        for planned in change.after {
            match planned {
                Planned::New(entry) => self.entries.push(entry),
                Planned::Known(id, role) => {
                    let Some(at) = before.iter().position(|entry| entry.id == id) else { continue };
                    let mut entry = before.swap_remove(at);
                    entry.set_role(role);
                    self.entries.push(entry);
                }
            }
        }
        Self { entries: before, ..Self::default() }.close(Files::Remove);
    }

    /// Closes the sockets here. Duplicates of them are their owners' to close.
    pub(crate) fn close(&mut self, files: Files) {
        for entry in self.entries.drain(..) {
            let ListenAddr::Unix(path) = &entry.at else { continue };
            // Another server may have put its own socket there since.
            if files == Files::Remove && entry.file.is_some() && identity(path) == entry.file {
                // A file that is left is found stale by the next server.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &Entry> + Clone {
        self.entries.iter().filter(move |entry| entry.role == role)
    }

    fn enter(&mut self, group: Group, role: Role) -> io::Result<()> {
        let at = address_of(&group.sockets[0])?;
        let file = match &at {
            ListenAddr::Unix(path) if !group.by_service_manager => identity(path),
            _ => None,
        };
        let mut entry = Entry { id: self.next_id, group, at, role: Role::Status, file };
        entry.set_role(role);
        self.entries.push(entry);
        self.next_id += 1;
        Ok(())
    }
}

impl Change {
    /// The loops' groups after the change of `listeners`.
    pub(crate) fn groups_of_loops(&self, listeners: &Listeners) -> Vec<LoopGroup> {
        let of_loops = |planned: &Planned| match planned {
            Planned::New(entry) => (entry.role == Role::Loops).then(|| LoopGroup::of(entry)),
            Planned::Known(id, Role::Loops) => {
                listeners.entries.iter().find(|entry| entry.id == *id).map(LoopGroup::of)
            }
            Planned::Known(_, Role::Status) => None,
        };
        self.after.iter().filter_map(of_loops).collect()
    }
}

impl LoopGroup {
    /// The numbers of the groups whose connections begin with a PROXY header.
    pub(crate) fn proxied(groups: &[Self], config: &ServerConfig) -> Vec<u32> {
        let proxied = groups.iter().filter(|group| config.proxy_protocol.contains(&group.asked));
        proxied.map(|group| group.number).collect()
    }

    fn of(entry: &Entry) -> Self {
        Self { number: entry.id, asked: entry.group.asked.clone(), at: entry.at.clone() }
    }
}

impl Entry {
    fn set_role(&mut self, role: Role) {
        self.role = role;
        // A few status pages do without, and do not suffer from it either. A service manager has
        // set up its sockets itself.
        if role == Role::Loops && !self.group.by_service_manager {
            self.group.sockets.iter().for_each(socket::defer_accept);
        }
    }
}

fn take_group(groups: &mut Vec<Group>, address: &ListenAddr) -> Option<Group> {
    let at = groups.iter().position(|group| group.asked == *address && !group.sockets.is_empty())?;
    Some(groups.remove(at))
}

fn duplicates_of(group: &Group) -> io::Result<Vec<OwnedFd>> {
    group.sockets.iter().map(OwnedFd::try_clone).collect()
}

/// Binds an address. A server that was killed may leave its address in use for a moment: the kernel
/// takes a ring apart, and with it the sockets that it waits at, some time after the process.
fn bind_patiently(asked: &ListenAddr, socket_file: SocketFile, loops: usize) -> io::Result<Group> {
    const TRIES: u32 = 10;
    const REST: Duration = Duration::from_millis(50);
    let mut tries_left = TRIES;
    loop {
        tries_left -= 1;
        match bind(asked, socket_file, loops) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries_left > 0 => thread::sleep(REST),
            bound => return bound,
        }
    }
}

fn bind(asked: &ListenAddr, socket_file: SocketFile, loops: usize) -> io::Result<Group> {
    let mut sockets = Vec::with_capacity(loops);
    match asked {
        ListenAddr::Tcp(address) => {
            socket::probe(*address)?;
            let mut at = *address;
            for _ in 0..loops {
                let listener = TcpListener::from(socket::listen(at)?);
                // Port 0: the first loop's socket has got one, which the others share.
                at = listener.local_addr()?;
                sockets.push(listener.into());
            }
        }
        ListenAddr::Unix(path) => sockets.push(socket::listen_unix(path, socket_file)?),
    }
    Ok(Group { asked: asked.clone(), by_service_manager: false, sockets })
}

/// Deals out the sockets: with fewer of them than loops some loops share one, with more a loop has
/// several. None of them may be without a loop, since the kernel spreads connections over all.
fn share<'e>(entries: impl Iterator<Item = &'e Entry>, loops: usize) -> io::Result<Shares> {
    let mut shares: Shares = (0..loops).map(|_| Vec::new()).collect();
    for entry in entries {
        let sockets = &entry.group.sockets;
        for index in 0..loops.max(sockets.len()) {
            shares[index % loops].push((entry.id, sockets[index % sockets.len()].try_clone()?));
        }
    }
    Ok(shares)
}

fn address_of(socket: &OwnedFd) -> io::Result<ListenAddr> {
    Ok(match socket::listens_at(socket)? {
        PeerAddr::Tcp(address) => ListenAddr::Tcp(address),
        PeerAddr::Unix(address) => ListenAddr::Unix(address.to_string().into()),
    })
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use tempfile::TempDir;

    use super::*;

    fn any_port() -> ListenAddr {
        SocketAddr::from(([127, 0, 0, 1], 0)).into()
    }

    fn reaches(address: &ListenAddr) -> bool {
        match address {
            ListenAddr::Tcp(address) => TcpStream::connect(address).is_ok(),
            ListenAddr::Unix(path) => std::os::unix::net::UnixStream::connect(path).is_ok(),
        }
    }

    /// Listeners for so many loops.
    fn open(addresses: &[ListenAddr], inherited: Vec<Group>, loops: usize) -> Listeners {
        Listeners::open(addresses, SocketFile::default(), inherited, loops).unwrap()
    }

    /// Applies a change to the listeners, and returns its steps.
    fn change(
        listeners: &mut Listeners,
        addresses: &[ListenAddr],
        status: Option<&ListenAddr>,
    ) -> Result<[Vec<u32>; 2], StartError> {
        let change = listeners.prepare(addresses, status, 2)?;
        let figures = [change.removed.clone(), change.released.clone()];
        listeners.apply(change);
        Ok(figures)
    }

    /// The addresses of the loops, and that of the status listener.
    fn places(listeners: &Listeners) -> (Vec<ListenAddr>, Option<ListenAddr>) {
        (listeners.addresses(), listeners.of_role(Role::Status).next().map(|entry| entry.at.clone()))
    }

    #[test]
    fn every_socket_has_a_loop_and_every_loop_a_socket() {
        for (bound, loops) in [(1, 1), (1, 3), (2, 3), (3, 2), (5, 2), (4, 4)] {
            let listeners = open(&[any_port()], Vec::new(), bound);
            let shares = listeners.shares(loops).unwrap();
            assert!(shares.iter().all(|share| !share.is_empty()), "{bound} sockets, {loops} loops");
            assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), bound.max(loops));
        }
    }

    #[test]
    fn inherited_sockets_are_used() {
        let mut first = open(&[any_port(), any_port()], Vec::new(), 2);
        let at = first.addresses();
        let inherited = first.entries.drain(..).map(|entry| entry.group).collect();
        let second = open(&[any_port(), any_port(), any_port()], inherited, 4);
        assert_eq!(second.addresses()[..2], at);
        assert_eq!(second.entries[0].group.sockets.len(), 2, "as many as they are");
        let second_only = second.addresses()[2].clone();
        let inherited = second.entries.into_iter().map(|entry| entry.group).collect();
        let mut third = open(&[any_port()], inherited, 1);
        let status = third.open_status(&any_port()).unwrap();
        assert_eq!((third.addresses().len(), third.groups().count(), status.len()), (1, 2, 2));
        assert!([&at[0], &at[1]].contains(&&address_of(&status[0]).unwrap()), "it was inherited");
        third.close_spare();
        assert!(reaches(&third.addresses()[0]));
        assert!(!reaches(&second_only), "a group without an address is closed");
    }

    #[test]
    fn a_change_keeps_adds_and_removes() {
        let folder = TempDir::new().unwrap();
        let unix = ListenAddr::Unix(folder.path().join("socket"));
        let mut listeners = open(&[any_port(), unix.clone()], Vec::new(), 2);
        let before = listeners.addresses();
        let prepared = listeners.prepare(&[any_port(), any_port()], None, 2).unwrap();
        assert_eq!((&prepared.removed[..], prepared.added.iter().map(Vec::len).sum::<usize>()), (&[1][..], 2));
        assert_eq!(listeners.addresses(), before, "nothing has changed yet");
        assert!(reaches(&unix));
        listeners.apply(prepared);
        let after = listeners.addresses();
        assert_eq!(after[0], before[0]);
        assert!(after.iter().all(reaches));
        assert!(identity(&folder.path().join("socket")).is_none(), "the file has gone with its listener");

        let taken = after[1].clone();
        let refused = change(&mut listeners, &[unix.clone(), taken], None);
        assert!(matches!(refused, Err(StartError::Listen { .. })));
        assert_eq!(listeners.addresses(), after, "all as it was");
        assert!(!reaches(&unix));
    }

    #[test]
    fn the_status_socket_changes_with_the_others_or_not_at_all() {
        let mut listeners = open(&[any_port()], Vec::new(), 1);
        let old = address_of(&listeners.open_status(&any_port()).unwrap()[0]).unwrap();
        assert_eq!(change(&mut listeners, &[any_port()], Some(&any_port())).unwrap(), [Vec::<u32>::new(), Vec::new()]);
        assert_eq!((places(&listeners).1.as_ref(), listeners.groups().count()), (Some(&old), 2));
        let other = ListenAddr::Tcp(SocketAddr::from(([127, 0, 0, 2], 0)));
        change(&mut listeners, &[any_port()], Some(&other)).unwrap();
        let moved = places(&listeners).1.unwrap();
        assert!(reaches(&moved) && !reaches(&old));
        let taken = listeners.addresses()[0].clone();
        assert!(change(&mut listeners, &[any_port()], Some(&taken)).is_err(), "the loops go on with it");
        assert!(change(&mut listeners, &[any_port(), taken.clone()], Some(&any_port())).is_err());
        assert!(reaches(&moved) && listeners.groups().count() == 2);
        change(&mut listeners, &[any_port()], None).unwrap();
        assert_eq!((listeners.groups().count(), listeners.addresses()), (1, vec![taken]));
    }

    #[test]
    fn addresses_may_be_exchanged() {
        let [one, two] = ["127.0.0.41:0", "127.0.0.42:0"].map(|any| ListenAddr::Tcp(any.parse().unwrap()));
        let mut listeners = open(std::slice::from_ref(&one), Vec::new(), 2);
        listeners.open_status(&two).unwrap();
        let (at_one, at_two) = places(&listeners);
        let prepared = listeners.prepare(std::slice::from_ref(&two), Some(&one), 2).unwrap();
        assert_eq!((&prepared.removed[..], &prepared.released[..]), (&[][..], &[0][..]));
        assert!(prepared.takes_from_status);
        assert_eq!(prepared.status.len(), 2, "none of the loops' sockets is without an owner");
        assert!(prepared.added.iter().all(|sockets| sockets.len() == 1), "the loops share the one of the status");
        // A connection that waits meanwhile is not lost.
        let waiting = TcpStream::connect(match &at_one[0] {
            ListenAddr::Tcp(address) => *address,
            ListenAddr::Unix(_) => unreachable!(),
        });
        listeners.apply(prepared);
        assert_eq!(places(&listeners), (at_two.clone().into_iter().collect(), at_one.first().cloned()));
        assert!(waiting.unwrap().peer_addr().is_ok() && at_one.iter().chain(&at_two).all(reaches));
        // And back, with others opened and closed.
        let [removed, released] = change(&mut listeners, &[any_port(), one], None).unwrap();
        assert_eq!((removed, released), (vec![1], Vec::new()));
        assert_eq!(listeners.addresses()[1], at_one[0]);
        assert!(!at_two.iter().any(reaches));
    }

    #[test]
    fn the_file_of_another_server_stays() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        let unix = ListenAddr::Unix(path.clone());
        let mut first = open(std::slice::from_ref(&unix), Vec::new(), 1);
        fs::remove_file(&path).unwrap();
        let _second = open(std::slice::from_ref(&unix), Vec::new(), 1);
        first.close(Files::Remove);
        assert!(reaches(&unix));
    }
}
