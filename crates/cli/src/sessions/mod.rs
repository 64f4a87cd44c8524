//! `thalweg sessions`: an access log as a session file.

mod blocks;
mod summary;

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use memchr::memchr_iter;
use thalweg_report::file::WholeFile;
use thalweg_sessions::{
    Client, Contents, Converter, Detected, Filter, LogFormat, Settings, Sink, Summary, detect_format,
};

use self::blocks::{Block, Blocks};
use self::summary::BadLines;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::log_file::{self, LogFile};
use crate::options::{ClientOption, SessionsOptions, glob_set};
use crate::output;

/// Finished sessions are written in pieces of about so many bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Runs the command.
///
/// # Errors
/// The log cannot be read, the session file cannot be written, or there is no session. Nothing
/// half-written is left.
pub(crate) fn sessions(options: &SessionsOptions) -> Result<ExitCode, Failure> {
    let mut settings = settings(options)?;
    if let Some(path) = &options.out {
        output::check_path("session file", path)?;
    }
    let log = log_file::open_once(&options.log)?;
    ensure_apart(&log, options.out.as_deref())?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let mut out = Pieces::new(Destination::open(options.out.as_deref())?);
    let mut blocks = Blocks::read(log);
    let mut next = blocks.next(&interrupt).map_err(|error| unreadable(options, &error))?;
    let detected = next.as_ref().filter(|_| options.log_format.0.is_none()).map(detect);
    settings.format = detected.as_ref().map_or(settings.format, |detected| detected.format.clone());
    let bad_lines = BadLines::new(options, settings.format.to_string(), detected);
    let mut conversion = Conversion { converter: Converter::new(settings), bad_lines };
    while let Some(block) = next {
        if interrupt.is_wanted() {
            return Err(Failure::unreachable(out.destination.interrupted()));
        }
        conversion.push(&block, &mut |text: &[u8]| out.take(text))?;
        if out.state()?.is_break() {
            return Ok(Exit::Met.into());
        }
        if conversion.converter.is_full() {
            break;
        }
        blocks.recycle(block);
        next = blocks.next(&interrupt).map_err(|error| unreadable(options, &error))?;
    }
    if interrupt.is_wanted() {
        return Err(Failure::unreachable(out.destination.interrupted()));
    }
    let Conversion { converter, bad_lines } = conversion;
    let summary = converter.finish(&mut |text: &[u8]| out.take(text));
    if summary.sessions == 0 {
        return Err(Failure::usage(none_found(options, &summary, &bad_lines)));
    }
    out.write();
    if out.state()?.is_break() {
        return Ok(Exit::Met.into());
    }
    out.destination.finish()?;
    let name = options.log.display().to_string();
    if options.json {
        output::print(&summary::json(&summary, &bad_lines)?)?;
    } else {
        summary::print(&name, &summary, &bad_lines);
    }
    Ok(Exit::Met.into())
}

/// The format of a log by its first lines.
fn detect(first: &Block) -> Detected {
    const LINES: usize = 200;
    detect_format(&first.bytes.split(|byte| *byte == b'\n').take(LINES).collect::<Vec<_>>())
}

fn settings(options: &SessionsOptions) -> Result<Settings, Failure> {
    let globs = |globs| glob_set(globs).map_err(|error| Failure::usage(format!("the globs cannot be used: {error}")));
    if options.from.zip(options.to).is_some_and(|(from, to)| from >= to) {
        return Err(Failure::usage("--to has to be later than --from"));
    }
    if options.burst >= options.gap {
        return Err(Failure::usage("--burst has to be shorter than --gap"));
    }
    let filled = options.contents_bytes.map(|bytes| "x".repeat(usize::try_from(bytes).unwrap_or(0).min(1 << 20)));
    let contents = options.contents.clone().or(filled).map(|text| Contents::new(&text));
    let contents = contents.transpose().map_err(Failure::usage)?;
    let client = match options.client {
        ClientOption::Address => Client::Address,
        ClientOption::AddressAgent => Client::AddressAndAgent,
    };
    let filter = Filter {
        statuses: options.status.0.clone(),
        methods: options.method.iter().copied().collect(),
        include: globs(&options.include)?,
        exclude: globs(&options.exclude)?,
        from_unix_s: options.from,
        to_unix_s: options.to,
        host: options.host.clone(),
        sample: options.sample.map(|share| (share, options.seed)),
    };
    Ok(Settings {
        format: options.log_format.0.clone().unwrap_or_else(LogFormat::common),
        client,
        gap_s: options.gap,
        burst_s: options.burst,
        think_max_s: options.max_think,
        sessions_max: options.max_sessions,
        memory_bytes: options.memory,
        contents,
        filter,
    })
}

