//! The observations of the hooks that rustls calls during a handshake.
//!
//! Hooks (the resolver of certificates, the verifiers) belong to settings that all connections
//! share, and rustls calls them on the thread that processes the handshake, before the call
//! returns. So an observation that a hook leaves on its thread is of the engine that is at work:
//! the engine clears them before, and takes them after it has processed bytes.

use std::cell::RefCell;

use crate::fault::CertificateFault;

/// The observations of one call.
#[derive(Default)]
pub(crate) struct Observations {
    /// The name that the client asked for.
    pub(crate) server_name: Option<Box<str>>,
    /// The fault of the peer's certificate, accepted or not.
    pub(crate) fault: Option<CertificateFault>,
}

thread_local! {
    static OBSERVED: RefCell<Observations> = RefCell::default();
}

/// The observations since the last call of this, on this thread.
pub(crate) fn take() -> Observations {
    OBSERVED.take()
}

/// Leaves the name that a client asks for.
pub(crate) fn note_server_name(name: &str) {
    OBSERVED.with_borrow_mut(|observed| observed.server_name = Some(name.into()));
}

/// Leaves the fault of a certificate.
pub(crate) fn note_fault(fault: CertificateFault) {
    OBSERVED.with_borrow_mut(|observed| observed.fault = Some(fault));
}
