//! What a loop writes down about its responses: a record of each for the log thread, and a tally for each mount.
//!
//! A server that keeps no logs and shows no status has no books. With them, a response costs its loop a record, filled in when
//! the response has ended; idle connections hold nothing. A response has ended when the kernel has taken its last byte, or when its
//! connection has; what the kernel took of it before is known as exactly as sends are reported.

use std::mem;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use thalweg_sys::{Instant, SocketId};
use thalweg_wire::RequestHead;

use crate::config::ServerConfig;
use crate::http::h1::head;
use crate::http::respond::Outbox;
use crate::telemetry::log::{End, Feed, Record, Request, client_of};
use crate::telemetry::metrics::{LoopFigures, MountCells, Observed, Tally};

/// Connections' notes that are kept for the next response, and the most memory of one that is.
const IDLE_MAX: usize = 256;
const IDLE_BYTES_MAX: usize = 4 << 10;

/// The books of a loop.
pub(crate) struct Accounting {
    loop_index: usize,
    observed: Arc<Observed>,
    published: LoopFigures,
    feed: Feed,
    /// The log says more than what was asked for and what came of it.
    with_fields: bool,
    /// The client's address, at the index of its connection.
    clients: Vec<Ipv6Addr>,
    /// Of all mounts that there were.
    accounts: Vec<Account>,
    /// Where the account of each mount of the configuration is, in its order.
    places: Vec<usize>,
    #[expect(clippy::vec_box, reason = "they go to connections, which hold them boxed, and come back")]
    idle: Vec<Box<RequestRecords>>,
}

/// A mount's account.
struct Account {
    cells: Arc<MountCells>,
    tally: Tally,
    published: Tally,
}

/// The responses of a connection that are being sent, all of them in one send.
#[derive(Default)]
pub(crate) struct RequestRecords {
    responses: Vec<Response>,
    /// The first that has not ended.
    next: usize,
    /// Their records, one after the other.
    records: Vec<u8>,
    sent_bytes: u64,
    /// Of those, how many stand in an account.
    accounted_bytes: u64,
}

/// A response that is being sent.
struct Response {
    /// Bytes up to its end, from the beginning of the send on.
    ends_at: u64,
    body_bytes: u64,
    /// Where its record begins.
    record: usize,
    account: usize,
    delivery: Delivery,
    started: Instant,
}

/// What a response brings of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Delivery {
    /// Nothing.
    #[default]
    Nothing,
    /// A part that is not the last.
    Part,
    /// The whole, or a part with the last byte in it.
    End,
}

/// What a response was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResponseSummary {
    pub(crate) status: u16,
    /// The mount's place in the configuration.
    pub(crate) mount: u16,
    pub(crate) delivery: Delivery,
}

impl ResponseSummary {
    /// Nothing of a file, booked on this mount.
    pub(crate) fn nothing(status: u16, mount: u16) -> Self {
        Self { status, mount, delivery: Delivery::Nothing }
    }
}

/// A response and what it answers.
pub(crate) struct AnsweredRequest<'r, 'b> {
    pub(crate) socket: SocketId,
    /// `None` for what was no request.
    pub(crate) request: Option<&'r RequestHead<'b>>,
    pub(crate) summary: ResponseSummary,
    pub(crate) now: Instant,
    pub(crate) second: i64,
}

impl Accounting {
    /// Empty books of a loop.
    pub(crate) fn new(loop_index: usize, feed: Feed, observed: Arc<Observed>, config: &ServerConfig) -> Self {
        let mut accounting = Self {
            loop_index,
            observed,
            published: LoopFigures::default(),
            feed,
            with_fields: false,
            clients: Vec::new(),
            accounts: Vec::new(),
            places: Vec::new(),
            idle: Vec::new(),
        };
        accounting.configure(config);
        accounting
    }

    /// Goes on with another configuration's mounts. Responses under way stay with theirs.
    pub(crate) fn configure(&mut self, config: &ServerConfig) {
        self.with_fields = config.log.access.is_some();
        self.places.clear();
        for cells in self.observed.adopt(config) {
            let known = self.accounts.iter().position(|account| account.cells.number == cells.number);
            self.places.push(known.unwrap_or(self.accounts.len()));
            if known.is_none() {
                // Earlier books of this loop may have been closed; nothing of theirs is under way here.
                let published = cells.of_loop(self.loop_index).tally();
                self.accounts.push(Account { cells, tally: Tally { under_way: 0, ..published }, published });
            }
        }
    }

    /// Closes the books: nobody wants to know any more. Responses under way are not written down.
    pub(crate) fn close(self) {
        for account in &self.accounts {
            account.cells.of_loop(self.loop_index).publish(&Tally { under_way: 0, ..account.tally });
        }
    }

    /// Whether clients' addresses are wanted.
    pub(crate) fn wants_clients(&self) -> bool {
        self.with_fields
    }

    /// A connection was accepted.
    pub(crate) fn set_client(&mut self, socket: SocketId, address: Option<IpAddr>) {
        let index = socket.index();
        if index >= self.clients.len() {
            self.clients.resize(index + 1, Ipv6Addr::UNSPECIFIED);
        }
        self.clients[index] = client_of(address);
    }

