//! The server on one CPU, with the defaults of `thalweg serve`, without logs, of one object that
//! its loop holds in memory.
//!
//! It is an object of an origin, since valgrind 3.19 does not know `openat2`, by which the server
//! opens files. From the lookup on, it takes the way of a small file.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use thalweg_cache::Key;
use thalweg_caching::StoredFields;
use thalweg_serve::{
    CacheTier, Control, Forwarding, Listeners, MountConfig, MountOrigin, OriginConfig, Server, ServerConfig, ServerTls,
    SiteConfig, TlsConfig,
};
use thalweg_sys::DriverChoice;
use thalweg_sys::socket::SocketFile;
use thalweg_tier::{Answer, Answered, Ask, Content, Object};

/// The path that stops the server. The loop does it: under callgrind another thread may not run
/// while the loop waits in `io_uring_enter`.
const END: &str = "/end";

pub(crate) struct Serving {
    pub(crate) driver: DriverChoice,
    pub(crate) cpu: usize,
    pub(crate) port: u16,
    /// Bytes of the object.
    pub(crate) bytes: usize,
    pub(crate) tls: bool,
}

/// Serves until it is asked for [`END`].
///
/// # Errors
/// The server does not start, or its loop fails.
pub(crate) fn run(serving: &Serving) -> Result<(), Box<dyn Error>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, serving.port)).into();
    let origin = OriginConfig { url: Some("http://127.0.0.1/".to_owned()), ..OriginConfig::new("memory") };
    let forwarding = Forwarding::of([MountOrigin::new("memory")]);
    let config = ServerConfig {
        listen: vec![address],
        cpus: vec![serving.cpu],
        driver: serving.driver,
        sites: vec![SiteConfig {
            mounts: vec![MountConfig { forwarding, ..MountConfig::new("/", "") }],
            ..SiteConfig::default()
        }],
        origins: vec![origin],
        // With a certificate of its own.
        tls: serving.tls.then(|| TlsConfig { self_signed: true, ..TlsConfig::default() }),
        ..ServerConfig::new("", [SocketAddr::from((Ipv4Addr::LOCALHOST, serving.port))])
    };
    let listeners = Listeners::open(&config.listen, SocketFile::default(), Vec::new(), 1)?;
    let tls = ServerTls::open(&config, None, &|path| std::fs::read(path))?;
    let tier = Arc::new(OneObject { bytes: serving.bytes, control: OnceLock::new() });
    let server = Server::start_with(config, listeners, tls, Some(tier.clone()))?;
    tier.control.get_or_init(|| server.control());
    server.join()?;
    Ok(())
}

/// A cache tier with one object, which loops hold for ever.
struct OneObject {
    bytes: usize,
    /// Set once the server has started.
    control: OnceLock<Control>,
}

impl CacheTier for OneObject {
    fn ask(&self, ask: Ask, answered: Answered) {
        if &*ask.target == END {
            self.control.wait().stop();
        }
        let mut fields = StoredFields::default();
        fields.push("Date", b"Tue, 02 Oct 2001 07:06:40 GMT");
        fields.push("Content-Type", b"text/plain");
        fields.push("Last-Modified", b"Tue, 02 Oct 2001 07:06:40 GMT");
        fields.push("ETag", b"\"one\"");
        answered(Answer::Object(Object {
            fields: Arc::new(fields),
            length: self.bytes as u64,
            content: Content::Memory(vec![b'.'; self.bytes].into()),
            born_s: 0,
            stale_s: i64::MAX,
            cache_status: "thalweg;hit".into(),
            held_key: Some(Key::of(ask.target.as_bytes())),
        }));
    }

    fn generation(&self) -> u64 {
        0
    }

    fn count_held_hits(&self, _mount: usize, _requests: u64, _bytes: u64) {}

    fn touch(&self, _objects: &[Key]) {}

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}
