//! TLS 1.2 and 1.3 without I/O: an [`Engine`] takes the bytes that a peer has sent and returns
//! plain bytes and bytes to send, in either role.
//!
//! rustls does the work, with aws-lc-rs as its only provider. Its unbuffered interface is known to
//! one module, `unbuffered`; settings are made once and shared by all engines. Buffers belong to
//! the caller: an engine whose connection is established and idle holds none.
//!
//! Lacking on purpose: sockets, files, and early data (RFC 8446, 2.3), which can be replayed.

#![forbid(unsafe_code)]

mod certificates;
mod client;
mod client_certificates;
mod client_verifier;
mod engine;
mod facts;
mod failure;
mod fault;
mod observed;
mod resolver;
mod selection;
mod self_signed;
mod server;
mod server_verifier;
mod sessions;
mod settings_error;
mod tickets;
mod unbuffered;

pub use certificates::{Certificate, certificates_of_pem};
pub use client::{ClientOptions, ClientSettings, Resume, Roots};
pub use client_certificates::{ClientCertificateMode, ClientCertificates};
pub use engine::{Engine, Received};
pub use facts::{Facts, Handshake};
pub use failure::{Alert, Failure, FailureKind};
pub use fault::CertificateFault;
pub use resolver::{CertificateStore, TLS_ALPN_CHALLENGE};
pub use selection::{Selection, Version, group_names, suite_names};
pub use self_signed::self_signed;
pub use server::{ServerOptions, ServerSettings};
pub use settings_error::SettingsError;
pub use tickets::TicketKeys;
