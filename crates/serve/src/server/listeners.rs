//! The sockets on which a server listens, apart from the loops that accept from them.
//!
//! The sockets live here; loops accept from duplicates. So a listener outlives the loop that uses it, can be handed to the
//! process that follows, and can be given up. Connections wait in the kernel's queue of the socket, which all its
//! duplicates in all processes share: none of them is lost when one process takes over from another.

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

use crate::config::ListenAddr;
use crate::server::StartError;

/// All that a server listens on.
#[derive(Debug, Default)]
pub struct Listeners {
    entries: Vec<Entry>,
    /// Sockets that are there and that nobody has asked for yet.
    spare: Vec<Group>,
    next_id: u32,
    /// How the files of Unix sockets are made.
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
    /// The loops accept from it.
    is_for_loops: bool,
    /// Device and inode of a Unix socket's file, if it is ours to remove.
    file: Option<(u64, u64)>,
}

/// What becomes of the files of Unix sockets when their listeners are given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Files {
    /// Nobody listens there from now on.
    Remove,
    /// Somebody else goes on.
    Keep,
}

/// For each loop, the sockets that it accepts from, with the numbers of their groups.
pub(crate) type Shares = Vec<Vec<(u32, OwnedFd)>>;

/// What is to be done after [`Listeners::change`].
pub(crate) struct Change {
    /// The loops accept from these.
    pub(crate) added: Shares,
    /// And from those no more.
    pub(crate) removed: Vec<u32>,
    /// A duplicate of the socket from which no loop accepts, if there is one.
    pub(crate) blocking: Option<OwnedFd>,
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
    /// Listens on the addresses, once for each loop. Sockets that are there already are taken over where the address is among those
    /// that are asked for, as many as they are; the others of them are closed when the server has started. Files of Unix sockets
    /// that are made, now or later, are made like this.
    ///
    /// # Errors
    /// An address cannot be had.
    pub fn open(
        asked: &[ListenAddr],
        socket_file: SocketFile,
        mut there: Vec<Group>,
        loops: usize,
    ) -> Result<Self, StartError> {
        if asked.is_empty() {
            return Err(StartError::NoAddress);
        }
        let mut listeners = Self { socket_file, ..Self::default() };
        for address in asked {
            let group = match there.iter().position(|group| group.asked == *address && !group.sockets.is_empty()) {
                Some(at) => Ok(there.remove(at)),
                None => bind_patiently(address, socket_file, loops),
            };
            let entered = group.and_then(|group| listeners.enter(group, true));
            entered.map_err(|error| StartError::Listen { address: address.clone(), error })?;
        }
        listeners.spare = there;
        Ok(listeners)
    }

    /// Listens on an address from which the loops do not accept, with one socket that is there or a new one; a duplicate of it. It is
    /// handed on with the others.
    pub(crate) fn blocking(&mut self, address: &ListenAddr) -> Result<OwnedFd, StartError> {
        let group = match self.spare.iter().position(|group| group.asked == *address && !group.sockets.is_empty()) {
            Some(at) => Ok(self.spare.remove(at)),
            None => bind_patiently(address, self.socket_file, 1),
        };
        let duplicate = group.and_then(|group| {
            let duplicate = group.sockets[0].try_clone()?;
            self.enter(group, false).map(|()| duplicate)
        });
        duplicate.map_err(|error| StartError::Listen { address: address.clone(), error })
    }

    /// Closes the sockets that were there and that nobody has asked for.
    pub(crate) fn close_spare(&mut self) {
        self.spare.clear();
    }

