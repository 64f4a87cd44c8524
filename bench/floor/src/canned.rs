//! The bytes that go over the wire, ready before the first of them leaves, and the sockets that
//! they go over.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::net::{bind, getsockname, listen, socket_with, sockopt};

use crate::plan::Plan;

/// How long the first response may take: a wrong port or a server that does not respond is
/// reported, not waited for.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Heads longer than this are no head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A body that fits into any socket's buffer as the kernel makes it.
const SEND_BYTES_SURE: u32 = 4096;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// The client's request, like those of other load generators.
pub(crate) fn request(plan: &Plan) -> Vec<u8> {
    let connection = if plan.close { "Connection: close\r\n" } else { "" };
    format!("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{connection}\r\n", plan.path, plan.port).into_bytes()
}

/// The server's response to anything.
pub(crate) fn response(plan: &Plan) -> Vec<u8> {
    let body = b"the floor\n".iter().cycle().take(plan.bytes as usize);
    head(plan, plan.bytes.into()).into_bytes().iter().chain(body).copied().collect()
}

/// The head of a response with so many bytes of body.
pub(crate) fn head(plan: &Plan, body_bytes: u64) -> String {
    let connection = if plan.close { "close" } else { "keep-alive" };
    format!(
        "HTTP/1.1 200 OK\r\nServer: floor\r\nContent-Type: text/plain\r\nContent-Length: {body_bytes}\r\nConnection: {connection}\r\n\r\n"
    )
}

/// Asks once and counts what comes, so that the run itself need not understand it: all its
/// responses have as many bytes.
///
/// # Errors
/// There is no server, it does not respond with 200, or it does not say how long its response is.
pub(crate) fn response_bytes(plan: &Plan) -> io::Result<usize> {
    let address = plan.address();
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("asking {address} for {}: {error}", plan.path));
    let mut stream = TcpStream::connect(address).map_err(explain)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    stream.write_all(&request(plan)).map_err(explain)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).map_err(explain)?;
        head.push(byte[0]);
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other(format!("{address} does not respond in HTTP")));
        }
    }
    let (head_bytes, body_bytes) = (head.len(), body_bytes(plan, &head)?);
    io::copy(&mut stream.take(body_bytes as u64), &mut io::sink()).map_err(explain)?;
    Ok(head_bytes + body_bytes)
}

/// The length of a response whose head has come whole.
///
/// # Errors
/// It is none, its status is not 200, or it does not say how long it is.
pub(crate) fn length_of_response(plan: &Plan, bytes: &[u8]) -> io::Result<u64> {
    const END: &[u8] = b"\r\n\r\n";
    let head_bytes = bytes.windows(END.len()).position(|four| four == END).map(|at| at + END.len());
    let head_bytes = head_bytes.ok_or_else(|| io::Error::other("the head of the first response comes in pieces"))?;
    Ok((head_bytes + body_bytes(plan, &bytes[..head_bytes])?) as u64)
}

/// The bytes behind a head.
fn body_bytes(plan: &Plan, head: &[u8]) -> io::Result<usize> {
    let address = plan.address();
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    if head.split_ascii_whitespace().nth(1) != Some("200") {
        let status = head.lines().next().unwrap_or_default();
        return Err(io::Error::other(format!("{address} responds to {} with: {status}", plan.path)));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length
        .and_then(|length| length.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("{address} does not say how long its response is")))
}

/// An open connection.
pub(crate) fn connection(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &address).map_err(|error| no_connection(address, error))?;
    Ok(socket)
}

/// Why a connection could not be opened. Ports are what a connection per request runs out of first.
pub(crate) fn no_connection(address: SocketAddrV4, error: rustix::io::Errno) -> io::Error {
    let advice = if error == rustix::io::Errno::ADDRNOTAVAIL {
        "; all ports are in use or wait: widen net.ipv4.ip_local_port_range"
    } else {
        ""
    };
    io::Error::other(format!("connecting to {address}: {error}{advice}"))
}

/// A listening socket; says where if that was left to the kernel.
pub(crate) fn listener(plan: &Plan) -> io::Result<OwnedFd> {
    let address = plan.address();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if plan.bytes > SEND_BYTES_SURE {
        // Accepted sockets inherit it: a whole response fits into an empty socket's buffer, so that
        // no send waits for room.
        sockopt::set_socket_send_buffer_size(&socket, plan.bytes as usize * 2)?;
    }
    bind(&socket, &address).map_err(|error| io::Error::other(format!("listening on {address}: {error}")))?;
    listen(&socket, BACKLOG)?;
    defer_accept(&socket)?;
    let address = SocketAddrV4::try_from(getsockname(&socket)?)?;
    eprintln!("floor: listening on {address}");
    Ok(socket)
}

/// Has connections handed out once their request is there: one wake-up each instead of two.
#[allow(unsafe_code)]
fn defer_accept(listener: &OwnedFd) -> io::Result<()> {
    let seconds: libc::c_int = 1;
    let len = size_of_val(&seconds) as libc::socklen_t;
    // SAFETY: The kernel reads `len` bytes at `seconds`, which is an integer of that size.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            len,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A server that closes or breaks a connection in the middle is not what the floor measures.
pub(crate) fn ended(address: SocketAddrV4) -> io::Error {
    io::Error::other(format!("{address} has closed a connection before its response was over"))
}
