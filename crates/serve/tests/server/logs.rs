//! The logs, over both drivers: what stands in them, and what happens when they cannot be written.

use std::fs;
use std::io::Read;
use std::path::Path;

use thalweg_formats::access_log::{LogLine, LoggedRequest};
use thalweg_serve::{Level, LogFormat, LogTarget, Server, ServerConfig, StartError};

use crate::served::{Served, each_driver, letters, until};

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\nReferer: http://r/\"\r\nUser-Agent: test\r\n\r\n").into_bytes()
}

#[test]
fn each_request_is_a_line_and_a_replay_can_read_it() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access.log");
        let access = LogTarget::File(log.clone());
        let Some(served) = Served::start(driver, |config| config.log.access = Some(access)) else { return };
        let mut requests = get("/letters");
        requests.extend(get("/letters?x=%20\u{e9}"));
        requests.extend(
            b"HEAD /letters HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /missing HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        requests.extend(b"what is this?\r\n\r\n");
        served.exchange(&requests);
        served.stop();
        let lines = lines(&log);
        let read: Vec<LogLine<'_>> = lines.iter().map(|line| LogLine::parse(line.as_bytes()).unwrap()).collect();
        let told: Vec<_> = read.iter().map(|line| line.status).collect();
        // A target is visible ASCII: the second is no request.
        assert_eq!(told, [Some(200), Some(400)], "{driver:?}: {lines:#?}");
        assert_eq!(read[0].host, b"127.0.0.1");
        assert_eq!(read[0].bytes, letters().len() as u64);
        assert_eq!(read[0].referer.unwrap().decode().as_ref(), b"http://r/\"");
        assert_eq!(read[0].agent.unwrap().raw(), b"test");
        let LoggedRequest::Line { method, target, version } = read[0].request else { panic!("{lines:?}") };
        assert_eq!((method, target.raw(), version), ("GET", &b"/letters"[..], Some("HTTP/1.1")));
        assert!(matches!(read[1].request, LoggedRequest::Malformed(_)));
    });
}

#[test]
fn lines_of_many_connections_are_whole_and_none_is_missing() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access.log");
        let change = |config: &mut ServerConfig| {
            config.log.access = Some(LogTarget::File(log.clone()));
            config.log.format = LogFormat::Json;
        };
        let Some(served) = Served::start(driver, change) else { return };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..40 {
                        served.exchange(&get("/letters").repeat(50));
                    }
                });
            }
        });
        served.stop();
        let lines = lines(&log);
        assert_eq!(lines.len(), 8000, "{driver:?}");
        for line in lines {
            assert!(line.starts_with("{\"time\":\"") && line.ends_with("\"agent\":\"test\"}"), "{line}");
        }
    });
}

#[test]
fn a_log_that_was_moved_away_is_made_anew_when_it_is_asked_for() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let (log, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let access = LogTarget::File(log.clone());
        let Some(served) = Served::start(driver, |config| config.log.access = Some(access)) else { return };
        served.exchange(&get("/letters"));
        until("the first line", || lines(&log).len() == 1);
        fs::rename(&log, &old).unwrap();
        served.exchange(&get("/letters"));
        until("a line in the file that was moved", || lines(&old).len() == 2);
        served.server.control().reopen_logs();
        until("a new file", || log.exists());
        served.exchange(&get("/letters"));
        served.stop();
        assert_eq!((lines(&old).len(), lines(&log).len()), (2, 1), "{driver:?}");
    });
}

#[test]
fn a_full_disk_or_a_folder_that_is_gone_does_not_stop_service_and_is_said() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let errors = folder.path().join("error.log");
        let inner = folder.path().join("logs");
        fs::create_dir(&inner).unwrap();
        let log = inner.join("access.log");
        let change = |config: &mut ServerConfig| {
            config.log.access = Some(LogTarget::File(log.clone()));
            config.log.error = LogTarget::File(errors.clone());
        };
        let Some(served) = Served::start(driver, change) else { return };
        fs::remove_dir_all(&inner).unwrap();
        for _ in 0..3 {
            assert!(served.exchange(&get("/letters")).starts_with(b"HTTP/1.1 200 "), "{driver:?}");
        }
        until("a word about it", || lines(&errors).iter().any(|line| line.contains(" lines lost")));
        fs::create_dir(&inner).unwrap();
        served.exchange(&get("/letters"));
        until("a line", || !lines(&log).is_empty());
        served.stop();
        let said = lines(&errors);
        assert!(
            said[0].contains("Z error: cannot write the access log ") && said[0].contains("(os error 2)"),
            "{said:?}"
        );
        assert!(said[1].contains(" can be written again; "), "{said:?}");

        let full = |config: &mut ServerConfig| {
            config.log.access = Some(LogTarget::File("/dev/full".into()));
            config.log.error = LogTarget::File(folder.path().join("full.log"));
            config.log.level = Level::Notice;
        };
        let Some(served) = Served::start(driver, full) else { return };
        for _ in 0..3 {
            assert!(served.exchange(&get("/letters")).starts_with(b"HTTP/1.1 200 "), "{driver:?}");
        }
        served.stop();
        let said = lines(&folder.path().join("full.log"));
        assert!(said.iter().any(|line| line.contains("/dev/full: No space left on device")), "{said:?}");
        // The message about records that could not be written may come later than that.
        assert!(said.iter().any(|line| line.ends_with("notice: stopped")), "{said:?}");
    });
}

#[test]
fn a_reader_that_stalls_costs_lines_and_not_service() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Open for reading and writing, so that neither side waits for the other.
        let mut reader = fs::File::options().read(true).write(true).open(&pipe).unwrap();
        let errors = folder.path().join("error.log");
        let change = |config: &mut ServerConfig| {
            config.log.access = Some(LogTarget::File(pipe.clone()));
            config.log.error = LogTarget::File(errors.clone());
            config.cpus.push(thalweg_sys::affinity::allowed_cpus().unwrap()[0]);
        };
        let Some(served) = Served::start(driver, change) else { return };
        let requests = get("/letters").repeat(50);
        for _ in 0..600 {
            served.exchange(&requests);
        }
        let mut first = [0; 10];
        reader.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"127.0.0.1 ", "{driver:?}");
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        until("pages that come back", || {
            served.exchange(&requests);
            lines(&errors).iter().any(|line| line.contains(" requests are missing "))
        });
        served.stop();
    });
}

#[test]
fn a_log_that_cannot_be_opened_is_said_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ServerConfig::new(folder.path(), ["127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap()]);
    config.log.access = Some(LogTarget::File(folder.path().join("missing/access.log")));
    let error = Server::start(config).expect_err("a log in a folder that does not exist");
    assert!(matches!(error, StartError::Log { .. }), "{error}");
    assert!(error.to_string().contains("missing/access.log: No such file"), "{error}");
}
