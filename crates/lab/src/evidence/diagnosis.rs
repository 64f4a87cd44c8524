//! The diagnosis, in the form in which it is judged.

use thalweg_observe::Sample;
use thalweg_report::document::Trial;

use super::observed;
use crate::environment::{Examination, InterfaceFigures, PathFigures, ServerFigures};

/// An overload with the samples beside it.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The trial.
    pub trial: Trial,
    /// The path; `None` for a Unix socket.
    pub path: Option<PathFigures>,
    /// The server's processes, where they run on this host.
    pub server: Option<ServerFigures>,
    /// The interface to the target, if its speed is known.
    pub interface: Option<InterfaceFigures>,
    /// Bits per second that a bulk transfer from the server's host has shown the path to carry, or
    /// why it failed.
    pub path_capacity: Option<Result<f64, String>>,
    /// Goodput with twice the connections, if all were busy and the target was as fast as ever.
    pub on_more_connections: Option<f64>,
}

impl Diagnosis {
    pub(super) fn new(trial: Trial, examination: Examination) -> Self {
        let Examination { path, server, interface } = examination;
        Self { trial, path, server, interface, path_capacity: None, on_more_connections: None }
    }

    /// Adds the server as an observer on its host has seen it during the trial. What is known of a
    /// server on this host stays: it was sampled more often.
    pub fn observe(&mut self, sample: &Sample) {
        if self.server.is_none() {
            self.server = observed::server(sample);
        }
    }
}
