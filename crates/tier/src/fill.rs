//! Fills: content on its way from an origin into the store, one fragment after the other, with
//! readers behind it.
//!
//! Readers at the fragment that is coming in take its bytes from memory; a whole fragment goes to
//! the store, and readers find it there. So a fill proceeds as fast as its origin and the store do,
//! whatever its readers do. If the store takes no more, the last fragments stay in memory and the
//! fill waits for its fastest reader. Without any reader, it ends unless little is left.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thalweg_cache::Pieces;
use tokio::sync::Notify;

use crate::counters::Counters;
use crate::store::FRAGMENT_BYTES;
use crate::upstream::{BoxFuture, UpstreamContent, UpstreamFailure, UpstreamResponse};
use crate::wake::Wake;

/// How long a fill waits, without fetching, for its first reader, or for another one: an answer is
/// there before its reader is.
const UNREAD_TIME: Duration = Duration::from_secs(1);
const UNREAD_LOOK_TIME: Duration = Duration::from_millis(10);
/// How often a fill goes on after it was cut off.
const RESUMPTIONS_MAX: u32 = 5;
/// Fragments that stay in memory if the store does not take them.
const KEPT_MAX: usize = 4;
/// Pieces shorter than this are joined.
const SMALL_PIECE_BYTES: usize = 2 << 10;
/// How long a fill that the store takes nothing of waits for a reader that is behind.
const READER_TIME: Duration = Duration::from_secs(60);
/// How often it looks whether anybody reads it at all. A connection of the origin waits meanwhile.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// The object that a fill fetches, as far as that needs it.
pub(crate) trait FillTarget: Send + Sync {
    /// Bytes of a fragment.
    fn fragment_bytes(&self, number: u32) -> u64;

    /// Whether anybody reads what comes from `position` on.
    fn is_read_from(&self, position: u64) -> bool;

    /// Whether a fill goes on that nobody reads.
    fn goes_on_unread(&self, bytes_come: u64, bytes_left: u64) -> bool;

    /// Asks the origin for a part of the same version.
    fn fetch(&self, start: u64, end: u64) -> BoxFuture<'_, Result<UpstreamResponse, FillFailure>>;

    /// Whether content from there is stored: that of a large object stays with the peer that has
    /// it.
    fn is_stored_here(&self, response: &UpstreamResponse) -> bool;

    /// Stores a whole fragment; whether the store took it.
    fn append(&self, number: u32, fragment: Pieces) -> BoxFuture<'_, bool>;

    fn counters(&self) -> &Counters;
}

/// Why a fill gets nothing from the origin.
#[derive(Clone, Debug)]
pub(crate) enum FillFailure {
    /// The origin gave no response.
    Unanswered(UpstreamFailure),
    /// The response has no bytes of this version.
    Unfit(Arc<str>),
}

impl FillFailure {
    pub(crate) fn reason(&self) -> &Arc<str> {
        match self {
            Self::Unanswered(UpstreamFailure { reason, .. }) | Self::Unfit(reason) => reason,
        }
    }
}

impl<R: Into<Arc<str>>> From<R> for FillFailure {
    fn from(reason: R) -> Self {
        Self::Unfit(reason.into())
    }
}

/// Content on its way into the store.
pub(crate) struct Fill {
    state: Mutex<State>,
    /// The origin has begun to send, or has failed.
    begun: Notify,
    /// A reader waits for bytes that have not come.
    wanted: Notify,
    /// The first byte of the object that it fetches, and the first one behind.
    start: u64,
    end: u64,
    /// Whether the store gets it.
    is_stored: AtomicBool,
}

struct State {
    /// The fragment that is coming in.
    number: u32,
    /// Its pieces, with their offsets in the object.
    pieces: Vec<(u64, Bytes)>,
    /// The offset of the next byte that comes.
    position: u64,
    /// Fragments before it that the store did not take.
    kept: VecDeque<(u32, Pieces)>,
    outcome: Option<Outcome>,
    waiters: Vec<Wake>,
    /// The origin has begun to send.
    has_begun: bool,
}

impl State {
    /// Adds a piece. Small ones are joined with neighbours that are no larger, so that each byte is
    /// copied a few times at most, and the number of pieces is bounded.
    fn push(&mut self, start: u64, piece: Bytes) {
        self.pieces.push((start, piece));
        while let [.., (start, before), (_, last)] = &self.pieces[..]
            && before.len() < SMALL_PIECE_BYTES
            && last.len() >= before.len()
        {
            let joined = (*start, [&before[..], last].concat().into());
            self.pieces.truncate(self.pieces.len() - 2);
            self.pieces.push(joined);
        }
    }