    /// Where they listen, in the order of the configuration, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<ListenAddr> {
        self.entries.iter().filter(|entry| entry.is_for_loops).map(|entry| entry.at.clone()).collect()
    }

    /// The addresses and their sockets, to hand them on.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.entries.iter().map(|entry| &entry.group)
    }

    /// Each loop's duplicates.
    pub(crate) fn shares(&self, loops: usize) -> io::Result<Shares> {
        share(&self.entries, loops)
    }

    /// Listens on these addresses from now on, and on the one [`aside`](Self::aside) of them: on new ones as well, on others no more. All
    /// is as it was if one cannot be had.
    pub(crate) fn change(
        &mut self,
        asked: &[ListenAddr],
        blocking: Option<&ListenAddr>,
        loops: usize,
    ) -> Result<Change, StartError> {
        let mut added = Self { next_id: self.next_id, socket_file: self.socket_file, ..Self::default() };
        let is_aside_known =
            |entry: &Entry| !entry.is_for_loops && blocking.is_some_and(|address| *address == entry.group.asked);
        let blocking = match (self.entries.iter().find(|entry| is_aside_known(entry)), blocking) {
            (Some(known), _) => Some(known.group.sockets[0].try_clone().map_err(StartError::Loop)?),
            (None, Some(address)) => Some(added.blocking(address)?),
            (None, None) => None,
        };
        let mut left: Vec<usize> = (0..self.entries.len()).filter(|&index| self.entries[index].is_for_loops).collect();
        // For each address, the entry that it has, or has not yet.
        let mut order = Vec::new();
        for address in asked {
            let known = left.iter().position(|&index| self.entries[index].group.asked == *address);
            if known.is_none() {
                let refused = |error| StartError::Listen { address: address.clone(), error };
                bind(address, self.socket_file, loops).and_then(|group| added.enter(group, true)).map_err(refused)?;
            }
            order.push(known.map(|at| self.entries[left.remove(at)].id));
        }
        let shares = added.shares(loops).map_err(StartError::Loop)?;
        self.next_id = added.next_id;
        let mut before = std::mem::take(&mut self.entries);
        self.entries.extend(before.extract_if(.., |entry| is_aside_known(entry)));
        self.entries.extend(added.entries.extract_if(.., |entry| !entry.is_for_loops));
        let mut new = added.entries.into_iter();
        for known in order {
            let at = known.and_then(|id| before.iter().position(|entry| entry.id == id));
            self.entries.extend(at.map(|at| before.swap_remove(at)).or_else(|| new.next()));
        }
        let removed = before.iter().filter(|entry| entry.is_for_loops).map(|entry| entry.id).collect();
        Self { entries: before, ..Self::default() }.give_up(Files::Remove);
        Ok(Change { added: shares, removed, blocking })
    }

    /// Closes the sockets here. The loops' duplicates are the loops' to close.
    pub(crate) fn give_up(&mut self, files: Files) {
        for entry in self.entries.drain(..) {
            let ListenAddr::Unix(path) = &entry.at else { continue };
            // Another server may have put its own socket there since.
            if files == Files::Remove && entry.file.is_some() && identity(path) == entry.file {
                // What is left is found stale by whoever comes next.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn enter(&mut self, group: Group, is_for_loops: bool) -> io::Result<()> {
        // A few status pages do not need it, and who gave us a socket has set it up.
        if is_for_loops && !group.by_service_manager {
            group.sockets.iter().for_each(socket::defer_accept);
        }
        let at = address_of(&group.sockets[0])?;
        let file = match &at {
            ListenAddr::Unix(path) if !group.by_service_manager => identity(path),
            _ => None,
        };
        self.entries.push(Entry { id: self.next_id, group, at, is_for_loops, file });
        self.next_id += 1;
        Ok(())
    }
}

/// A server that was killed may leave its address in use for a moment: the kernel takes a ring apart, and with it the sockets that
/// it waits at, some time after the process.
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

/// Deals out the sockets: with fewer of them than loops some loops share one, with more a loop has several. None of them may be
/// without a loop, since the kernel spreads connections over all.
fn share(entries: &[Entry], loops: usize) -> io::Result<Shares> {
    let mut shares: Shares = (0..loops).map(|_| Vec::new()).collect();
    for entry in entries.iter().filter(|entry| entry.is_for_loops) {
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

    #[test]
    fn every_socket_has_a_loop_and_every_loop_a_socket() {
        for (bound, loops) in [(1, 1), (1, 3), (2, 3), (3, 2), (5, 2), (4, 4)] {
            let listeners = Listeners::open(&[any_port()], SocketFile::default(), Vec::new(), bound).unwrap();
            let shares = listeners.shares(loops).unwrap();
            assert!(shares.iter().all(|share| !share.is_empty()), "{bound} sockets, {loops} loops");
            assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), bound.max(loops));
        }
    }

    #[test]
    fn sockets_that_are_there_are_taken_over() {
        let mut first = Listeners::open(&[any_port(), any_port()], SocketFile::default(), Vec::new(), 2).unwrap();
        let at = first.addresses();
        let there = first.entries.drain(..).map(|entry| entry.group).collect();
        let second = Listeners::open(&[any_port(), any_port(), any_port()], SocketFile::default(), there, 4).unwrap();
        assert_eq!(second.addresses()[..2], at);
        assert_eq!(second.entries[0].group.sockets.len(), 2, "as many as they are");
        let second_only = second.addresses()[2].clone();
        let there = second.entries.into_iter().map(|entry| entry.group).collect();
        let mut third = Listeners::open(&[any_port()], SocketFile::default(), there, 1).unwrap();
        let blocking = third.blocking(&any_port()).unwrap();
        assert_eq!((third.addresses().len(), third.groups().count()), (1, 2));
        assert!([&at[0], &at[1]].contains(&&address_of(&blocking).unwrap()), "it was there");
        third.close_spare();
        assert!(reaches(&third.addresses()[0]));
        assert!(!reaches(&second_only), "what nobody asks for is closed");
    }

    #[test]
    fn a_change_keeps_adds_and_removes() {
        let folder = TempDir::new().unwrap();
        let unix = ListenAddr::Unix(folder.path().join("socket"));
        let mut listeners = Listeners::open(&[any_port(), unix.clone()], SocketFile::default(), Vec::new(), 2).unwrap();
        let before = listeners.addresses();
        let change = listeners.change(&[any_port(), any_port()], None, 2).unwrap();
        assert_eq!((change.removed, change.added.iter().map(Vec::len).sum::<usize>()), (vec![1], 2));
        let after = listeners.addresses();
        assert_eq!(after[0], before[0]);
        assert!(after.iter().all(reaches));
        assert!(identity(&folder.path().join("socket")).is_none(), "the file has gone with its listener");

        let taken = after[1].clone();
        let refused = listeners.change(&[unix.clone(), taken], None, 2);
        assert!(matches!(refused, Err(StartError::Listen { .. })));
        assert_eq!(listeners.addresses(), after, "all as it was");
        assert!(!reaches(&unix));
    }

    #[test]
    fn the_socket_aside_changes_with_the_others_or_not_at_all() {
        let mut listeners = Listeners::open(&[any_port()], SocketFile::default(), Vec::new(), 1).unwrap();
        let first = listeners.blocking(&any_port()).unwrap();
        let at = |socket: &OwnedFd| address_of(socket).unwrap();
        let kept = listeners.change(&[any_port()], Some(&any_port()), 1).unwrap();
        assert_eq!(at(&kept.blocking.unwrap()), at(&first));
        assert!(kept.removed.is_empty() && listeners.groups().count() == 2);
        let other = ListenAddr::Tcp(SocketAddr::from(([127, 0, 0, 2], 0)));
        let moved = listeners.change(&[any_port()], Some(&other), 1).unwrap().blocking.unwrap();
        let old = at(&first);
        drop(first);
        assert!(reaches(&at(&moved)) && !reaches(&old));
        let taken = listeners.addresses()[0].clone();
        assert!(listeners.change(&[any_port()], Some(&taken), 1).is_err());
        assert!(listeners.change(&[any_port(), taken.clone()], Some(&any_port()), 1).is_err());
        assert!(reaches(&at(&moved)) && listeners.groups().count() == 2);
        listeners.change(&[any_port()], None, 1).unwrap();
        assert_eq!((listeners.groups().count(), listeners.addresses()), (1, vec![taken]));
    }

    #[test]
    fn the_file_of_another_server_stays() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        let unix = ListenAddr::Unix(path.clone());
        let mut first = Listeners::open(std::slice::from_ref(&unix), SocketFile::default(), Vec::new(), 1).unwrap();
        fs::remove_file(&path).unwrap();
        let _second = Listeners::open(std::slice::from_ref(&unix), SocketFile::default(), Vec::new(), 1).unwrap();
        first.give_up(Files::Remove);
        assert!(reaches(&unix));
    }
}