    /// A response was put into the outbox, behind those that were noted before.
    pub(crate) fn note(
        &mut self,
        under_way: &mut Option<Box<RequestRecords>>,
        answered: &AnsweredRequest<'_, '_>,
        out: &Outbox<'_>,
    ) {
        let begins_at = under_way.as_ref().and_then(|notes| notes.responses.last()).map_or(0, |last| last.ends_at);
        let ends_at = out.len();
        let body_bytes = ends_at - begins_at - out.head_bytes(begins_at);
        let account = self.enter(under_way, answered, ends_at, body_bytes);
        let tally = &mut self.accounts[account].tally;
        tally.requests += 1;
        tally.under_way += u64::from(answered.summary.delivery != Delivery::Nothing);
    }

    /// A connection is told that there is no room for it. It has asked for nothing, so that this is no request's answer.
    pub(crate) fn record_refused(
        &mut self,
        under_way: &mut Option<Box<RequestRecords>>,
        socket: SocketId,
        mount: u16,
        now: Instant,
        second: i64,
    ) {
        let summary = ResponseSummary::nothing(503, mount);
        let answered = AnsweredRequest { socket, request: None, summary, now, second };
        self.enter(under_way, &answered, head::NO_ROOM.len() as u64, head::NO_ROOM_BODY_BYTES);
    }

    /// Puts a response behind those that are under way. The account that it goes to.
    fn enter(
        &mut self,
        under_way: &mut Option<Box<RequestRecords>>,
        answered: &AnsweredRequest<'_, '_>,
        ends_at: u64,
        body_bytes: u64,
    ) -> usize {
        let notes = under_way.get_or_insert_with(|| self.idle.pop().unwrap_or_default());
        let AnsweredRequest { socket, request, summary, now, second } = *answered;
        let account = self.places.get(usize::from(summary.mount)).copied().unwrap_or(0);
        let record = Record {
            client: self.clients.get(socket.index()).copied().unwrap_or(Ipv6Addr::UNSPECIFIED),
            second,
            request: request.map(|head| Request::of(head, self.with_fields)),
            status: summary.status,
            mount: self.accounts[account].cells.number,
            end: End::default(),
        };
        notes.responses.push(Response {
            ends_at,
            body_bytes,
            record: notes.records.len(),
            account,
            delivery: summary.delivery,
            started: now,
        });
        record.write(&mut notes.records);
        account
    }

    /// The kernel has taken so many bytes more of what a connection sends.
    pub(crate) fn on_sent(&mut self, under_way: &mut Option<Box<RequestRecords>>, bytes: u64, now: Instant) {
        let Some(notes) = under_way else { return };
        notes.sent_bytes += bytes;
        while let Some(response) = notes.responses.get(notes.next) {
            let accounted = notes.sent_bytes.min(response.ends_at);
            self.accounts[response.account].tally.bytes +=
                accounted - mem::replace(&mut notes.accounted_bytes, accounted);
            if notes.sent_bytes < response.ends_at {
                return;
            }
            self.end_next(notes, now);
        }
        if let Some(notes) = under_way.take() {
            self.put_back(notes);
        }
    }

    /// A connection has ended, whatever was under way on it.
    pub(crate) fn on_closed(&mut self, under_way: Option<Box<RequestRecords>>, now: Instant) {
        let Some(mut notes) = under_way else { return };
        while notes.next < notes.responses.len() {
            self.end_next(&mut notes, now);
        }
        self.put_back(notes);
    }

    /// Ends the next response: what was sent of it is all that will be.
    fn end_next(&mut self, notes: &mut RequestRecords, now: Instant) {
        let response = &notes.responses[notes.next];
        let unsent_bytes = response.ends_at.saturating_sub(notes.sent_bytes);
        let is_complete = unsent_bytes == 0;
        let end = End {
            body_bytes: response.body_bytes.saturating_sub(unsent_bytes),
            duration_us: now.ns_since(response.started) / 1000,
            is_complete,
            is_download: is_complete && response.delivery == Delivery::End,
        };
        let tally = &mut self.accounts[response.account].tally;
        tally.downloads += u64::from(end.is_download);
        tally.under_way -= u64::from(response.delivery != Delivery::Nothing);
        let record_ends = notes.responses.get(notes.next + 1).map_or(notes.records.len(), |next| next.record);
        let record = &mut notes.records[response.record..record_ends];
        end.settle(record);
        self.feed.push(record, now);
        notes.next += 1;
    }

    fn put_back(&mut self, mut notes: Box<RequestRecords>) {
        notes.responses.clear();
        notes.records.clear();
        let RequestRecords { responses, records, .. } = &*notes;
        let bytes = records.capacity() + responses.capacity() * size_of::<Response>();
        if self.idle.len() < IDLE_MAX && bytes <= IDLE_BYTES_MAX {
            (notes.next, notes.sent_bytes, notes.accounted_bytes) = (0, 0, 0);
            self.idle.push(notes);
        }
    }

    /// After each wake-up: publishes, and hands over what has waited long enough.
    /// Entries, bytes and misses are the cache's.
    pub(crate) fn on_turn(&mut self, now: Instant, entries: usize, bytes: usize, misses: u64) {
        let figures = LoopFigures {
            cache_misses: misses,
            cache_entries: entries as u64,
            cache_bytes: bytes as u64,
            records_dropped: self.feed.dropped(),
        };
        if figures != self.published {
            self.published = figures;
            self.observed.loops[self.loop_index].publish(&figures);
        }
        for account in &mut self.accounts {
            if account.tally != account.published {
                account.published = account.tally;
                account.cells.of_loop(self.loop_index).publish(&account.tally);
            }
        }
        self.feed.on_turn(now);
    }

    /// When the next turn is due for the sake of the books.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.feed.due()
    }
}
