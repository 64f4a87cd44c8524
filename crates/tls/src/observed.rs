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
    /// The client's first message is known, and with it the name that it asks for, if any.
    pub(crate) is_hello_known: bool,
    /// The client validates the control of the name (RFC 8737), and has no certificate.
    is_validation: bool,
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

/// Begins a call for a connection whose client has asked for this name before.
pub(crate) fn begin(server_name: Option<Box<str>>) {
    OBSERVED.set(Observations { server_name, ..Observations::default() });
}

/// Calls with the name that the client of the connection at work asks for: `None` as long as its
/// first message is not known.
pub(crate) fn with_server_name<T>(call: impl FnOnce(Option<Option<&str>>) -> T) -> T {
    OBSERVED.with_borrow(|observed| {
        let is_known = observed.is_hello_known || observed.server_name.is_some();
        call(is_known.then_some(observed.server_name.as_deref()))
    })
}

/// Whether the client of the connection at work validates the control of a name.
pub(crate) fn is_validation() -> bool {
    OBSERVED.with_borrow(|observed| observed.is_validation)
}

/// Leaves the name that a client asks for, if it asks for one, and whether it validates the control
/// of it.
pub(crate) fn note_hello(name: Option<&str>, is_validation: bool) {
    OBSERVED.with_borrow_mut(|observed| {
        observed.is_hello_known = true;
        observed.is_validation = is_validation;
        observed.server_name = name.map(Into::into);
    });
}

/// Leaves the fault of a certificate.
pub(crate) fn note_fault(fault: CertificateFault) {
    OBSERVED.with_borrow_mut(|observed| observed.fault = Some(fault));
}
