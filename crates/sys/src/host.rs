//! Facts about this host for which the kernel has a call and no file.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, socket};

/// Bytes of a page of memory.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The user as whom this process acts.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this process acts as root, in its user namespace.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemRoom {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes that programs other than root's may still write.
    pub bytes_free: u64,
    /// Files that may still be created; `None` where the file system has no fixed number.
    pub files_free: Option<u64>,
}

/// The room of the file system with this path.
///
/// # Errors
/// The path does not exist, or is not accessible.
pub fn room_of(path: &Path) -> io::Result<FileSystemRoom> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(FileSystemRoom {
        bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        bytes_free: stat.f_bavail.saturating_mul(stat.f_frsize),
        files_free: (stat.f_files > 0).then_some(stat.f_favail),
    })
}

/// Work that a network interface can do in place of the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Packets of one connection are received as one.
    GenericReceive,
    /// The interface divides a large write into segments.
    TcpSegmentation,
}

/// Whether an interface has an offload turned on.
///
/// # Errors
/// There is no such interface, or it does not say.
pub fn offload(interface: &str, offload: Offload) -> io::Result<bool> {
    /// The argument of the `SIOCETHTOOL` requests that get one value (linux/ethtool.h).
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const SIOCETHTOOL: u32 = 0x8946;
    let command = match offload {
        Offload::GenericReceive => 0x2b,
        Offload::TcpSegmentation => 0x1e,
    };
    let mut value = Value { command, data: 0 };
    // SAFETY: an `ifreq` is plain data, for which zeros are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    // The last byte remains zero, as the end of the name.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = (*from).cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: the request points to `value`, which lives until after the call, and the two commands
    // write nothing but its `data`.
    let result = unsafe { libc::ioctl(any.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut request) };
    if result == 0 { Ok(value.data != 0) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        assert!(page_bytes() >= 4096);
        let room = room_of(Path::new("/")).unwrap();
        assert!(room.bytes > 0 && room.bytes_free <= room.bytes, "{room:?}");
        assert!(room_of(Path::new("/absent")).is_err());
        assert!(offload("lo", Offload::TcpSegmentation).is_ok());
        assert!(offload("absent0", Offload::GenericReceive).is_err());
        assert!(offload("a-name-that-is-too-long", Offload::GenericReceive).is_err());
    }
}
