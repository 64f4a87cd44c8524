//! Accounting: a loop's records of its responses for the log thread, and the totals of each mount.
//!
//! A server without an access log and without a status listener has no accounting. With it, a
//! response costs its loop a record, completed when the response has ended; idle connections hold
//! nothing. A response has ended when the kernel has taken its last byte, or when its connection
//! has; the bytes that the kernel took of it before are known as exactly as sends are reported.
//!
//! Accounting gets numbers: the request, the status, the bytes. Protocols and connections are not
//! known here.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use thalweg_sys::{Instant, SocketId};
use thalweg_tls::Version;
use thalweg_wire::RequestHead;

use crate::config::ServerConfig;
use crate::http::clients::Clients;
use crate::http::response::{Delivery, ResponseBytes, Summary};
use crate::telemetry::log::RecordQueue;
use crate::telemetry::record::{End, Record, Request, client_of};
use crate::telemetry::registry::{LoopFigures, MountCells, MountTotals, Registry};

/// Lists of records that are kept for later responses, and the most memory of one that is kept.
const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 4 << 10;

/// The accounting of a loop.
pub(crate) struct Accounting {
    loop_index: usize,
    registry: Arc<Registry>,
    published: LoopFigures,
    record_queue: RecordQueue,
    /// Whether the access log is written, which names clients and request fields; statistics do
    /// without them.
    with_fields: bool,
    clients: Clients,
    /// Of all mounts that there were.
    accounts: Vec<Account>,
    /// The index of the account of each mount of the configuration, in its order.
    account_of_mount: Vec<usize>,
    #[expect(clippy::vec_box, reason = "they go to connections, which hold them boxed, and come back")]
    spare: Vec<Box<RequestRecords>>,
}

/// A mount's account.
struct Account {
    cells: Arc<MountCells>,
    totals: MountTotals,
    published: MountTotals,
}

/// The responses of a connection that are being sent, and their pieces in the order of sending.
#[derive(Default)]
pub(crate) struct RequestRecords {
    /// At the index that pieces name. The places of responses that have ended are used again.
    responses: Vec<OpenResponse>,
    free: Vec<u32>,
    pieces: VecDeque<Piece>,
}

/// A response that is being sent.
#[derive(Default)]
struct OpenResponse {
    /// Its stream; 0 in HTTP/1.
    stream: u32,
    body_bytes: u64,
    stage: Stage,
    record: Vec<u8>,
    account: usize,
    delivery: Delivery,
    started: Instant,
}

/// How much of a response has been queued.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// It has ended, and its place is free.
    #[default]
    Ended,
    /// More of it follows.
    Open,
    /// All of it.
    Whole,
    /// Not all of it, and nothing more follows.
    Cut,
}

/// Bytes that are sent behind those of the piece before.
struct Piece {
    /// `None`: they belong to the connection.
    response: Option<u32>,
    bytes: u64,
    /// Those at its end that belong to the body.
    body_bytes: u64,
}

/// A request and the response to it.
pub(crate) struct AnsweredRequest<'r, 'b> {
    pub(crate) socket: SocketId,
    /// The stream; 0 in HTTP/1.
    pub(crate) stream: u32,
    /// `None` for input that is no request.
    pub(crate) request: Option<&'r RequestHead<'b>>,
    pub(crate) summary: Summary,
    /// The version of TLS, if the response goes over it.
    pub(crate) tls: Option<Version>,
    /// The SHA-256 digest of the client's certificate, if it has one.
    pub(crate) certificate: Option<&'r [u8; 32]>,
    pub(crate) now: Instant,
    pub(crate) second: i64,
}

impl RequestRecords {
    /// The response on a stream of which more follows.
    fn open_on(&self, stream: u32) -> Option<u32> {
        let is_meant = |response: &OpenResponse| response.stage == Stage::Open && response.stream == stream;
        self.responses.iter().position(is_meant).map(|index| index as u32)
    }

    /// Adds bytes to the response on a stream: so many in all, so many of its body. It may be the
    /// last time.
    pub(crate) fn extend(&mut self, stream: u32, bytes: u64, body_bytes: u64, is_last: bool) {
        let response = self.open_on(stream);
        if let Some(index) = response {
            let response = &mut self.responses[index as usize];
            response.body_bytes += body_bytes;
            if is_last {
                response.stage = Stage::Whole;
            }
        }
        self.pieces.push_back(Piece { response, bytes, body_bytes });
    }