    /// The bytes of the fragment that have come.
    fn fragment(&self) -> Pieces {
        let pieces: Vec<_> = self.pieces.iter().map(|(_, bytes)| bytes.clone()).collect();
        pieces.into()
    }
}

/// How a fill ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// With its last byte, or because nobody read it.
    Over,
    /// It could not go on.
    Failed(FillFailure),
}

/// The fate of bytes that have come.
enum Taken {
    All,
    /// The store does not take them, and nobody reads them.
    ForNobody,
}

/// The state of a fill for a reader.
pub(crate) enum Tip {
    Bytes(Bytes),
    /// Nothing yet; the reader is woken.
    Pending,
    /// The store has it.
    Passed,
    Failed(Arc<str>),
}

/// The number of the fragment with a byte.
pub(crate) fn number_of(position: u64) -> u32 {
    // Objects of more than 2^52 bytes are not stored.
    (position / FRAGMENT_BYTES) as u32
}

impl Fill {
    /// A fill of the bytes from `position`, where a fragment begins, up to `end`.
    pub(crate) fn new(position: u64, end: u64, is_stored: bool) -> Self {
        let state = State {
            number: number_of(position),
            pieces: Vec::new(),
            position,
            kept: VecDeque::new(),
            outcome: None,
            waiters: Vec::new(),
            has_begun: false,
        };
        let is_stored = AtomicBool::new(is_stored);
        Self { state: Mutex::new(state), begun: Notify::new(), wanted: Notify::new(), start: position, end, is_stored }
    }

