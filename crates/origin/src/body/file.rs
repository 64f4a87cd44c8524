//! A body that is read from a file of a slow tree, in blocking threads, a piece ahead of its
//! reader.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use thalweg_sys::File;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::admission::Permit;
use crate::failure::{Failure, FailureKind, Phase};

/// Bytes of one piece.
const PIECE_BYTES: u64 = 256 << 10;

pub(crate) struct FileBody {
    file: Option<File>,
    job: Option<JoinHandle<(File, io::Result<Bytes>)>>,
    at: u64,
    end: u64,
    between_bytes: Duration,
    /// A thread that hangs in a read keeps its place, so that no others follow it.
    permit: Permit,
}

impl FileBody {
    /// The bytes of a file from `first` to before `end`.
    pub(crate) fn new(file: File, first: u64, end: u64, between_bytes: Duration, permit: Permit) -> Self {
        Self { file: Some(file), job: None, at: first, end, between_bytes, permit }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        if self.job.is_none() {
            self.begin();
        }
        let job = self.job.as_mut()?;
        let ended = timeout(self.between_bytes, job).await;
        self.job = None;
        let failed = |text: String| Some(Err(Failure::new(FailureKind::Read, text)));
        match ended {
            Err(_) => {
                let text = format!("the file system gave no bytes for {:?}", self.between_bytes);
                Some(Err(Failure::timeout(Phase::Body, text)))
            }
            Ok(Err(_)) => failed("the thread that read the file has failed".into()),
            Ok(Ok((_, Err(error)))) => failed(format!("reading the file: {error}")),
            Ok(Ok((file, Ok(bytes)))) => {
                self.at += bytes.len() as u64;
                self.file = Some(file);
                self.begin();
                Some(Ok(bytes))
            }
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.at == self.end
    }

    /// Begins to read the next piece, if there is one.
    fn begin(&mut self) {
        if self.at == self.end {
            return;
        }
        let Some(file) = self.file.take() else { return };
        let (at, len) = (self.at, PIECE_BYTES.min(self.end - self.at));
        let is_last = at + len == self.end;
        let permit = Permit::clone(&self.permit);
        self.job = Some(spawn_blocking(move || {
            let read = read(&file, at, len as usize, is_last);
            drop(permit);
            (file, read)
        }));
    }
}

/// Reads one piece. With the last one, the file is compared with its state when it was opened, so
/// that no body is of two versions.
fn read(file: &File, at: u64, len: usize, is_last: bool) -> io::Result<Bytes> {
    let mut buffer = vec![0; len];
    if file.read_at(&mut buffer, at)? < len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is shorter than when it was opened"));
    }
    if is_last {
        file.ensure_unchanged()?;
    }
    Ok(buffer.into())
}
