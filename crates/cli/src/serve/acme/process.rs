//! The process that obtains certificates: the ACME client, and the way to the server.
//!
//! A second thread reads the channel, so that the process ends with the server at once, whatever
//! the client waits for. The state directory is in order at any time.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use thalweg_acme::{Challenge, Client, Host, Problem, Report, Settings};
use thalweg_sys::handover::{Channel, Incoming};
use thalweg_sys::process::exit_at_once;

use super::messages::{Assembler, Event, Reply, send};

/// The longest wait between two looks at the clock, which an operator may set and which runs on
/// while the host sleeps.
const LOOK_INTERVAL: Duration = Duration::from_secs(600);

/// The interval between attempts to open the state directory: while another process uses it, as
/// the predecessor's does for a moment at an upgrade, and after a failure.
const LOCKED_INTERVAL: Duration = Duration::from_millis(200);
const FAILED_INTERVAL: Duration = Duration::from_secs(60);

/// Attempts until a directory in use is reported.
const LOCKED_ATTEMPTS: u32 = 50;

/// Runs the client until the server has ended. The settings are those at the start; `configure`
/// reads them again.
pub(super) fn run(
    channel: Channel,
    settings: Settings,
    configure: &dyn Fn() -> Result<Option<Settings>, String>,
) -> i32 {
    let channel = Arc::new(channel);
    let (replies, incoming) = mpsc::channel();
    let reading = Arc::clone(&channel);
    thread::spawn(move || {
        // An error ends the process, too.
        let _ = read(&reading, &replies);
        exit_at_once(0);
    });
    let mut server = Server { channel, replies: incoming, is_reload_wanted: false };
    let mut settings = Some(settings);
    loop {
        if let Some(settings) = &settings {
            obtain(&mut server, settings);
        } else {
            server.wait_for_reload(LOOK_INTERVAL);
        }
        if std::mem::take(&mut server.is_reload_wanted) {
            match configure() {
                Ok(new) => settings = new,
                Err(why) => server.write(true, format!("the settings for ACME stay as they were: {why}")),
            }
        }
    }
}

/// Passes replies on until the channel is closed.
fn read(channel: &Channel, replies: &mpsc::Sender<Reply>) -> io::Result<()> {
    let mut assembler = Assembler::default();
    while let Incoming::Message(part, _) = channel.receive()? {
        if let Some(reply) = assembler.add(&part)?
            && replies.send(reply).is_err()
        {
            break;
        }
    }
    Ok(())
}

/// Obtains certificates and renews them until the settings are to be read again.
fn obtain(server: &mut Server, settings: &Settings) {
    let Some(mut client) = open(server, settings) else { return };
    if let Some(stored) = client.stored_certificate().cloned()
        && let Err(error) = server.install(&stored.names, &stored.chain_pem, &stored.key_pem)
    {
        server.write(true, format!("the stored certificate cannot be used: {error}"));
    }
    while !server.is_reload_wanted {
        let now = SystemTime::now();
        let next = client.step(server, now);
        let wait = next.duration_since(SystemTime::now()).unwrap_or_default();
        server.wait_for_reload(wait.min(LOOK_INTERVAL));
    }
}

/// Opens the state directory, as soon as that is possible; `None` if the settings are to be read
/// again.
fn open(server: &mut Server, settings: &Settings) -> Option<Client> {
    let mut reported = None;
    let mut attempts = 0;
    while !server.is_reload_wanted {
        let problem = match Client::open(settings.clone()) {
            Ok(client) => return Some(client),
            Err(problem) => problem,
        };
        let is_locked = matches!(problem, Problem::Locked { .. });
        attempts += 1;
        let is_due = !is_locked || attempts >= LOCKED_ATTEMPTS;
        if is_due && reported.as_ref() != Some(&problem) {
            server.write(true, format!("no certificate can be obtained: {problem}"));
            reported = Some(problem);
        }
        server.wait_for_reload(if is_locked { LOCKED_INTERVAL } else { FAILED_INTERVAL });
    }
    None
}

/// The server at the other end of the channel.
struct Server {
    channel: Arc<Channel>,
    replies: mpsc::Receiver<Reply>,
    /// The settings are to be read again.
    is_reload_wanted: bool,
}

impl Server {
    /// Sends an event and waits for the reply. The process ends if there will be none.
    fn tell(&mut self, event: &Event) -> io::Result<()> {
        send(&self.channel, event)?;
        loop {
            match self.replies.recv().map_err(|_| io::ErrorKind::BrokenPipe)? {
                Reply::Applied => return Ok(()),
                Reply::Refused(why) => return Err(io::Error::other(why)),
                Reply::Reload => self.is_reload_wanted = true,
            }
        }
    }

    /// Has a line written for the operator.
    fn write(&mut self, is_failure: bool, text: String) {
        // The server that does not take it is about to end.
        let _ = self.tell(&Event::Report { is_failure, text });
    }

    /// Waits, or until the settings are to be read again.
    fn wait_for_reload(&mut self, time: Duration) {
        if !self.is_reload_wanted {
            self.is_reload_wanted = matches!(self.replies.recv_timeout(time), Ok(Reply::Reload));
        }
    }
}

impl Host for Server {
    fn http_challenge(&mut self, token: &str, key_authorization: &str) -> io::Result<()> {
        self.tell(&Event::AnswerHttp { token: token.to_owned(), key_authorization: key_authorization.to_owned() })
    }

    fn alpn_challenge(&mut self, name: &str, chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()> {
        self.tell(&Event::AnswerAlpn { name: name.to_owned(), chain: text_of(chain_pem), key: text_of(key_pem) })
    }

    fn withdraw(&mut self, challenge: &Challenge) -> io::Result<()> {
        self.tell(&match challenge.clone() {
            Challenge::Http { token } => Event::WithdrawHttp { token },
            Challenge::Alpn { name } => Event::WithdrawAlpn { name },
        })
    }

    fn install(&mut self, _: &[String], chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()> {
        self.tell(&Event::Install { chain: text_of(chain_pem), key: text_of(key_pem) })
    }

    fn report(&mut self, report: &Report) {
        let text = report.to_string();
        let shown = match report {
            Report::Obtained { expires, .. } => Some((Some(*expires), None)),
            Report::NextChallenge { expires, .. } | Report::Failed { expires, .. } => {
                Some((*expires, Some(text.clone())))
            }
            _ => None,
        };
        self.write(report.is_failure(), text);
        if let Some((expires, failure)) = shown {
            // As in `write`.
            let _ = self.tell(&Event::Show { expires_second: expires.map(unix_second), failure });
        }
    }
}

/// Seconds since 1970-01-01 UTC.
pub(super) fn unix_second(moment: SystemTime) -> i64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// PEM is a text (RFC 7468, 2).
fn text_of(pem: &[u8]) -> String {
    String::from_utf8_lossy(pem).into_owned()
}
