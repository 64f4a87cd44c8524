//! Listening at a Unix socket: its file with owner and mode, and stale files of servers that have
//! ended.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::{io, thread};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, fchmod, fstat, open};
use rustix::io::Errno;
use rustix::process::umask;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use socket2::{Domain, Socket, Type};

use super::backlog::BACKLOG;
use crate::address::{PeerAddr, UnixAddr};
use crate::process::is_single_threaded;

/// Owner, group and permissions of the file of a Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketFile {
    /// The permission bits, whatever the process's umask. To connect takes the right to write.
    pub mode: u32,
    /// The owner; `None` leaves it to the process.
    pub uid: Option<u32>,
    /// The group; `None` leaves it to the process.
    pub gid: Option<u32>,
}

impl Default for SocketFile {
    /// Every user who can reach the file may connect.
    fn default() -> Self {
        Self { mode: 0o666, uid: None, gid: None }
    }
}

/// A listening, non-blocking Unix stream socket with a file at `path`. A file left by a server that
/// has ended is replaced: no process accepts connections at it.
///
/// # Errors
/// A process listens there, the path is something else than a socket, the folder cannot be written
/// to, or the owner of the file cannot be set, which takes the superuser. Nothing is left there
/// then.
pub fn listen_unix(path: &Path, file: SocketFile) -> io::Result<OwnedFd> {
    match listen_at_file(path, file) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) && is_stale(path) => {
            std::fs::remove_file(path)?;
            listen_at_file(path, file)
        }
        listening => listening,
    }
}

/// Makes the file with its mode and its owner before a client can connect.
fn listen_at_file(path: &Path, file: SocketFile) -> io::Result<OwnedFd> {
    let address = PeerAddr::Unix(UnixAddr::new(path)?).encoded();
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    // The file gets the mode of the socket, but for the umask. So no path is named twice, and a
    // user who may write to the folder cannot have the mode set on another file (bind(2) in the
    // kernel: unix_bind_bsd).
    fchmod(&socket, Mode::from_raw_mode(file.mode))?;
    without_umask(|| socket.bind(&address))?;
    let given = give_away(path, file).and_then(|()| socket.listen(BACKLOG));
    if given.is_err() {
        // The first error is the one returned.
        let _ = std::fs::remove_file(path);
    }
    given.map(|()| socket.into())
}

/// Gives a socket's file to its owner, if it is not theirs already.
fn give_away(path: &Path, file: SocketFile) -> io::Result<()> {
    let there = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&there)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another file has replaced the socket"));
    }
    let uid = file.uid.filter(|&uid| uid != stat.st_uid).map(Uid::from_raw);
    let gid = file.gid.filter(|&gid| gid != stat.st_gid).map(Gid::from_raw);
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    chownat(&there, "", uid, gid, AtFlags::EMPTY_PATH).map_err(|errno| match errno {
        // The sandbox knows the call no more.
        Errno::PERM | Errno::NOSYS => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the owner of the socket's file cannot be changed; only a server started as root can do this",
        ),
        errno => errno.into(),
    })
}

/// Does something while the umask is 0, without its being so for others: in a process with threads,
/// in a thread whose umask is its own (CLONE_FS).
fn without_umask<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    if is_single_threaded() {
        let before = umask(Mode::empty());
        let done = work();
        umask(before);
        return done;
    }
    let work = || {
        // SAFETY: the thread gets a working folder and a umask of its own, and ends with this
        // function.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        umask(Mode::empty());
        work()
    };
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether no process listens at a socket's file. Only a connect can show it.
fn is_stale(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| Errno::from_io_error(&error) == Some(Errno::CONNREFUSED);
    is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::super::listens_at;
    use super::*;

    #[test]
    fn a_socket_file_is_replaced_only_if_nobody_listens_there() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("socket");
        let first = listen_unix(&path, SocketFile::default()).unwrap();
        assert_eq!(listens_at(&first).unwrap(), UnixAddr::new(&path).unwrap().into());
        assert_eq!(listen_unix(&path, SocketFile::default()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        drop(listen_unix(&path, SocketFile::default()).expect("a file that a server has left behind"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(listen_unix(&path, SocketFile::default()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn the_file_of_a_socket_has_its_mode_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for mode in [0o666, 0o660, 0o600, 0o777] {
            let socket = listen_unix(&path, SocketFile { mode, ..SocketFile::default() }).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode, "{mode:o}");
            drop(socket);
        }
        // The umask of this process is as it was.
        std::fs::create_dir(folder.path().join("plain")).unwrap();
        let mode = std::fs::metadata(folder.path().join("plain")).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o777 & !umask_of_this_process());
    }

    fn umask_of_this_process() -> u32 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
        u32::from_str_radix(line.trim(), 8).unwrap()
    }

    #[test]
    fn a_file_that_cannot_be_given_away_is_not_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let file = SocketFile { uid: Some(65_534), gid: Some(65_534), ..SocketFile::default() };
        match listen_unix(&path, file) {
            // As the superuser.
            Ok(_) => {
                let there = std::fs::metadata(&path).unwrap();
                assert_eq!((there.uid(), there.gid()), (65_534, 65_534));
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert!(!path.exists());
            }
        }
    }
}
