//! The session sends the bodies under way: DATA frames by priority and in turn, within the windows.

use std::mem;

use thalweg_wire::h2::{ErrorCode, HEAD_LEN};

use super::batch::Batch;
use super::body::Available;
use super::session::{Session, Stage};
use super::stream::StreamWork;
use crate::http::services::Services;

impl Session {
    /// Lets the bodies send for which bytes may have come.
    pub(super) fn offer_streams(&mut self) {
        let is_stream = |work: &StreamWork| matches!(work, StreamWork::Sending(sending) if sending.rest.is_stream());
        let streams = self.connection.owners().filter(|(_, work)| is_stream(work)).map(|(stream, _)| stream);
        for stream in streams.collect::<Vec<_>>() {
            self.connection.set_wants_to_send(stream, true);
        }
    }

    /// Resets the streams whose bodies wait for their origins. Returns how many.
    #[cold]
    pub(super) fn reset_streams(&mut self, reason: &str, batch: &mut Batch, services: &mut Services<'_>) -> usize {
        let is_stream = |work: &StreamWork| matches!(work, StreamWork::Sending(sending) if sending.rest.is_stream());
        let streams = self.connection.owners().filter(|(_, work)| is_stream(work)).map(|(stream, _)| stream);
        let streams: Vec<u32> = streams.collect();
        for &stream in &streams {
            services.recorder.failed(reason);
            self.reset(stream, ErrorCode::INTERNAL_ERROR, batch, services);
        }
        streams.len()
    }

    /// Puts DATA frames of the bodies under way behind the rest, by priority and in turn.
    pub(super) fn put_bodies(&mut self, batch: &mut Batch, services: &mut Services<'_>) {
        while !batch.is_full() {
            let Some(stream) = self.connection.next_sender() else { return };
            let StreamWork::Sending(mut sending) = mem::take(self.work(stream)) else { return };
            // A payload counts for the rate of one mount.
            if batch.mount.is_some_and(|mount| mount != sending.mount) {
                return self.set_work(stream, StreamWork::Sending(sending));
            }
            match sending.rest.available(services.socket) {
                Available::Bytes { bytes, is_last } => {
                    batch.mount = Some(sending.mount);
                    let window = u64::from(self.connection.sendable(stream).min(services.frame_bytes_max));
                    let sent = bytes.min(window);
                    let ends = is_last && sent == bytes;
                    let head = self.connection.data(stream, sent as u32, ends);
                    batch.out().extend_from_slice(&head);
                    sending.rest.put(sent, batch);
                    services.recorder.extend(stream, HEAD_LEN as u64 + sent, sent, ends);
                    if let Some((_, progress)) = &mut self.starved {
                        *progress += sent;
                    }
                    self.set_work(stream, StreamWork::Sending(sending));
                    if ends {
                        self.release(stream, batch, services);
                    }
                }
                Available::Pending => {
                    self.connection.set_wants_to_send(stream, false);
                    self.set_work(stream, StreamWork::Sending(sending));
                }
                Available::Failed(reason) => {
                    services.recorder.failed(&reason);
                    self.set_work(stream, StreamWork::Sending(sending));
                    self.reset(stream, ErrorCode::INTERNAL_ERROR, batch, services);
                }
            }
        }
    }

    /// Notes whether bodies wait for a window. A client that opens its windows so slowly that it
    /// takes less than the least rate for as long as it may stall is disconnected.
    pub(super) fn note_starvation(&mut self, batch: &mut Batch, services: &mut Services<'_>) {
        let is_starved = self.connection.is_starved();
        match self.starved {
            _ if !is_starved => self.starved = None,
            None => self.starved = Some((services.now, 0)),
            Some((since, bytes)) => {
                let elapsed_ns = services.now.ns_since(since);
                if bytes.saturating_mul(services.bounds.ns_per_byte) >= elapsed_ns {
                    self.starved = Some((services.now, 0));
                } else if elapsed_ns >= services.bounds.stall_ns {
                    let reason = (ErrorCode::ENHANCE_YOUR_CALM, "windows open too slowly");
                    self.go_away(Stage::Over, reason, batch, services);
                }
            }
        }
    }
}
