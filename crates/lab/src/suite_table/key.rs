//! The key of a cell: all that it depends on and that can change between two runs.

use std::fmt::Write as _;
use std::fs;

use sha2::{Digest, Sha256};

use super::settings::{TableSettings, TableSuite};
use crate::servers::ServerSpec;

/// SHA-256 of the suite with its settings, of the server with its configurations and its version,
/// and of this program's version, in hexadecimal digits.
pub(super) fn key(
    settings: &TableSettings,
    suite: &TableSuite,
    server: &ServerSpec,
    server_version: Option<&str>,
) -> String {
    let setting = settings.setting(suite);
    let templates: Vec<String> = server
        .templates
        .iter()
        .map(|template| fs::read_to_string(setting.here.join(template)).unwrap_or_default())
        .collect();
    let of_suite = (suite.name, &suite.tree, suite.files, &suite.arguments, &settings.client_cpus);
    let of_server = (&server.command, &templates, &server.url, settings.dynamic(suite.name, server), server_version);
    let of_setting = (&setting.cpus, setting.descriptors, env!("CARGO_PKG_VERSION"));
    let parts = format!("{of_suite:?} {of_server:?} {of_setting:?}");
    Sha256::digest(parts).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use thalweg_report::document::SuiteName;

    use super::super::settings::TableServer;
    use super::*;
    use crate::servers::ServerSetting;

    fn spec(name: &str, dynamic: Option<&str>) -> ServerSpec {
        ServerSpec {
            name: name.into(),
            command: "one {port}".into(),
            version: None,
            templates: Vec::new(),
            url: "http://127.0.0.1:{port}/".into(),
            dynamic: dynamic.map(Into::into),
            suites: None,
            start_seconds: 15,
        }
    }

    fn suite(name: SuiteName) -> TableSuite {
        TableSuite { name, is_chosen: true, tree: "tree".into(), files: 10, arguments: vec!["--seed=1".into()] }
    }

    fn settings(servers: &[ServerSpec]) -> TableSettings {
        TableSettings {
            suites: SuiteName::ALL.map(suite).to_vec(),
            servers: servers.iter().map(|spec| TableServer { spec: spec.clone(), is_chosen: true }).collect(),
            setting: ServerSetting {
                root: "/srv".into(),
                here: "/srv".into(),
                cpus: vec![0],
                descriptors: 20_000,
                files: 0,
                origin: Some(8090),
                program: "thalweg".into(),
            },
            client_cpus: vec![1],
        }
    }

    fn of(suite_name: SuiteName, spec: &ServerSpec, others: &[ServerSpec], version: &str) -> String {
        let servers: Vec<ServerSpec> = [spec.clone()].into_iter().chain(others.iter().cloned()).collect();
        key(&settings(&servers), &suite(suite_name), spec, Some(version))
    }

    #[test]
    fn a_key_changes_with_what_the_cell_depends_on_alone() {
        let one = spec("one", None);
        let before = of(SuiteName::AcmeSmall, &one, &[], "1.0");
        let of_one = |one: ServerSpec| of(SuiteName::AcmeSmall, &one, &[], "1.0");
        assert_eq!(before, of_one(ServerSpec { start_seconds: 99, ..one.clone() }));
        assert_eq!(before, of_one(ServerSpec { suites: Some(vec![SuiteName::AcmeSmall]), ..one.clone() }));
        assert_eq!(before, of_one(ServerSpec { version: Some("one -v".into()), ..one.clone() }));
        assert_eq!(before, of_one(spec("one", Some("/dynamic"))));
        assert_ne!(before, of_one(ServerSpec { command: "two {port}".into(), ..one.clone() }));
        assert_ne!(before, of(SuiteName::AcmeSmall, &one, &[], "1.1"));
        assert_ne!(before, of(SuiteName::AcmeBig, &one, &[], "1.0"));
    }

    #[test]
    fn dynamic_requests_are_made_if_all_servers_take_them() {
        let with = spec("with", Some("/dynamic"));
        let alone = of(SuiteName::Specweb99, &with, &[], "1");
        assert_eq!(alone, of(SuiteName::Specweb99, &with, &[spec("other", Some("/x"))], "1"));
        assert_ne!(alone, of(SuiteName::Specweb99, &with, &[spec("without", None)], "1"));
        let absent = ServerSpec { suites: Some(vec![SuiteName::AcmeBig]), ..spec("absent", None) };
        assert_eq!(alone, of(SuiteName::Specweb99, &with, &[absent], "1"));
        let settings = settings(std::slice::from_ref(&with));
        assert_eq!(settings.dynamic(SuiteName::Specweb99, &with), Some("/dynamic"));
        assert_eq!(settings.dynamic(SuiteName::Heanet, &with), None);
    }
}