    /// Adds bytes that belong to no response.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.pieces.push_back(Piece { response: None, bytes, body_bytes: 0 });
    }

    /// Whether nothing is being sent.
    fn are_over(&self) -> bool {
        self.pieces.is_empty() && self.free.len() == self.responses.len()
    }

    fn memory_bytes(&self) -> usize {
        let records: usize = self.responses.iter().map(|response| response.record.capacity()).sum();
        let responses = self.responses.capacity() * size_of::<OpenResponse>();
        records + responses + self.pieces.capacity() * size_of::<Piece>()
    }
}

/// Whether a configuration needs single responses recorded.
pub(crate) fn is_wanted(config: &ServerConfig) -> bool {
    config.log.access.is_some() || config.status.is_some()
}

impl Accounting {
    /// Accounting that begins.
    pub(crate) fn new(
        loop_index: usize,
        record_queue: RecordQueue,
        registry: Arc<Registry>,
        config: &ServerConfig,
    ) -> Self {
        let mut accounting = Self {
            loop_index,
            registry,
            published: LoopFigures::default(),
            record_queue,
            with_fields: false,
            clients: Clients::default(),
            accounts: Vec::new(),
            account_of_mount: Vec::new(),
            spare: Vec::new(),
        };
        accounting.configure(config);
        accounting
    }

    /// Goes on with another configuration's mounts. Responses that are being sent stay with theirs.
    pub(crate) fn configure(&mut self, config: &ServerConfig) {
        self.with_fields = config.log.access.is_some();
        self.account_of_mount.clear();
        for cells in self.registry.adopt(config) {
            let known = self.accounts.iter().position(|account| account.cells.number == cells.number);
            self.account_of_mount.push(known.unwrap_or(self.accounts.len()));
            if known.is_none() {
                // Earlier accounting of this loop may have been closed; nothing of it is being sent
                // here.
                let published = cells.of_loop(self.loop_index).totals();
                self.accounts.push(Account { cells, totals: MountTotals { under_way: 0, ..published }, published });
            }
        }
    }

    /// Ends the accounting. Responses that are being sent are not recorded.
    pub(crate) fn close(self) {
        for account in &self.accounts {
            account.cells.of_loop(self.loop_index).publish(&MountTotals { under_way: 0, ..account.totals });
        }
    }

    /// Whether clients' addresses are recorded.
    pub(crate) fn wants_clients(&self) -> bool {
        self.with_fields
    }

    /// The clients of connections.
    pub(crate) fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    /// Records a response that is about to be sent, behind those of the same send that were
    /// recorded before.
    pub(crate) fn record(
        &mut self,
        records: &mut Option<Box<RequestRecords>>,
        answered: &AnsweredRequest<'_, '_>,
        size: ResponseBytes,
    ) {
        let account = self.push(records, answered, size);
        let totals = &mut self.accounts[account].totals;
        totals.requests += 1;
        totals.under_way += u64::from(answered.summary.delivery != Delivery::Nothing);
    }

    /// Records the 503 of a connection that is refused. The client has sent no request, so this is
    /// no request's response.
    pub(crate) fn record_refused(
        &mut self,
        records: &mut Option<Box<RequestRecords>>,
        (socket, mount): (SocketId, u16),
        size: ResponseBytes,
        (now, second): (Instant, i64),
    ) {
        let summary = Summary::nothing(503, mount);
        let (request, tls, certificate) = (None, None, None);
        let answered = AnsweredRequest { socket, stream: 0, request, summary, tls, certificate, now, second };
        self.push(records, &answered, size);
    }

    /// Puts a response behind what is being sent. Returns the index of its account.
    fn push(
        &mut self,
        records: &mut Option<Box<RequestRecords>>,
        answered: &AnsweredRequest<'_, '_>,
        ResponseBytes { bytes, body_bytes, is_open }: ResponseBytes,
    ) -> usize {
        let records = records.get_or_insert_with(|| self.spare.pop().unwrap_or_default());
        let AnsweredRequest { socket, stream, request, summary, tls, certificate, now, second } = *answered;
        let account = self.account_of_mount.get(usize::from(summary.mount)).copied().unwrap_or(0);
        let record = Record {
            client: client_of(self.clients.address(socket, request)),
            second,
            request: request.map(|head| Request::of(head, self.with_fields)),
            tls,
            certificate: certificate.filter(|_| self.with_fields),
            status: summary.status,
            mount: self.accounts[account].cells.number,
            end: End::default(),
        };
        let index = records.free.pop().unwrap_or_else(|| {
            records.responses.push(OpenResponse::default());
            records.responses.len() as u32 - 1
        });
        let response = &mut records.responses[index as usize];
        record.write(&mut response.record);
        *response = OpenResponse {
            stream,
            body_bytes,
            stage: if is_open { Stage::Open } else { Stage::Whole },
            record: mem::take(&mut response.record),
            account,
            delivery: summary.delivery,
            started: now,
        };
        records.pieces.push_back(Piece { response: Some(index), bytes, body_bytes });
        account
    }

