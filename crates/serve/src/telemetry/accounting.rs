//! Accounting: a loop's records of its responses for the log thread, and the totals of each mount.
//!
//! A server without an access log and without a status listener has no accounting. With it, a
//! response costs its loop a record, completed when the response has ended; idle connections hold
//! nothing. A response has ended when the kernel has taken its last byte, or when its connection
//! has; the bytes that the kernel took of it before are known as exactly as sends are reported.
//!
//! Accounting gets numbers: the request, the status, the bytes. Protocols and connections are not
//! known here.

use std::mem;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use thalweg_sys::{Instant, SocketId};
use thalweg_tls::Version;
use thalweg_wire::RequestHead;

use crate::config::ServerConfig;
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
    /// The client's address, at the index of its connection.
    clients: Vec<Ipv6Addr>,
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

/// The responses of a connection that are being sent, all of them in one send.
#[derive(Default)]
pub(crate) struct RequestRecords {
    responses: Vec<OpenResponse>,
    /// The first response that has not ended.
    next: usize,
    /// The bytes of their records, one after the other.
    bytes: Vec<u8>,
    sent_bytes: u64,
    /// Those of them that stand in an account.
    accounted_bytes: u64,
}

/// A response that is being sent.
struct OpenResponse {
    /// Bytes up to its end, from the beginning of the send on.
    ends_at: u64,
    body_bytes: u64,
    /// More of it follows.
    is_open: bool,
    /// The offset of its record.
    record: usize,
    account: usize,
    delivery: Delivery,
    started: Instant,
}

/// A request and the response to it.
pub(crate) struct AnsweredRequest<'r, 'b> {
    pub(crate) socket: SocketId,
    /// `None` for input that is no request.
    pub(crate) request: Option<&'r RequestHead<'b>>,
    pub(crate) summary: Summary,
    /// The version of TLS, if the response goes over it.
    pub(crate) tls: Option<Version>,
    pub(crate) now: Instant,
    pub(crate) second: i64,
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
            clients: Vec::new(),
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

    /// Sets the client of a connection that was accepted.
    pub(crate) fn set_client(&mut self, socket: SocketId, address: Option<IpAddr>) {
        let index = socket.index();
        if index >= self.clients.len() {
            self.clients.resize(index + 1, Ipv6Addr::UNSPECIFIED);
        }
        self.clients[index] = client_of(address);
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
        self.push(records, &AnsweredRequest { socket, request: None, summary, tls: None, now, second }, size);
    }

    /// Puts a response behind those that are being sent. Returns the index of its account.
    fn push(
        &mut self,
        records: &mut Option<Box<RequestRecords>>,
        answered: &AnsweredRequest<'_, '_>,
        ResponseBytes { ends_at, body_bytes, is_open }: ResponseBytes,
    ) -> usize {
        let records = records.get_or_insert_with(|| self.spare.pop().unwrap_or_default());
        let AnsweredRequest { socket, request, summary, tls, now, second } = *answered;
        let account = self.account_of_mount.get(usize::from(summary.mount)).copied().unwrap_or(0);
        let record = Record {
            client: self.clients.get(socket.index()).copied().unwrap_or(Ipv6Addr::UNSPECIFIED),
            second,
            request: request.map(|head| Request::of(head, self.with_fields)),
            tls,
            status: summary.status,
            mount: self.accounts[account].cells.number,
            end: End::default(),
        };
        records.responses.push(OpenResponse {
            ends_at,
            body_bytes,
            is_open,
            record: records.bytes.len(),
            account,
            delivery: summary.delivery,
            started: now,
        });
        record.write(&mut records.bytes);
        account
    }

    /// Adds bytes to the last response, whose body is a stream: so many in all, so many of its
    /// body. It may be the last time.
    pub(crate) fn extend(records: &mut Option<Box<RequestRecords>>, bytes: u64, body_bytes: u64, is_last: bool) {
        if let Some(response) = records.as_mut().and_then(|records| records.responses.last_mut()) {
            response.ends_at += bytes;
            response.body_bytes += body_bytes;
            response.is_open = !is_last;
        }
    }

    /// The kernel has taken so many bytes more of what a connection sends.
    pub(crate) fn on_sent(&mut self, open: &mut Option<Box<RequestRecords>>, bytes: u64, now: Instant) {
        let Some(records) = open else { return };
        records.sent_bytes += bytes;
        while let Some(response) = records.responses.get(records.next) {
            let accounted = records.sent_bytes.min(response.ends_at);
            self.accounts[response.account].totals.bytes +=
                accounted - mem::replace(&mut records.accounted_bytes, accounted);
            if records.sent_bytes < response.ends_at || response.is_open {
                return;
            }
            self.end_next(records, now);
        }
        if let Some(records) = open.take() {
            self.put_back(records);
        }
    }

    /// A connection has ended, and with it all that it was sending.
    pub(crate) fn on_closed(&mut self, open: Option<Box<RequestRecords>>, now: Instant) {
        let Some(mut records) = open else { return };
        while records.next < records.responses.len() {
            self.end_next(&mut records, now);
        }
        self.put_back(records);
    }

    /// Ends the next response: no more of it will be sent.
    fn end_next(&mut self, records: &mut RequestRecords, now: Instant) {
        let response = &records.responses[records.next];
        let unsent_bytes = response.ends_at.saturating_sub(records.sent_bytes);
        let is_complete = unsent_bytes == 0 && !response.is_open;
        let end = End {
            body_bytes: response.body_bytes.saturating_sub(unsent_bytes),
            duration_us: now.ns_since(response.started) / 1000,
            is_complete,
            is_download: is_complete && response.delivery == Delivery::End,
        };
        let totals = &mut self.accounts[response.account].totals;
        totals.downloads += u64::from(end.is_download);
        totals.under_way -= u64::from(response.delivery != Delivery::Nothing);
        let record_ends = records.responses.get(records.next + 1).map_or(records.bytes.len(), |next| next.record);
        let record = &mut records.bytes[response.record..record_ends];
        end.complete(record);
        self.record_queue.push(record, now);
        records.next += 1;
    }

    fn put_back(&mut self, mut records: Box<RequestRecords>) {
        records.responses.clear();
        records.bytes.clear();
        let bytes = records.bytes.capacity() + records.responses.capacity() * size_of::<OpenResponse>();
        if self.spare.len() < SPARE_MAX && bytes <= SPARE_BYTES_MAX {
            (records.next, records.sent_bytes, records.accounted_bytes) = (0, 0, 0);
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
