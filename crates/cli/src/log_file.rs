//! Access logs: files and pipes, read once ([`open_once`]) or several times ([`open`]). Logs packed
//! with gzip or zstd are unpacked while they are read; the first bytes decide, not the name.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use thalweg_load::OpenLog;

use crate::exit::Failure;
use crate::standard_input;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Bytes that tell the compression.
const MAGIC_BYTES: u64 = 4;

/// Bytes of one read.
const BUFFER_BYTES: usize = 128 << 10;

/// A function that opens the log any number of times; `-` is stdin.
///
/// # Errors
/// The log cannot be opened, or a pipe's bytes cannot be copied.
pub(crate) fn open(log: &Path) -> Result<OpenLog, Failure> {
    let mut file = open_file(log)?;
    let metadata = file.metadata().map_err(|error| unreadable(log, &error))?;
    if metadata.is_file() {
        // A shell may have read some of its script's standard input before.
        let start = file.stream_position().map_err(|error| unreadable(log, &error))?;
        return Ok(opener(file, start));
    }
    let folder = std::env::temp_dir();
    let mut copy = tempfile::tempfile_in(&folder)
        .map_err(|error| no_copy(&format!("cannot create a temporary file in {}", folder.display()), &error))?;
    io::copy(&mut file, &mut copy)
        .map_err(|error| no_copy(&format!("cannot copy it to {}", folder.display()), &error))?;
    Ok(opener(copy, 0))
}

/// A log that is read once, so that a pipe's bytes need no copy; `-` is stdin.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    /// The file's state when it was opened.
    pub metadata: Metadata,
}

/// Opens a log to be read once.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn open_once(log: &Path) -> Result<LogFile, Failure> {
    let file = open_file(log)?;
    let metadata = file.metadata().map_err(|error| unreadable(log, &error))?;
    Ok(LogFile { file, metadata })
}

impl LogFile {
    /// Its content, unpacked.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub(crate) fn unpacked(self) -> io::Result<Box<dyn BufRead + Send>> {
        let position = Arc::new(AtomicU64::new(0));
        unpack(Counted { file: self.file, position: position.clone() }, position)
    }
}

fn open_file(log: &Path) -> Result<File, Failure> {
    let opened = match log.to_str() {
        Some("-") => {
            standard_input::announce("log");
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        }
        _ => File::open(log),
    };
    let is_folder = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_dir());
    match opened {
        Ok(file) if is_folder(&file) => Err(unreadable(log, &io::ErrorKind::IsADirectory.into())),
        Ok(file) => Ok(file),
        Err(error) => Err(unreadable(log, &error)),
    }
}

fn unreadable(log: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read the log {}: {error}", log.display()))
}

fn no_copy(what: &str, error: &io::Error) -> Failure {
    Failure::unreachable(format!(
        "the log is read twice, so input from a pipe is copied first: {what}: {error}; set TMPDIR to another folder, \
         or use a log in a file, which needs no copy"
    ))
}

fn opener(file: File, start: u64) -> OpenLog {
    let file = Arc::new(file);
    Box::new(move || {
        let position = Arc::new(AtomicU64::new(start));
        unpack(Section { file: file.clone(), position: position.clone() }, position)
    })
}

/// A file from an offset on, with a position of its own, so that several readers can read it at a
/// time.
struct Section {
    file: Arc<File>,
    position: Arc<AtomicU64>,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.position.load(Ordering::Relaxed);
        let read = self.file.read_at(buffer, at)?;
        self.position.store(at + read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A file from its position on.
struct Counted {
    file: File,
    position: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.position.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Unpacks a source, whose position says how many bytes of it were read.
fn unpack(source: impl Read + Send + 'static, position: Arc<AtomicU64>) -> io::Result<Box<dyn BufRead + Send>> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    // A pipe may give the first bytes one by one.
    let mut first = Vec::new();
    source.by_ref().take(MAGIC_BYTES).read_to_end(&mut first)?;
    let [is_gzip, is_zstd] = [first.starts_with(GZIP), first.starts_with(ZSTD) || is_skippable(&first)];
    let source = io::Cursor::new(first).chain(source);
    Ok(if is_gzip {
        let source = MultiGzDecoder::new(source);
        Box::new(BufReader::with_capacity(BUFFER_BYTES, Packed { source, format: "gzip", position }))
    } else if is_zstd {
        let source = Frames { source, decoder: FrameDecoder::new(), within: false };
        Box::new(BufReader::with_capacity(BUFFER_BYTES, Packed { source, format: "zstd", position }))
    } else {
        Box::new(source)
    })
}

/// Whether these bytes begin a frame of zstd's format that has no content.
fn is_skippable(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// A reader that adds format and offset to errors in packed data.
struct Packed<R> {
    source: R,
    format: &'static str,
    /// Bytes read so far.
    position: Arc<AtomicU64>,
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.read(buffer).map_err(|error| {
            let (format, at) = (self.format, self.position.load(Ordering::Relaxed));
            let what = match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    format!("the {format} data end at byte {at}: the file is truncated")
                }
                _ => format!("the {format} data are corrupt before byte {at}: {error}"),
            };
            io::Error::new(error.kind(), what)
        })
    }
}

/// The content of consecutive zstd frames.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame, or skips one without content.
    fn begin(&mut self) -> io::Result<()> {
        let length = match self.decoder.reset(&mut self.source) {
            Ok(()) => {
                self.within = true;
                return Ok(());
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                u64::from(length)
            }
            Err(error) => return Err(self.fault(error)),
        };
        let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
        if skipped < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Ends a frame whose content was read.
    fn end(&mut self) -> io::Result<()> {
        self.within = false;
        let expected = self.decoder.get_checksum_from_data();
        if expected.is_some() && expected != self.decoder.get_calculated_checksum() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not match"));
        }
        Ok(())
    }

