//! rustls' unbuffered interface, and nothing else of this crate's knows it.
//!
//! A call of `process_tls_records` ends in a state that says what to do before the next one; the
//! loop here does it until rustls wants more bytes. rustls decrypts in place, so that input has to
//! stand in memory of ours, from the front of which it names a number of bytes to be discarded.
//! Input that remains, of a record or of a handshake message that is not whole, has to be given
//! again, unchanged, with more bytes behind it.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, Error, ServerConfig};
use rustls_pki_types::ServerName;

/// The largest plaintext of a record (RFC 8446, 5.1).
pub(crate) const RECORD_BYTES: usize = 16 << 10;

/// The most that protection adds to a record: its header, and an explicit nonce and a tag in TLS
/// 1.2, or the inner type and a tag in TLS 1.3.
pub(crate) const OVERHEAD_BYTES: usize = 5 + 8 + 16;

/// A connection in one of the two roles.
pub(crate) enum Connection {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// The progress of a connection after it has processed its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Processed {
    /// Bytes of the input that are not needed any more; the others are to be given again.
    pub(crate) used: usize,
    /// Application data can be sent.
    pub(crate) may_send: bool,
    /// The peer has ended its direction by close_notify.
    pub(crate) is_peer_closed: bool,
}

/// The next step after one state.
enum Step {
    /// Call again.
    Again,
    /// The peer has ended its direction. Call again.
    PeerClosed,
    /// More input is needed.
    Wait { may_send: bool },
}

impl Connection {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        UnbufferedServerConnection::new(config).map(Self::Server)
    }

    pub(crate) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        UnbufferedClientConnection::new(config, name).map(Self::Client)
    }

    /// The facts that rustls knows.
    pub(crate) fn state(&self) -> &CommonState {
        match self {
            Self::Server(connection) => connection,
            Self::Client(connection) => connection,
        }
    }

    /// Processes input in place; plaintext and bytes to send are appended to the two buffers. After
    /// an error the bytes to send hold an alert, and there is no further call.
    pub(crate) fn process(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<Processed, Error> {
        let mut processed = Processed { used: 0, may_send: false, is_peer_closed: false };
        loop {
            let (discard, step) = self.step(&mut input[processed.used..], plain, wire);
            processed.used += discard;
            match step {
                Ok(Step::Again) => {}
                Ok(Step::PeerClosed) => processed.is_peer_closed = true,
                Ok(Step::Wait { may_send }) => {
                    processed.may_send = may_send;
                    return Ok(processed);
                }
                Err(error) => {
                    self.take_alert(wire);
                    return Err(error);
                }
            }
        }
    }

    /// Takes the alert that is queued after an error, and what was queued before it. A call with
    /// nothing queued would process input again, which rustls does not expect.
    fn take_alert(&mut self, wire: &mut Vec<u8>) {
        while self.state().wants_write() {
            let (_, Ok(Step::Again)) = self.step(&mut [], &mut Vec::new(), wire) else { return };
        }
    }

    fn step(&mut self, input: &mut [u8], plain: &mut Vec<u8>, wire: &mut Vec<u8>) -> (usize, Result<Step, Error>) {
        match self {
            Self::Server(connection) => step(connection.process_tls_records(input), plain, wire),
            Self::Client(connection) => step(connection.process_tls_records(input), plain, wire),
        }
    }

    /// Encrypts application data behind what is in `wire`. `kept` is the input that remained of the
    /// last call. The bytes of it that are not needed any more.
    ///
    /// # Errors
    /// The handshake is not complete, or the keys are used up.
    pub(crate) fn seal(&mut self, kept: &mut [u8], plain: &[u8], wire: &mut Vec<u8>) -> Result<usize, Error> {
        let records = plain.len().div_ceil(RECORD_BYTES);
        self.write(kept, Write::Data(plain), plain.len() + records * OVERHEAD_BYTES, wire)
    }

    /// Appends a close_notify, as [`seal`](Self::seal) does data.
    ///
    /// # Errors
    /// The handshake is not complete.
    pub(crate) fn close(&mut self, kept: &mut [u8], wire: &mut Vec<u8>) -> Result<usize, Error> {
        self.write(kept, Write::CloseNotify, 2 + OVERHEAD_BYTES, wire)
    }

    /// Writes into `wire`, which is made so many bytes longer at first, and as much as it takes
    /// then.
    fn write(
        &mut self,
        kept: &mut [u8],
        write: Write<'_>,
        bytes_expected: usize,
        wire: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        // Bytes that are queued, such as tickets, leave first. There is no plaintext in what was
        // kept: it was processed.
        let processed = self.process(kept, &mut Vec::new(), wire)?;
        if !processed.may_send {
            return Err(Error::HandshakeNotComplete);
        }
        let mut used = processed.used;
        let start = wire.len();
        let mut room = bytes_expected;
        // The second attempt knows how much it takes.
        for _ in 0..2 {
            wire.resize(start + room, 0);
            let (kept, out) = (&mut kept[used..], &mut wire[start..]);
            let (discard, written) = match self {
                Self::Server(connection) => write_once(connection.process_tls_records(kept), write, out),
                Self::Client(connection) => write_once(connection.process_tls_records(kept), write, out),
            };
            used += discard;
            match written {
                Ok(written) => {
                    wire.truncate(start + written);
                    return Ok(used);
                }
                Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => room = required_size,
                Err(EncryptError::EncryptExhausted) => break,
            }
        }
        wire.truncate(start);
        Err(Error::EncryptError)
    }
}

/// The thing that is written.
#[derive(Clone, Copy)]
enum Write<'a> {
    Data(&'a [u8]),
    CloseNotify,
}

fn write_once<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    write: Write<'_>,
    wire: &mut [u8],
) -> (usize, Result<usize, EncryptError>) {
    let written = match (status.state, write) {
        (Ok(ConnectionState::WriteTraffic(mut traffic)), Write::Data(plain)) => traffic.encrypt(plain, wire),
        (Ok(ConnectionState::WriteTraffic(mut traffic)), Write::CloseNotify) => traffic.queue_close_notify(wire),
        _ => Err(EncryptError::EncryptExhausted),
    };
    (status.discard, written)
}

/// Does what a state requires. The number of bytes to discard, and the next step.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut Vec<u8>,
    wire: &mut Vec<u8>,
) -> (usize, Result<Step, Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Err(error) => Err(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            let mut result = Ok(Step::Again);
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
            result
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let start = wire.len();
            if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
                wire.resize(start + needed.required_size, 0);
                // It has just named this size.
                let _ = data.encode(&mut wire[start..]);
            }
            Ok(Step::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::PeerClosed) => Ok(Step::PeerClosed),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Wait { may_send: true }),
        Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => Ok(Step::Wait { may_send: false }),
        // Early data is not enabled, and there are no other states.
        Ok(_) => Err(Error::General("a state that is not expected".into())),
    };
    (discard, step)
}