/// Refuses to write over the log that is read.
fn ensure_apart(log: &LogFile, out: Option<&Path>) -> Result<(), Failure> {
    let there = match out {
        Some(path) => fs::metadata(path),
        None => io::stdout().as_fd().try_clone_to_owned().and_then(|stdout| fs::File::from(stdout).metadata()),
    };
    let is_log = |there: &fs::Metadata| {
        there.is_file() && (there.dev(), there.ino()) == (log.metadata.dev(), log.metadata.ino())
    };
    if there.is_ok_and(|there| is_log(&there)) {
        return Err(Failure::usage("the session file is the log itself; use another file"));
    }
    Ok(())
}

fn unreadable(options: &SessionsOptions, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read the log {}: {error}", options.log.display()))
}

fn none_found(options: &SessionsOptions, summary: &Summary, bad_lines: &BadLines) -> String {
    let name = options.log.display();
    let mut message = format!("there is no session in the log {name}, which has {} lines", summary.lines);
    let bad = (summary.bad_lines, "lines of no log");
    for (count, reason) in summary.dropped.reasons().into_iter().chain([bad]).filter(|(count, _)| *count > 0) {
        message.push_str(&format!("; {count} {reason}"));
    }
    for line in bad_lines.shown() {
        message.push_str(&format!("\n{line}"));
    }
    message
}

struct Conversion<'a> {
    converter: Converter,
    bad_lines: BadLines<'a>,
}

impl Conversion<'_> {
    fn push(&mut self, block: &Block, out: Sink<'_>) -> Result<(), Failure> {
        let mut begin = 0;
        for end in memchr_iter(b'\n', &block.bytes).chain([block.bytes.len()]) {
            let Some(line) = block.bytes.get(begin..end) else { break };
            begin = end + 1;
            self.bad_lines.line += u64::from(end < block.bytes.len() || !line.is_empty());
            if let Err(fault) = self.converter.push(line, out) {
                self.bad_lines.add(line, &fault)?;
            }
        }
        if block.has_long_line {
            self.bad_lines.line += 1;
            self.converter.skip_line();
            self.bad_lines.add_long()?;
        }
        Ok(())
    }
}

/// Sessions on their way to their place, of which no more than a piece and a session are in memory.
struct Pieces<'a> {
    destination: Destination<'a>,
    piece: Vec<u8>,
    /// After an error, or when no more are wanted, sessions are dropped.
    state: Result<ControlFlow<()>, Failure>,
}

impl<'a> Pieces<'a> {
    fn new(destination: Destination<'a>) -> Self {
        Self { destination, piece: Vec::new(), state: Ok(ControlFlow::Continue(())) }
    }

    fn take(&mut self, text: &[u8]) {
        self.piece.extend_from_slice(text);
        if self.piece.len() >= PIECE_BYTES {
            self.write();
        }
    }

    /// Writes what there is.
    fn write(&mut self) {
        if matches!(self.state, Ok(ControlFlow::Continue(()))) {
            self.state = self.destination.write(&self.piece);
        }
        self.piece.clear();
        self.piece.shrink_to(2 * PIECE_BYTES);
    }

    /// Whether more sessions are wanted.
    ///
    /// # Errors
    /// One could not be written.
    fn state(&mut self) -> Result<ControlFlow<()>, Failure> {
        std::mem::replace(&mut self.state, Ok(ControlFlow::Break(()))).inspect(|state| self.state = Ok(*state))
    }
}

/// The place of the sessions.
enum Destination<'a> {
    Stdout,
    File(&'a Path, WholeFile),
}

impl<'a> Destination<'a> {
    fn open(path: Option<&'a Path>) -> Result<Self, Failure> {
        match path {
            None => Ok(Self::Stdout),
            Some(path) => {
                WholeFile::create(path).map(|file| Self::File(path, file)).map_err(|error| unwritable(path, &error))
            }
        }
    }

    /// Writes sessions. A closed pipe, as `head` leaves it, wants no more, and is no error.
    fn write(&mut self, text: &[u8]) -> Result<ControlFlow<()>, Failure> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                match stdout.write_all(text).and_then(|()| stdout.flush()) {
                    Ok(()) => Ok(ControlFlow::Continue(())),
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
                    Err(error) => Err(Failure::unreachable(format!("cannot write the sessions to stdout: {error}"))),
                }
            }
            Self::File(path, file) => {
                file.write_all(text).map(ControlFlow::Continue).map_err(|error| unwritable(path, &error))
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(path, file) => file.finish().map_err(|error| unwritable(path, &error)),
        }
    }

    fn interrupted(&self) -> String {
        match self {
            Self::Stdout => "interrupted; the sessions on stdout are not all".to_owned(),
            Self::File(path, _) => format!("interrupted; {} was not written", path.display()),
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::unreachable(format!("cannot write the session file {}: {error}; nothing of it is kept", path.display()))
}
