//! The suites, the servers, and how they are run.

use std::ffi::OsString;

use thalweg_report::document::SuiteName;

use crate::servers::{ServerSetting, ServerSpec};

/// The suites, the servers, and how they are run.
#[derive(Debug)]
pub struct TableSettings {
    /// The suites in the order of the table.
    pub suites: Vec<TableSuite>,
    /// The servers in the order of the table.
    pub servers: Vec<TableServer>,
    /// The setting that servers are started with; the number of files is that of each suite.
    pub setting: ServerSetting,
    /// CPUs of the client processes.
    pub client_cpus: Vec<usize>,
}

/// A suite of a table.
#[derive(Debug, Clone)]
pub struct TableSuite {
    /// The suite.
    pub name: SuiteName,
    /// Whether it is measured; of one that is not, the table has what was measured before.
    pub is_chosen: bool,
    /// The folder of its tree, beneath the root of the servers.
    pub tree: String,
    /// How many files its tree has.
    pub files: u64,
    /// Further arguments of `thalweg suite NAME URL`.
    pub arguments: Vec<OsString>,
}

/// A server of a table.
#[derive(Debug, Clone)]
pub struct TableServer {
    /// How it is started.
    pub spec: ServerSpec,
    /// Whether it is measured; of one that is not, the table has what was measured before.
    pub is_chosen: bool,
}

impl TableSettings {
    /// The setting that servers are started with for this suite.
    pub(super) fn setting(&self, suite: &TableSuite) -> ServerSetting {
        ServerSetting { files: suite.files, ..self.setting.clone() }
    }

    /// The path of the dynamic requests. All servers have the same load: if one that takes part in
    /// the suite has no such path, none gets these requests.
    pub(super) fn dynamic<'a>(&self, suite: SuiteName, server: &'a ServerSpec) -> Option<&'a str> {
        if suite == SuiteName::Specweb99 && self.without_dynamic(suite).is_empty() {
            server.dynamic.as_deref()
        } else {
            None
        }
    }

    /// The names of the servers that take part in the suite and forward no dynamic requests.
    pub(super) fn without_dynamic(&self, suite: SuiteName) -> Vec<&str> {
        let specs = self.servers.iter().map(|server| &server.spec);
        specs.filter(|spec| spec.takes_part(suite) && spec.dynamic.is_none()).map(|spec| spec.name.as_str()).collect()
    }
}
