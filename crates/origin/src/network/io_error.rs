//! Texts of the kernel's errors.

use std::io;

/// The error as a person reads it: by its kind where it has one (`connection refused`), without the
/// kernel's number.
pub(super) fn text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::TimedOut => error.kind().to_string(),
        _ => error.to_string(),
    }
}
