//! The terminal that the command runs on: its size, and the display that stays at its bottom while
//! the command works.
//!
//! There is one display in a process, on stderr: a frame of several lines, or one line. Between
//! two drawings of a frame the cursor stands, hidden, at the frame's upper left corner. That place
//! stays where it is in the text when a terminal of another width breaks lines anew, so that the
//! next drawing begins there and erases the rest. The terminal is never asked for anything and
//! keeps its modes: keys stay the shell's, and Ctrl-C stays a signal.
//!
//! The content of a frame is for `progress` to decide.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use std::{panic, thread};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Color as AnstyleColor, Style};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use terminal_size::{Height, Width, terminal_size_of};

/// Columns of a terminal that does not tell.
const COLUMNS_DEFAULT: u16 = 80;
const ROWS_DEFAULT: u16 = 24;

/// The time between two lines of [`show_line_at_times`].
const LINE_INTERVAL: Duration = Duration::from_millis(100);

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const ERASE_REST_OF_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

static DISPLAY: Mutex<Display> = Mutex::new(Display { shown: Shown::Nothing, is_over: false, line_shown: None });

/// The lines at the bottom of the terminal.
struct Display {
    shown: Shown,
    /// A signal to end, or a panic, has come: nothing is shown any more.
    is_over: bool,
    /// When a line was shown last.
    line_shown: Option<Instant>,
}

enum Shown {
    Nothing,
    Line(String),
    Frame(Buffer),
}

/// The columns of the terminal on stdout; `None` if stdout is none.
pub(crate) fn columns_of_stdout() -> Option<usize> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| usize::from(size_of(&stdout)[0]))
}

/// Columns and rows of the terminal on stderr; `None` if stderr is none.
pub(crate) fn size_of_stderr() -> Option<[u16; 2]> {
    let stderr = io::stderr();
    stderr.is_terminal().then(|| size_of(&stderr))
}

/// Whether what is printed on stderr may have colours.
pub(crate) fn stderr_has_colours() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

/// Whether the terminal understands no more than characters and line breaks.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb")
}

fn size_of(stream: impl std::os::fd::AsFd) -> [u16; 2] {
    let known = terminal_size_of(stream).filter(|(Width(columns), Height(rows))| *columns > 0 && *rows > 0);
    known.map_or([COLUMNS_DEFAULT, ROWS_DEFAULT], |(Width(columns), Height(rows))| [columns, rows])
}

/// Shows a frame in the place of what is shown. It is narrower than the terminal, and lower.
pub(crate) fn show_frame(frame: &Buffer) {
    restore_at_ends();
    let mut display = display();
    if display.is_over || frame.area.is_empty() {
        return;
    }
    if matches!(display.shown, Shown::Line(_)) {
        display.erase();
    }
    let before = if let Shown::Frame(before) = &display.shown { Some(before) } else { None };
    write(&drawing(before, frame, stderr_has_colours()));
    display.shown = Shown::Frame(frame.clone());
}

/// Shows a line in the place of what is shown, as far as it fits. No escape sequence is used, so
/// that a terminal of any kind can show it.
pub(crate) fn show_line(text: &str) {
    let mut display = display();
    display.line_shown = Some(Instant::now());
    let Some([columns, _]) = size_of_stderr().filter(|_| !display.is_over) else { return };
    // The last column stays empty: a character there has some terminals begin the next line.
    let text: String = text.chars().take(usize::from(columns).saturating_sub(1)).collect();
    let before = match &display.shown {
        Shown::Line(before) if *before == text => return,
        Shown::Line(before) => before.chars().count(),
        Shown::Frame(_) | Shown::Nothing => {
            display.erase();
            0
        }
    };
    let blanks = before.saturating_sub(text.chars().count());
    write(&format!("\r{text}{:blanks$}", ""));
    display.shown = Shown::Line(text);
}

/// The same for a state that changes more often than anybody can read.
pub(crate) fn show_line_at_times(text: impl FnOnce() -> String) {
    let is_due = display().line_shown.is_none_or(|shown| shown.elapsed() >= LINE_INTERVAL);
    if is_due {
        show_line(&text());
    }
}

/// Prints lines on stderr. They stand above the display, which the next drawing shows again. Styles
/// are left out where they do not belong.
pub(crate) fn print_above(text: &str) {
    let mut display = display();
    display.erase();
    // Without a stderr there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Takes the display away.
pub(crate) fn clear() {
    display().erase();
}

fn display() -> MutexGuard<'static, Display> {
    DISPLAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A terminal that has gone, or is full, does not stop a measurement.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

impl Display {
    fn erase(&mut self) {
        match std::mem::replace(&mut self.shown, Shown::Nothing) {
            Shown::Nothing => {}
            Shown::Line(text) => write(&format!("\r{:length$}\r", "", length = text.chars().count())),
            Shown::Frame(_) => write(&format!("\r{ERASE_BELOW}{SHOW_CURSOR}")),
        }
    }

    /// Takes the lines away for good.
    fn give_up(&mut self) {
        self.erase();
        self.is_over = true;
    }
}

/// Has the terminal restored as soon as a signal comes, whatever the command does then: a second
/// signal may end it at once. A stopped command leaves the terminal as it was, too, and so does a
/// panic.
fn restore_at_ends() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        restore_at_panics();
        // Without these the display is taken away at the end of the trial, as ever.
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGTSTP]) else { return };
        let watch = move || {
            for signal in signals.forever() {
                let mut display = display();
                display.erase();
                display.is_over |= signal != SIGTSTP;
                if matches!(signal, SIGQUIT | SIGTSTP) {
                    // The process ends or stops in here, and what the shell prints stays above the
                    // next drawing.
                    let _ = emulate_default_handler(signal);
                }
            }
        };
        let _ = thread::Builder::new().name("terminal".to_owned()).spawn(watch);
    });
}

