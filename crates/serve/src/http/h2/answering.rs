//! The session answers requests: at once, when their bodies have come in, or when their jobs are
//! done.

use std::mem;

use thalweg_wire::RequestHead;
use thalweg_wire::h2::{HeadFields, Priority};
use thalweg_wire::hpack::FieldList;

use super::batch::Batch;
use super::body::BodyRest;
use super::response::ResponseEncoder;
use super::session::Session;
use super::stream::{SendingBody, StreamWork, WaitingRequest};
use crate::content::origin::Outcome;
use crate::content::tier::TierAnswer;
use crate::http::respond::{Answer, Outcomes};
use crate::http::response::{ResponseBytes, Summary};
use crate::http::services::Services;

impl Session {
    /// Answers a request whose body has come in.
    #[cold]
    pub(super) fn answer_read(&mut self, stream: u32, batch: &mut Batch, services: &mut Services<'_>) {
        if let StreamWork::Reading(waiting) = mem::take(self.work(stream)) {
            self.reading -= 1;
            self.answer_kept_request(stream, waiting, batch, services);
        }
    }

    /// Answers the requests whose jobs are done.
    pub(super) fn answer_waiting(&mut self, batch: &mut Batch, services: &mut Services<'_>) {
        if self.connection.stream_count() == 0 {
            return;
        }
        let is_ready = |work: &StreamWork| matches!(work, StreamWork::Waiting(waiting) if waiting.is_ready);
        while !batch.is_full() {
            let next = self.connection.owners().find(|(_, work)| is_ready(work)).map(|(stream, _)| stream);
            let Some(stream) = next else { return };
            if let StreamWork::Waiting(waiting) = mem::take(self.work(stream)) {
                self.answer_kept_request(stream, waiting, batch, services);
            }
        }
    }

    #[cold]
    pub(super) fn answer_kept_request(
        &mut self,
        stream: u32,
        waiting: Box<WaitingRequest>,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        let fields = waiting.fields.clone();
        let mut room = HeadFields::new();
        let head = room.request(&fields, false).expect("a head that was read is read again");
        self.answer(stream, &head, Some(waiting), None, batch, services);
    }

    /// Answers a request, or has it wait: one that has `waited`, or one of these fields.
    #[inline]
    pub(super) fn answer(
        &mut self,
        stream: u32,
        head: &RequestHead<'_>,
        mut waited: Option<Box<WaitingRequest>>,
        fields: Option<&FieldList>,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        let outcomes = waited.as_ref().map_or(Outcomes::default(), |waiting| waiting.outcomes);
        let (waiter, context) = (services.waiter(stream), services.context(stream));
        let Services { responder, blocking, scratch, tls_port, .. } = services;
        if let Some(waiting) = &mut waited {
            responder.bring(waiting.answer.take(), waiting.content.take());
        }
        let mut encoder = ResponseEncoder::new(&mut self.connection, stream, batch, scratch);
        let answer = responder.answer(head, *tls_port, outcomes, context, &mut encoder);
        let job = match answer {
            Answer::Encoded(summary) => {
                let sent = encoder.into_parts();
                return self.sent_head(sent, head, summary, batch, services);
            }
            Answer::Pending => None,
            Answer::After(_) if blocking.is_overloaded() => {
                let summary = responder.shed(head, context.peer, &mut encoder);
                let sent = encoder.into_parts();
                return self.sent_head(sent, head, summary, batch, services);
            }
            Answer::After(job) => {
                let kind = job.kind();
                blocking.submit(waiter, *job);
                Some(kind)
            }
        };
        let mut waiting = match (waited, fields) {
            (Some(waiting), _) => waiting,
            (None, fields) => WaitingRequest::new(fields.unwrap_or(&FieldList::default()), job),
        };
        (waiting.job, waiting.is_ready) = (job, false);
        self.set_work(stream, StreamWork::Waiting(waiting));
    }

    /// The head of a response is in the batch, and perhaps its body.
    #[inline]
    pub(super) fn sent_head(
        &mut self,
        (stream, rest, bytes): (u32, Option<BodyRest>, ResponseBytes),
        head: &RequestHead<'_>,
        summary: Summary,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        services.recorder.record(stream, Some(head), summary, &|| bytes);
        match rest {
            None => self.release(stream, batch, services),
            Some(rest) => {
                if let Some(priority) = head.header("priority") {
                    self.connection.set_priority(stream, Priority::read(priority));
                }
                self.set_work(stream, StreamWork::Sending(Box::new(SendingBody { rest, mount: summary.mount })));
                self.connection.set_wants_to_send(stream, true);
            }
        }
    }

    /// Answers a request that is not understood, or not any longer waited for.
    #[cold]
    pub(super) fn refuse(&mut self, stream: u32, status: u16, batch: &mut Batch, services: &mut Services<'_>) {
        let mut encoder = ResponseEncoder::new(&mut self.connection, stream, batch, services.scratch);
        let summary = services.responder.refuse(status, services.peer, &mut encoder);
        let (_, rest, bytes) = encoder.into_parts();
        services.recorder.record(stream, None, summary, &|| bytes);
        match rest {
            None => self.release(stream, batch, services),
            Some(rest) => {
                self.set_work(stream, StreamWork::Sending(Box::new(SendingBody { rest, mount: summary.mount })));
                self.connection.set_wants_to_send(stream, true);
            }
        }
    }

    /// Answers all requests that wait for a job with this status. Returns how many.
    pub(super) fn refuse_waiting(&mut self, status: u16, batch: &mut Batch, services: &mut Services<'_>) -> usize {
        let waiting = self.connection.owners().filter(|(_, work)| matches!(work, StreamWork::Waiting(_)));
        let waiting: Vec<u32> = waiting.map(|(stream, _)| stream).collect();
        for &stream in &waiting {
            self.refuse(stream, status, batch, services);
        }
        waiting.len()
    }

    /// Notes that the cache tier has answered a request, unless it was given up.
    pub(super) fn note_answer(&mut self, stream: u32, answer: Box<TierAnswer>) {
        if let Some(StreamWork::Waiting(waiting)) = self.connection.owner(stream)
            && waiting.job.is_none()
        {
            (waiting.answer, waiting.is_ready) = (Some(answer), true);
        }
    }

    /// Notes that the job of a request is done.
    pub(super) fn note_ready(&mut self, stream: u32, outcome: Outcome, services: &mut Services<'_>) {
        match self.connection.owner(stream) {
            Some(StreamWork::Waiting(waiting)) => {
                if let Some(kind) = waiting.job {
                    waiting.outcomes.add(kind, outcome);
                }
                waiting.is_ready = true;
            }
            Some(StreamWork::Dead) => {
                // A stream that was reset has nothing to say at its release.
                self.connection.release(stream, &mut services.scratch.block);
            }
            _ => {}
        }
    }
}