    /// The kernel has taken so many bytes more of what a connection sends.
    pub(crate) fn on_sent(&mut self, open: &mut Option<Box<RequestRecords>>, bytes: u64, now: Instant) {
        let Some(records) = open else { return };
        let mut left = bytes;
        while let Some(piece) = records.pieces.front_mut() {
            let taken = left.min(piece.bytes);
            piece.bytes -= taken;
            left -= taken;
            let (response, is_over) = (piece.response, piece.bytes == 0);
            if let Some(index) = response {
                let account = records.responses[index as usize].account;
                self.accounts[account].totals.bytes += taken;
            }
            if !is_over {
                return;
            }
            records.pieces.pop_front();
            if let Some(index) = response {
                self.end_if_sent(records, index, now);
            }
        }
        if records.are_over()
            && let Some(records) = open.take()
        {
            self.put_back(records);
        }
    }

    /// The rest of the response on a stream will not be sent.
    pub(crate) fn cut(&mut self, open: &mut Option<Box<RequestRecords>>, stream: u32, now: Instant) {
        let Some(records) = open else { return };
        if let Some(index) = records.open_on(stream) {
            records.responses[index as usize].stage = Stage::Cut;
            self.end_if_sent(records, index, now);
        }
    }

    /// A connection has ended, and with it all that it was sending.
    pub(crate) fn on_closed(&mut self, open: Option<Box<RequestRecords>>, now: Instant) {
        let Some(mut records) = open else { return };
        for index in 0..records.responses.len() {
            if records.responses[index].stage != Stage::Ended {
                self.end(&mut records, index as u32, now);
            }
        }
        records.pieces.clear();
        self.put_back(records);
    }

    /// Ends a response of which nothing more follows, if no piece of it is left.
    fn end_if_sent(&mut self, records: &mut RequestRecords, index: u32, now: Instant) {
        let is_open = records.responses[index as usize].stage == Stage::Open;
        if !is_open && records.pieces.iter().all(|piece| piece.response != Some(index)) {
            self.end(records, index, now);
        }
    }

    /// Ends a response: no more of it will be sent.
    fn end(&mut self, records: &mut RequestRecords, index: u32, now: Instant) {
        let pieces = records.pieces.iter().filter(|piece| piece.response == Some(index));
        let (mut unsent_bytes, mut unsent_body_bytes) = (0, 0);
        for piece in pieces {
            unsent_bytes += piece.bytes;
            unsent_body_bytes += piece.bytes.min(piece.body_bytes);
        }
        let response = &mut records.responses[index as usize];
        let is_complete = unsent_bytes == 0 && response.stage == Stage::Whole;
        let end = End {
            body_bytes: response.body_bytes - unsent_body_bytes,
            duration_us: now.ns_since(response.started) / 1000,
            is_complete,
            is_download: is_complete && response.delivery == Delivery::End,
        };
        let totals = &mut self.accounts[response.account].totals;
        totals.downloads += u64::from(end.is_download);
        totals.under_way -= u64::from(response.delivery != Delivery::Nothing);
        end.complete(&mut response.record);
        self.record_queue.push(&response.record, now);
        response.record.clear();
        response.stage = Stage::Ended;
        records.free.push(index);
    }

    fn put_back(&mut self, records: Box<RequestRecords>) {
        if self.spare.len() < SPARE_MAX && records.memory_bytes() <= SPARE_BYTES_MAX {
            self.spare.push(records);
        }
    }

    /// After each wake-up: publishes the figures, and sends records that have waited long enough.
    /// Entries, bytes and misses are the cache's.
    pub(crate) fn on_iteration(&mut self, now: Instant, entries: usize, bytes: usize, misses: u64) {
        let figures = LoopFigures {
            cache_misses: misses,
            cache_entries: entries as u64,
            cache_bytes: bytes as u64,
            records_dropped: self.record_queue.dropped(),
        };
        if figures != self.published {
            self.published = figures;
            self.registry.loops[self.loop_index].publish(&figures);
        }
        for account in &mut self.accounts {
            if account.totals != account.published {
                account.published = account.totals;
                account.cells.of_loop(self.loop_index).publish(&account.totals);
            }
        }
        self.record_queue.on_iteration(now);
    }

    /// When the accounting needs the next iteration.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.record_queue.due()
    }
}
