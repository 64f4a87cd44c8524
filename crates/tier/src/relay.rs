//! Content that goes through to one reader, which holds the origin back if it is slow.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::answer::{BodyPiece, Reader};
use crate::counters::Counters;
use crate::upstream::UpstreamContent;
use crate::wake::Wake;

/// Pieces under way to a reader.
const PIECES_MAX: usize = 4;

/// The sending end, which a task of the tier has.
pub(crate) type RelayWriter = mpsc::Sender<Result<Bytes, Arc<str>>>;

/// The reader's end.
pub(crate) struct RelayReader {
    pieces: mpsc::Receiver<Result<Bytes, Arc<str>>>,
    counters: Arc<Counters>,
}

/// A channel whose reader counts what it takes.
pub(crate) fn channel(counters: &Arc<Counters>) -> (RelayWriter, RelayReader) {
    let (writer, pieces) = mpsc::channel(PIECES_MAX);
    (writer, RelayReader { pieces, counters: Arc::clone(counters) })
}

/// Moves content to a reader until one of them ends; `first` goes before it.
pub(crate) async fn pump(first: Option<Bytes>, mut content: Box<dyn UpstreamContent>, writer: RelayWriter) {
    if let Some(bytes) = first.filter(|bytes| !bytes.is_empty())
        && writer.send(Ok(bytes)).await.is_err()
    {
        return;
    }
    while let Some(piece) = content.next().await {
        let is_over = piece.is_err();
        if writer.send(piece).await.is_err() || is_over {
            return;
        }
    }
}

impl Reader for RelayReader {
    fn next(&mut self, wake: Wake) -> BodyPiece {
        let waker = waker(wake);
        let mut context = Context::from_waker(&waker);
        loop {
            return match Pin::new(&mut self.pieces).poll_recv(&mut context) {
                Poll::Ready(Some(Ok(bytes))) if bytes.is_empty() => continue,
                Poll::Ready(Some(Ok(bytes))) => {
                    Counters::add(&self.counters.served_bytes, bytes.len() as u64);
                    BodyPiece::Bytes(bytes)
                }
                Poll::Ready(Some(Err(reason))) => BodyPiece::Failed(reason),
                Poll::Ready(None) => BodyPiece::End,
                Poll::Pending => BodyPiece::Pending,
            };
        }
    }
}

/// A waker for futures that calls `wake` the first time.
fn waker(wake: Wake) -> Waker {
    struct Once(Mutex<Option<Wake>>);

    impl std::task::Wake for Once {
        fn wake(self: Arc<Self>) {
            if let Some(wake) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
                wake();
            }
        }
    }

    Waker::from(Arc::new(Once(Mutex::new(Some(wake)))))
}