/// Has the display taken away before a panic's message, on whatever thread.
fn restore_at_panics() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        match DISPLAY.try_lock() {
            Ok(mut display) => display.give_up(),
            Err(TryLockError::Poisoned(display)) => display.into_inner().give_up(),
            // Another thread draws or, while it draws, this one has panicked.
            Err(TryLockError::WouldBlock) => write(&format!("\r{ERASE_BELOW}{SHOW_CURSOR}")),
        }
        report(information);
    }));
}

/// The bytes that draw a frame: whole lines, and of a frame of the same size those that differ.
fn drawing(before: Option<&Buffer>, frame: &Buffer, is_coloured: bool) -> String {
    let mut text = String::new();
    let height = frame.area.height;
    match before.filter(|before| before.area == frame.area) {
        Some(before) => {
            for y in (0..height).filter(|y| line_of(before, *y) != line_of(frame, *y)) {
                let (down, up) = if y == 0 { Default::default() } else { (format!("\x1b[{y}B"), format!("\x1b[{y}A")) };
                let _ = write!(text, "{down}\r{}{ERASE_REST_OF_LINE}{up}\r", styled(line_of(frame, y), is_coloured));
            }
        }
        None => {
            let lines: Vec<String> = (0..height).map(|y| styled(line_of(frame, y), is_coloured)).collect();
            let joined = lines.join(&format!("{ERASE_REST_OF_LINE}\r\n"));
            let _ = write!(text, "{HIDE_CURSOR}\r{joined}{ERASE_BELOW}\r");
            if height > 1 {
                let _ = write!(text, "\x1b[{}A", height - 1);
            }
        }
    }
    text
}

fn line_of(frame: &Buffer, y: u16) -> &[Cell] {
    let width = usize::from(frame.area.width);
    &frame.content[usize::from(y) * width..][..width]
}

/// The characters of a line up to its last, with escape sequences for their styles.
fn styled(line: &[Cell], is_coloured: bool) -> String {
    let length = line.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |last| last + 1);
    let mut text = String::new();
    let mut style = Style::new();
    for cell in &line[..length] {
        let own = if is_coloured { style_of(cell) } else { Style::new() };
        if own != style {
            let _ = write!(text, "{}{}", style.render_reset(), own.render());
            style = own;
        }
        text.push_str(cell.symbol());
    }
    let _ = write!(text, "{}", style.render_reset());
    text
}

/// The colours of frames are the eight of every terminal.
fn style_of(cell: &Cell) -> Style {
    let colour = match cell.fg {
        Color::Red => Some(AnsiColor::Red),
        Color::Green => Some(AnsiColor::Green),
        Color::Yellow => Some(AnsiColor::Yellow),
        Color::Blue => Some(AnsiColor::Blue),
        Color::Magenta => Some(AnsiColor::Magenta),
        Color::Cyan => Some(AnsiColor::Cyan),
        _ => None,
    };
    let style = Style::new().fg_color(colour.map(AnstyleColor::Ansi));
    let style = if cell.modifier.contains(Modifier::BOLD) { style.bold() } else { style };
    if cell.modifier.contains(Modifier::DIM) { style.dimmed() } else { style }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Stylize;
    use ratatui::text::Line;

    #[track_caller]
    fn check(before: &[Line<'_>], frame: &[Line<'_>], is_coloured: bool, expected: &str) {
        let before = (!before.is_empty()).then(|| Buffer::with_lines(before.to_vec()));
        let drawn = drawing(before.as_ref(), &Buffer::with_lines(frame.to_vec()), is_coloured);
        assert_eq!(drawn.replace('\x1b', "^"), expected);
    }

    #[test]
    fn the_cursor_returns_to_the_upper_left_corner() {
        check(&[], &["a ".into()], true, "^[?25l\ra^[J\r");
        check(&[], &["ab".into(), "  ".into(), "c ".into()], true, "^[?25l\rab^[K\r\n^[K\r\nc^[J\r^[2A");
    }

    #[test]
    fn only_lines_that_differ_are_drawn_again() {
        let before = ["ab".into(), "cd".into(), "ef".into()];
        check(&before, &["ab".into(), "cd".into(), "ef".into()], true, "");
        check(&before, &["xb".into(), "cd".into(), "e ".into()], true, "\rxb^[K\r^[2B\re^[K^[2A\r");
        // Another size is another frame.
        check(&before, &["abc".into()], true, "^[?25l\rabc^[J\r");
    }

    #[test]
    fn colours_can_be_left_out() {
        let line = || Line::from(vec!["a".red(), "b".into(), "c".bold()]);
        check(&[], &[line()], true, "^[?25l\r^[31ma^[0mb^[1mc^[0m^[J\r");
        check(&[], &[line()], false, "^[?25l\rabc^[J\r");
    }
}
