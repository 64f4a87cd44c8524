//! The progress of a command, while it measures: a live view or one line on the terminal, a stream
//! of JSON, or nothing.
//!
//! | module | owns |
//! | --- | --- |
//! | `view` | the state that a display shows |
//! | `history` | its figures of the last seconds |
//! | `dashboard`, `line` | that state as a frame of some lines, or as one line |
//! | `stream` | the events as lines of JSON |
//!
//! All of it happens on the thread that waits for the load threads. They hand over an interval of
//! their course when it ends, and do nothing else for it.

mod dashboard;
mod history;
mod line;
mod stream;
mod view;

use std::time::{Duration, Instant};

use thalweg_lab::trial::Watcher;
use thalweg_load::{Plan, Snapshot};
use thalweg_measure::Interval;
use thalweg_report::document::Trial;

use self::stream::Stream;
use self::view::{Pause, View};
use crate::exit::remark;
use crate::interrupt::Interrupt;
use crate::options::{ProgressForm, ProgressOptions};
use crate::terminal;

pub(crate) use self::line::trial_line;
pub(crate) use self::stream::result_line;
pub(crate) use self::view::{SearchGoal, Task};

/// The time between two drawings: often enough to look alive, seldom enough to cost nothing.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// The progress of a command.
#[derive(Debug)]
pub(crate) struct Progress {
    interrupt: Interrupt,
    form: Form,
    view: View,
    stream: Stream,
    begun: Option<Instant>,
    drawn: Option<Instant>,
}

/// The form in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    None,
    Line,
    Dashboard,
    Stream,
}

impl Form {
    /// The form that was asked for, as far as stderr is a terminal that can show it.
    fn of(options: &ProgressOptions) -> Self {
        let has_terminal = terminal::size_of_stderr().is_some();
        match options.form() {
            ProgressForm::Json => Self::Stream,
            ProgressForm::None => Self::None,
            ProgressForm::Plain | ProgressForm::Auto if !has_terminal => Self::None,
            ProgressForm::Auto if !terminal::is_dumb() => Self::Dashboard,
            ProgressForm::Plain | ProgressForm::Auto => Self::Line,
        }
    }
}

impl Progress {
    /// The progress of a task, in the form of the options.
    pub(crate) fn new(interrupt: Interrupt, options: &ProgressOptions, task: Task) -> Self {
        let (form, view, stream) = (Form::of(options), View::new(task), Stream::default());
        Self { interrupt, form, view, stream, begun: None, drawn: None }
    }

    /// Takes the display away.
    pub(crate) fn clear(&self) {
        terminal::clear();
    }

    /// Draws the display, if it is time.
    fn draw(&mut self) {
        if !matches!(self.form, Form::Line | Form::Dashboard)
            || self.drawn.is_some_and(|drawn| drawn.elapsed() < DRAW_INTERVAL)
        {
            return;
        }
        self.drawn = Some(Instant::now());
        self.view.spent = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        match (self.form, terminal::size_of_stderr()) {
            (Form::Dashboard, Some(size)) => terminal::show_frame(&dashboard::frame(&self.view, size)),
            (Form::Line, Some(_)) => terminal::show_line(&line::line(&self.view)),
            _ => {}
        }
    }
}

impl Watcher for Progress {
    fn on_trial(&mut self, phase: &str, plan: &Plan) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.view.spent = begun.elapsed();
        self.view.begin_trial(phase, plan);
        if self.form == Form::Stream {
            self.stream.begin_trial(phase, plan);
        }
    }

    fn on_progress(&mut self, seen: Snapshot, _elapsed: Duration) {
        self.view.seen = seen;
        self.draw();
    }

    fn wants_intervals(&self) -> bool {
        self.form != Form::None
    }

    fn on_interval(&mut self, interval: &Interval) {
        match self.form {
            Form::None => {}
            Form::Stream => self.stream.add_interval(interval),
            Form::Line | Form::Dashboard => self.view.add_interval(interval),
        }
    }

    fn on_pause(&mut self, failed_probes: u32, elapsed: Duration, patience: Duration) {
        self.view.pause = Some(Pause { failed_probes, elapsed, patience });
        self.draw();
    }

    fn on_warning(&mut self, warning: &str) {
        remark(&format!("warning: {warning}"));
    }

    fn on_estimate(&mut self, interval95: [f64; 2]) {
        self.view.interval95 = Some(interval95);
        if self.form == Form::Stream {
            self.stream.show_estimate(interval95);
        }
    }

    fn on_judged(&mut self, trial: &Trial) {
        let line = trial_line(trial, self.view.p99_bound());
        match self.form {
            Form::None | Form::Dashboard => {}
            Form::Stream => self.stream.end_trial(trial),
            Form::Line if self.view.task.has_trials => terminal::print_above(&line),
            Form::Line => {}
        }
        self.view.end_trial(trial, line);
    }

    fn wants_stop(&self) -> bool {
        self.interrupt.is_wanted()
    }
}
