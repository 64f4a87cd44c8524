//! The lines of a log in blocks, read and unpacked by a thread, so that neither a slow pipe nor a
//! large packed file keeps Ctrl-C waiting.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use memchr::{memchr, memrchr};

use crate::interrupt::Interrupt;
use crate::log_file::LogFile;

/// Bytes of a block, to the end of whose last line more are read.
const BLOCK_BYTES: u64 = 256 << 10;
/// The longest line, without its line feed.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Blocks that wait to be converted.
const BLOCKS_AHEAD: usize = 4;
/// How often an interruption is looked for while no block comes.
const LOOK: Duration = Duration::from_millis(100);

/// Whole lines.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// With their line feeds, but for the last one of a log that ends without it.
    pub bytes: Vec<u8>,
    /// Whether a line follows that is too long to be read, and is left out.
    pub has_long_line: bool,
}

/// A log that is being read.
#[derive(Debug)]
pub(super) struct Blocks {
    /// `None` is the end of the log.
    blocks: Receiver<io::Result<Option<Block>>>,
    spare: Sender<Vec<u8>>,
}

impl Blocks {
    /// Begins to read a log.
    pub(super) fn read(log: LogFile) -> Self {
        let (sender, blocks) = sync_channel(BLOCKS_AHEAD);
        let (spare, spares) = channel();
        // It ends with the log, or when nobody receives any more.
        thread::spawn(move || {
            let ended = read(log, &sender, &spares);
            let _ = sender.send(ended.map(|()| None));
        });
        Self { blocks, spare }
    }

    /// The next block; `None` at the end of the log and after an interruption.
    ///
    /// # Errors
    /// The log cannot be read further.
    pub(super) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Option<Block>> {
        while !interrupt.is_wanted() {
            match self.blocks.recv_timeout(LOOK) {
                Ok(block) => return block,
                // A log that ends says so: a panic of its reader is not its end.
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("its reader has failed")),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(None)
    }

    /// Takes a block back, whose memory is used again.
    pub(super) fn recycle(&self, block: Block) {
        // The reader may have ended.
        let _ = self.spare.send(block.bytes);
    }
}

fn read(log: LogFile, blocks: &SyncSender<io::Result<Option<Block>>>, spares: &Receiver<Vec<u8>>) -> io::Result<()> {
    let mut source = log.unpacked()?;
    loop {
        let mut bytes = spares.try_recv().unwrap_or_default();
        bytes.clear();
        let has_long_line = read_block(&mut source, &mut bytes, BLOCK_BYTES, LINE_BYTES_MAX)?;
        if bytes.is_empty() && !has_long_line {
            return Ok(());
        }
        if blocks.send(Ok(Some(Block { bytes, has_long_line }))).is_err() {
            return Ok(());
        }
    }
}

/// Reads whole lines of about `block_bytes`. Tells whether a line of more than `line_bytes_max`,
/// without its line feed, was skipped behind them.
fn read_block(
    source: &mut impl BufRead,
    bytes: &mut Vec<u8>,
    block_bytes: u64,
    line_bytes_max: u64,
) -> io::Result<bool> {
    source.take(block_bytes).read_to_end(bytes)?;
    if bytes.is_empty() || bytes.ends_with(b"\n") {
        return Ok(false);
    }
    source.take(line_bytes_max + 1).read_until(b'\n', bytes)?;
    let begin = memrchr(b'\n', &bytes[..bytes.len() - 1]).map_or(0, |at| at + 1);
    let is_whole = bytes.ends_with(b"\n");
    if (bytes.len() - begin - usize::from(is_whole)) as u64 <= line_bytes_max {
        return Ok(false);
    }
    bytes.truncate(begin);
    if !is_whole {
        skip_line(source)?;
    }
    Ok(true)
}

fn skip_line(source: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffered = source.fill_buf()?;
        let (length, is_end) = match memchr(b'\n', buffered) {
            Some(at) => (at + 1, true),
            None => (buffered.len(), buffered.is_empty()),
        };
        source.consume(length);
        if is_end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_whole_lines_and_leave_out_those_that_are_too_long() {
        let text = format!("a\nbcd\n{}\nef\ngh\n{}\n{}\ni", "x".repeat(10), "y".repeat(11), "z".repeat(40));
        let mut source = io::BufReader::with_capacity(3, text.as_bytes());
        let mut read = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let is_long = read_block(&mut source, &mut bytes, 4, 10).unwrap();
            if bytes.is_empty() && !is_long {
                break;
            }
            read.push((String::from_utf8(bytes).unwrap(), is_long));
        }
        let lines: String = read.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(lines, format!("a\nbcd\n{}\nef\ngh\ni", "x".repeat(10)));
        assert_eq!(read.iter().filter(|(_, is_long)| *is_long).count(), 2, "{read:?}");
    }

    /// A reader that panics drops its end of the channel, as this one does.
    #[test]
    fn a_log_without_its_end_is_an_error() {
        let interrupt = Interrupt::listen().unwrap();
        let (sender, blocks) = sync_channel(1);
        let mut blocks = Blocks { blocks, spare: channel().0 };
        sender.send(Ok(None)).unwrap();
        assert!(blocks.next(&interrupt).unwrap().is_none());
        drop(sender);
        assert!(blocks.next(&interrupt).is_err());
    }
}