    /// Whether the store gets it, so that it waits for no reader.
    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored.load(Ordering::Relaxed)
    }

    /// Whether it will have a byte soon: within this many fragments.
    pub(crate) fn covers(&self, position: u64, fragments: u32) -> bool {
        let state = self.state();
        let number = number_of(position);
        let is_kept = state.kept.iter().any(|(kept, _)| *kept == number);
        let is_near = (state.number..=state.number.saturating_add(fragments)).contains(&number);
        state.outcome.is_none() && position < self.end && (is_near || is_kept)
    }

    /// The offset of its next byte, if it goes on.
    pub(crate) fn position(&self) -> Option<u64> {
        let state = self.state();
        state.outcome.is_none().then_some(state.position)
    }

    /// The bytes at a position for a reader, at most up to `end`.
    pub(crate) fn read(&self, position: u64, end: u64, wake: &mut Option<Wake>) -> Tip {
        let mut state = self.state();
        let number = number_of(position);
        if number < state.number {
            let kept = state.kept.iter().find(|(kept, _)| *kept == number);
            return kept.map_or(Tip::Passed, |(number, pieces)| {
                let mut bytes = pieces.at((position - u64::from(*number) * FRAGMENT_BYTES) as usize);
                bytes.truncate((end - position) as usize);
                Tip::Bytes(bytes)
            });
        }
        if number == state.number && position < state.position {
            let index = state.pieces.partition_point(|(start, _)| *start <= position) - 1;
            let (start, bytes) = &state.pieces[index];
            return Tip::Bytes(cut(bytes, *start, position, end));
        }
        match &state.outcome {
            Some(Outcome::Over) => Tip::Passed,
            Some(Outcome::Failed(failure)) => Tip::Failed(Arc::clone(failure.reason())),
            None => {
                state.waiters.extend(wake.take());
                self.wanted.notify_one();
                Tip::Pending
            }
        }
    }

    /// Fetches to the end. The content begins at the fill's position; without any, the origin is
    /// asked for it.
    pub(crate) async fn run(&self, object: &dyn FillTarget, content: Option<Box<dyn UpstreamContent>>) {
        let outcome = self.fetch(object, content).await;
        let mut state = self.state();
        state.outcome = Some(outcome);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        self.begun.notify_waiters();
        waiters.into_iter().for_each(|wake| wake());
    }

    /// Waits until the origin has begun to send.
    pub(crate) async fn begun(&self) -> Result<(), FillFailure> {
        loop {
            let changed = self.begun.notified();
            {
                let state = self.state();
                if state.has_begun {
                    return Ok(());
                }
                if let Some(Outcome::Failed(failure)) = &state.outcome {
                    return Err(failure.clone());
                }
            }
            changed.await;
        }
    }

    fn begin(&self) {
        self.state().has_begun = true;
        self.begun.notify_waiters();
    }

    async fn fetch(&self, object: &dyn FillTarget, content: Option<Box<dyn UpstreamContent>>) -> Outcome {
        let position = self.state().position;
        let mut content = match content {
            Some(content) => content,
            None => match object.fetch(position, self.end).await {
                Ok(response) => {
                    self.is_stored.store(object.is_stored_here(&response), Ordering::Relaxed);
                    response.content
                }
                Err(failure) => return Outcome::Failed(failure),
            },
        };
        self.begin();
        let (mut resumptions, mut number) = (0, number_of(position));
        loop {
            let reason: Arc<str> = match content.next().await {
                Some(Ok(bytes)) => match self.take(object, bytes).await {
                    Taken::All if self.is_over() => return Outcome::Over,
                    Taken::All if self.is_passed(&mut number) && self.is_unread(object) => {
                        if !self.gets_a_reader(object).await {
                            return Outcome::Over;
                        }
                        continue;
                    }
                    Taken::All => continue,
                    Taken::ForNobody => return Outcome::Over,
                },
                Some(Err(reason)) => reason,
                None => "the origin ended it early".into(),
            };
            let position = self.state().position;
            resumptions += 1;
            if resumptions > RESUMPTIONS_MAX {
                return Outcome::Failed(reason.into());
            }
            match object.fetch(position, self.end).await {
                Ok(rest) => {
                    // The peer that began it does not have the rest.
                    self.is_stored.fetch_or(!rest.is_peers, Ordering::Relaxed);
                    content = rest.content;
                }
                Err(failure) => {
                    let failed = failure.reason();
                    return Outcome::Failed(format!("{reason}; going on at byte {position}: {failed}").into());
                }
            }
            Counters::add(&object.counters().resumed, 1);
        }
    }

    fn is_over(&self) -> bool {
        self.state().position >= self.end
    }

    /// Whether it has come to another fragment than this one.
    fn is_passed(&self, number: &mut u32) -> bool {
        let before = std::mem::replace(number, self.state().number);
        before != *number
    }

    /// Whether nobody reads it and much is left.
    fn is_unread(&self, object: &dyn FillTarget) -> bool {
        let state = self.state();
        let (come, left) = (state.position - self.start, self.end - state.position);
        !object.goes_on_unread(come, left) && !object.is_read_from(state.position)
    }

    /// Waits a little for a reader, without fetching more; whether there is one.
    async fn gets_a_reader(&self, object: &dyn FillTarget) -> bool {
        let position = self.state().position;
        for _ in 0..UNREAD_TIME.as_millis() / UNREAD_LOOK_TIME.as_millis() {
            tokio::time::sleep(UNREAD_LOOK_TIME).await;
            if object.is_read_from(position) {
                return true;
            }
        }
        false
    }

    /// Takes bytes that have come: whole fragments go to the store.
    async fn take(&self, object: &dyn FillTarget, mut bytes: Bytes) -> Taken {
        while !bytes.is_empty() {
            let (waiters, whole) = {
                let mut state = self.state();
                if state.position >= self.end {
                    // A server that answers a range with more than that has nothing to do with the
                    // rest; one that sends more than the whole has another object.
                    return Taken::All;
                }
                let fragment_end = self.end.min((u64::from(state.number) + 1) * FRAGMENT_BYTES);
                let length = (fragment_end - state.position).min(bytes.len() as u64);
                let piece = bytes.split_to(length as usize);
                let start = state.position;
                state.push(start, piece);
                state.position += length;
                let is_whole = state.position == fragment_end;
                (std::mem::take(&mut state.waiters), is_whole.then(|| (state.number, state.fragment())))
            };
            waiters.into_iter().for_each(|wake| wake());
            if let Some((number, fragment)) = whole
                && !self.store(object, number, fragment).await
                && !self.is_over()
                && !self.is_wanted(object).await
            {
                return Taken::ForNobody;
            }
        }
        Taken::All
    }

    /// Waits for a reader of the next byte, as long as there are readers; whether there are.
    async fn is_wanted(&self, object: &dyn FillTarget) -> bool {
        for _ in 0..READER_TIME.as_secs() / LOOK_TIME.as_secs() {
            if tokio::time::timeout(LOOK_TIME, self.wanted.notified()).await.is_ok() {
                return true;
            }
            if !object.is_read_from(self.state().position) {
                return false;
            }
        }
        true
    }

    /// Passes on to the next fragment; whether the store took this one.
    async fn store(&self, object: &dyn FillTarget, number: u32, fragment: Pieces) -> bool {
        // The last fragment of a range that does not reach the end of the object may be a part of
        // one, which is no fragment.
        let is_fragment = fragment.len() as u64 == object.fragment_bytes(number);
        let is_stored = self.is_stored() && is_fragment && object.append(number, fragment.clone()).await;
        let waiters = {
            let mut state = self.state();
            state.number = number + 1;
            state.pieces.clear();
            if is_stored {
                state.kept.clear();
            } else {
                state.kept.push_back((number, fragment));
                if state.kept.len() > KEPT_MAX {
                    state.kept.pop_front();
                }
            }
            std::mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(|wake| wake());
        is_stored
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes from `position` to `end` of those that begin at `start`, as far as they reach.
fn cut(bytes: &Bytes, start: u64, position: u64, end: u64) -> Bytes {
    let from = (position - start) as usize;
    let to = (end - start).min(bytes.len() as u64) as usize;
    bytes.slice(from..to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object of four fragments.
    #[derive(Default)]
    struct Unstored {
        counters: Counters,
        has_reader: bool,
        /// The store takes it.
        is_taken: bool,
        unread_bytes_max: u64,
    }

    impl FillTarget for Unstored {
        fn fragment_bytes(&self, _: u32) -> u64 {
            FRAGMENT_BYTES
        }

        fn is_read_from(&self, _: u64) -> bool {
            self.has_reader
        }

        fn goes_on_unread(&self, _: u64, bytes_left: u64) -> bool {
            bytes_left <= self.unread_bytes_max
        }

        fn fetch(&self, _: u64, _: u64) -> BoxFuture<'_, Result<UpstreamResponse, FillFailure>> {
            Box::pin(async { Err("it is not asked".into()) })
        }

        fn is_stored_here(&self, _: &UpstreamResponse) -> bool {
            true
        }

        fn append(&self, _: u32, _: Pieces) -> BoxFuture<'_, bool> {
            let is_taken = self.is_taken;
            Box::pin(async move { is_taken })
        }

        fn counters(&self) -> &Counters {
            &self.counters
        }
    }

    /// Content that goes on for ever, so many bytes at a time.
    struct Endless(usize);

    impl UpstreamContent for Endless {
        fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
            Box::pin(async move { Some(Ok(Bytes::from(vec![0; self.0]))) })
        }
    }

    #[test]
    fn a_fill_that_is_neither_stored_nor_read_lets_its_connection_go() {
        let check = |has_reader: bool, expected: bool| {
            let object = Unstored { has_reader, ..Unstored::default() };
            let fill = Fill::new(0, 4 * FRAGMENT_BYTES, true);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let run = async {
                tokio::time::timeout(3 * LOOK_TIME, fill.run(&object, Some(Box::new(Endless(FRAGMENT_BYTES as usize)))))
                    .await
            };
            assert_eq!(runtime.block_on(run).is_ok(), expected, "has a reader: {has_reader}");
            assert_eq!(fill.position(), (!expected).then_some(FRAGMENT_BYTES));
        };
        check(false, true);
        check(true, false);
    }

    #[test]
    fn a_fill_that_nobody_reads_ends_unless_little_is_left() {
        let check = |has_reader: bool, unread_bytes_max: u64, expected: u64| {
            for piece_bytes in [FRAGMENT_BYTES as usize, 61_111] {
                let object = Unstored { has_reader, unread_bytes_max, is_taken: true, ..Unstored::default() };
                let fill = Fill::new(0, 4 * FRAGMENT_BYTES, true);
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
                runtime.block_on(fill.run(&object, Some(Box::new(Endless(piece_bytes)))));
                let fragments = fill.state().position / FRAGMENT_BYTES;
                assert_eq!(fragments, expected, "{has_reader} {unread_bytes_max} {piece_bytes}");
            }
        };
        check(true, 0, 4);
        check(false, 0, 1);
        check(false, FRAGMENT_BYTES, 1);
        check(false, 3 * FRAGMENT_BYTES, 4);
    }
}
