//! Certificates by ACME for `thalweg serve`.
//!
//! The client runs in a process of its own, set apart before the sandbox: it connects to the
//! authority, writes the state directory and has the account's key, none of which the server may or
//! has. The server answers challenges and serves with the certificates that the process sends. It
//! reads the certificate of the state directory once, at its start.

mod messages;
mod process;
mod settings;
mod state;

use std::io;
use std::time::SystemTime;

use jiff::Timestamp;
use thalweg_acme::{Settings, StoredCertificate};
use thalweg_serve::{CertificateState, Level, Running, ServerTls};
use thalweg_sys::handover::{Channel, Incoming};
use thalweg_sys::process::stand_apart;
use thalweg_tls::Certificate;

use self::messages::{Assembler, Event, Reply, send};
use self::process::unix_second;
use crate::configuration::Configuration;
use crate::exit::remark;

pub(super) use self::settings::{describe, settings};
pub(super) use self::state::{fault, prepare};

/// Most events that are applied at once. The process sends one after the other is acknowledged.
const EVENTS_PER_CALL: usize = 16;

/// The process with the ACME client, as the server sees it. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct AcmeProcess {
    channel: Channel,
    incoming: Assembler<Event>,
}

impl AcmeProcess {
    /// Starts the process; `configure` reads the settings again for each reload. To be called
    /// before there are threads.
    ///
    /// # Errors
    /// The host cannot start another process.
    pub(super) fn start(
        settings: Settings,
        configure: impl Fn() -> Result<Option<Settings>, String>,
    ) -> io::Result<Self> {
        let (channel, theirs) = Channel::pair()?;
        stand_apart(theirs.into(), move |channel| process::run(channel.into(), settings, &configure))?;
        Ok(Self { channel, incoming: Assembler::default() })
    }

    /// Has the process read the settings again.
    ///
    /// # Errors
    /// The process has ended.
    pub(super) fn reload(&self) -> io::Result<()> {
        send(&self.channel, &Reply::Reload)
    }

    /// Applies the events that have come to the server. The messages for the operator.
    ///
    /// # Errors
    /// The process has ended.
    pub(super) fn apply(&mut self, running: &mut Running) -> io::Result<Vec<(Level, String)>> {
        let mut messages = Vec::new();
        for _ in 0..EVENTS_PER_CALL {
            let part = match self.channel.try_receive()? {
                Incoming::Message(part, _) => part,
                Incoming::Nothing => break,
                Incoming::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            let Some(event) = self.incoming.add(&part)? else { continue };
            let reply = match apply(event, running, &mut messages) {
                Ok(()) => Reply::Applied,
                Err(why) => Reply::Refused(why),
            };
            send(&self.channel, &reply)?;
        }
        Ok(messages)
    }
}

/// Applies an event to the server.
fn apply(event: Event, running: &mut Running, messages: &mut Vec<(Level, String)>) -> Result<(), String> {
    match event {
        Event::AnswerHttp { token, key_authorization } => {
            running.set_http_challenge(&token, Some(&key_authorization)).map_err(|error| error.to_string())
        }
        Event::WithdrawHttp { token } => running.set_http_challenge(&token, None).map_err(|error| error.to_string()),
        Event::AnswerAlpn { name, chain, key } => {
            let certificate = Certificate::of_challenge(chain.as_bytes(), key.as_bytes());
            running.set_tls_challenge(&name, Some(&certificate.map_err(|error| error.to_string())?));
            Ok(())
        }
        Event::WithdrawAlpn { name } => {
            running.set_tls_challenge(&name, None);
            Ok(())
        }
        Event::Install { chain, key } => {
            let certificate = Certificate::of_pem(chain.as_bytes(), key.as_bytes());
            running.install_certificate(certificate.map_err(|error| error.to_string())?);
            Ok(())
        }
        Event::Report { is_failure, text } => {
            messages.push((if is_failure { Level::Error } else { Level::Notice }, text));
            Ok(())
        }
        Event::Show { expires_second, failure } => {
            running.show_certificate(Some(CertificateState { expires_second, failure }));
            Ok(())
        }
    }
}

/// The certificate at the start of a server.
pub(super) struct AtStart {
    /// A line about it for the operator.
    pub line: String,
    /// Its state for the status page.
    pub state: CertificateState,
}

/// Serves with the certificate of the state directory from the start on, if there is one. Returns
/// `None` if no certificate is to be obtained.
pub(super) fn install_stored(configuration: &Configuration, tls: Option<&mut ServerTls>) -> Option<AtStart> {
    let (settings, tls) = (settings(configuration)?, tls?);
    let names = settings.names.join(", ");
    let read = StoredCertificate::read(&settings.state).map_err(|problem| problem.to_string());
    let read = read.and_then(|stored| {
        let Some(stored) = stored else { return Ok(None) };
        let certificate = Certificate::of_pem(&stored.chain_pem, &stored.key_pem);
        certificate.map(|certificate| Some((certificate, stored.not_after))).map_err(|error| error.to_string())
    });
    let stored = read.unwrap_or_else(|why| {
        remark(&format!("the stored certificate cannot be used: {why}"));
        None
    });
    let line = match &stored {
        Some((_, expires)) => format!("certificate for {names} by ACME, valid until {}", date_of(*expires)),
        None => format!("certificate for {names}: self-signed, until one is obtained from {}", settings.directory),
    };
    let expires_second = stored.as_ref().map(|(_, expires)| unix_second(*expires));
    if let Some((certificate, _)) = stored {
        tls.install(certificate);
    }
    Some(AtStart { line, state: CertificateState { expires_second, failure: None } })
}

/// The day of a moment, in UTC.
fn date_of(moment: SystemTime) -> String {
    Timestamp::try_from(moment).map_or_else(|_| "an unknown day".to_owned(), |moment| moment.strftime("%F").to_string())
}
