//! The limit of requests at once to one origin, with a bounded queue in front of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::{Limits, Times};
use crate::failure::{Failure, FailureKind};
use crate::standing::queue_timeout;

/// The right to have a request under way. Clones share it: it ends with the last of them.
pub(crate) type Permit = Arc<OwnedSemaphorePermit>;

#[derive(Debug)]
pub(crate) struct Admission {
    permits: Arc<Semaphore>,
    requests_max: usize,
    waiting: AtomicUsize,
    queue_max: usize,
    queue_time: Duration,
}

impl Admission {
    pub(crate) fn new(limits: &Limits, times: &Times) -> Self {
        let requests_max = limits.requests_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(requests_max)),
            requests_max,
            waiting: AtomicUsize::new(0),
            queue_max: limits.queue_max,
            queue_time: times.queue,
        }
    }

    /// Waits for a place, in the order of arrival.
    pub(crate) async fn enter(&self) -> Result<Permit, Failure> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(Arc::new(permit));
        }
        let _place = self.place().ok_or_else(|| {
            let text = format!("{} requests are under way and {} wait", self.requests_max, self.queue_max);
            Failure::new(FailureKind::Overloaded, text)
        })?;
        match timeout(self.queue_time, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(permit) => Ok(Arc::new(permit.expect("it is never closed"))),
            Err(_) => Err(queue_timeout("other requests were under way", self.queue_time)),
        }
    }

    /// Requests under way, and those that wait.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let under_way = self.requests_max - self.permits.available_permits().min(self.requests_max);
        (under_way as u64, self.waiting.load(Ordering::Relaxed) as u64)
    }

    fn place(&self) -> Option<Place<'_>> {
        let add = |waiting| (waiting < self.queue_max).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Place(self))
    }
}

/// A place in the queue.
struct Place<'a>(&'a Admission);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Phase;

    fn admission(requests_max: usize, queue_max: usize) -> Arc<Admission> {
        let limits = Limits { requests_max, queue_max, ..Limits::default() };
        Arc::new(Admission::new(&limits, &Times { queue: Duration::from_secs(5), ..Times::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_in_a_bounded_queue() {
        let admission = admission(1, 1);
        let first = admission.enter().await.unwrap();
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.enter().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(admission.figures(), (1, 1));
        assert_eq!(admission.enter().await.unwrap_err().kind, FailureKind::Overloaded);
        drop(first);
        let second = waiting.await.unwrap().unwrap();
        assert_eq!(admission.figures(), (1, 0));
        drop(second);
        assert_eq!(admission.figures(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_does_not_wait_for_ever() {
        let admission = admission(1, 1);
        let _first = admission.enter().await.unwrap();
        let failure = admission.enter().await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout(Phase::Queue));
        assert_eq!(admission.figures(), (1, 0));
    }
}