    /// The decoder's error, or an unexpected end of the file.
    fn fault(&mut self, error: FrameDecoderError) -> io::Error {
        let at_end = self.source.fill_buf().is_ok_and(<[u8]>::is_empty);
        if at_end { io::ErrorKind::UnexpectedEof.into() } else { io::Error::new(io::ErrorKind::InvalidData, error) }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin()?;
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            } else if self.decoder.is_finished() {
                self.end()?;
            } else if let Err(error) =
                self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
            {
                return Err(self.fault(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn read(bytes: &[u8]) -> Result<String, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let open = opener(file, 0);
        let mut texts = [String::new(), String::new()];
        for text in &mut texts {
            open().and_then(|mut source| source.read_to_string(text)).map_err(|error| error.to_string())?;
        }
        let [first, second] = texts;
        assert_eq!(first, second, "it is the same each time");
        Ok(first)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &str) -> Vec<u8> {
        compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
    }

    /// So much that it does not fit a buffer, and does not pack too well.
    fn long() -> String {
        (0..60_000_u64).map(|number| format!("{:x}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
    }

    #[test]
    fn a_file_is_unpacked_by_what_it_holds() {
        let long = long();
        for text in ["", "a\n", &long] {
            assert_eq!(read(text.as_bytes()).as_deref(), Ok(text));
            assert_eq!(read(&gzip(text)).as_deref(), Ok(text));
            assert_eq!(read(&zstd(text)).as_deref(), Ok(text));
            // Logs that were packed one by one and put together, as cat does it.
            let twice = text.repeat(2);
            assert_eq!(read(&gzip(text).repeat(2)).as_deref(), Ok(&*twice));
            assert_eq!(read(&zstd(text).repeat(2)).as_deref(), Ok(&*twice));
        }
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd("a")].concat();
        assert_eq!(read(&skippable).as_deref(), Ok("a"));
    }

    /// A pipe whose writer writes byte by byte.
    struct Slow(io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn the_first_bytes_may_come_one_by_one() {
        for bytes in [b"a\nb\n".to_vec(), b"a".to_vec(), gzip("a\nb\n"), zstd("a\nb\n")] {
            let mut text = String::new();
            let mut source = unpack(Slow(io::Cursor::new(bytes)), Arc::default()).unwrap();
            source.read_to_string(&mut text).unwrap();
            assert!(["a\nb\n", "a"].contains(&&*text), "{text:?}");
        }
    }

    #[test]
    fn packed_data_that_are_cut_short_or_damaged_are_said_with_their_place() {
        let long = long();
        for (format, packed) in [("gzip", gzip(&long)), ("zstd", zstd(&long))] {
            for length in [5, packed.len() / 2, packed.len() - 1] {
                let error = read(&packed[..length]).unwrap_err();
                let expected = format!("the {format} data end at byte {length}: the file is truncated");
                assert_eq!(error, expected);
            }
            let mut damaged = packed;
            let at = damaged.len() / 2;
            damaged[at..at + 8].fill(0xff);
            let error = read(&damaged).unwrap_err();
            assert!(error.starts_with(&format!("the {format} data are corrupt before byte ")), "{error}");
            damaged.truncate(at);
            damaged.extend_from_slice(b"plain text");
            assert!(read(&damaged).is_err());
        }
    }
}
