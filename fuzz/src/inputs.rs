//! Files that a user names: session files and access logs.

use std::borrow::Cow;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thalweg_formats::access_log::{LogLine, LoggedRequest};
use thalweg_load::{
    CallText, InputError, OpenLog, ReadError, Recording, ReplayHead, ReplayOrders, SessionFile, load_sessions,
    read_sessions,
};

use crate::lines::split_line;

/// `toml` or anything else in the first line, which is the format; a session file behind it.
pub fn sessions(data: &[u8]) {
    let (format, text) = split_line(data);
    let file = if format == b"toml" { "dir/s.toml" } else { "s" };
    let read_body = |path: &Path| {
        assert!(path.is_absolute() || path.starts_with("dir"), "{path:?} is outside the folder's paths");
        if path.ends_with("missing") { Err("cannot be read".to_owned()) } else { Ok(b"body".to_vec()) }
    };
    let read = read_sessions(file, text, read_body);
    check_loaded(&read, file, text, read_body);
    match read {
        Ok(sessions) => {
            check_sessions(&sessions);
            // httperf's format in httperf's words gives the same sessions.
            if file == "s" {
                let written = write_sessions(&sessions);
                let again = read_sessions(file, &written, |_| Err(String::new())).expect("what was written is read");
                assert_eq!(without_places(again), without_places(sessions), "{}", String::from_utf8_lossy(&written));
            }
        }
        Err(error) => check_place(text, error.line, error.column),
    }
}

/// Read one by one, the sessions are those of the whole file; or what is wrong is the same.
fn check_loaded(
    whole: &Result<SessionFile<'_>, InputError>,
    file: &str,
    text: &[u8],
    read_body: impl FnMut(&Path) -> Result<Vec<u8>, String>,
) {
    let mut targets = Vec::new();
    let loaded = load_sessions(file, text, read_body, |call| {
        targets.push((call.target.to_string(), call.line, call.column));
        Ok::<_, String>(targets.len() as u32 - 1)
    });
    match (whole, loaded) {
        (Ok(whole), Ok(loaded)) => {
            assert_eq!(whole.sessions.len(), loaded.len());
            for (number, session) in whole.sessions.iter().enumerate() {
                let bursts = loaded.bursts(number);
                assert_eq!(session.bursts.len(), bursts.len());
                for (burst, place) in session.bursts.iter().zip(bursts) {
                    assert_eq!(burst.think, loaded.think(place));
                    let calls = loaded.calls(place).iter().map(|&call| targets[call as usize].clone());
                    assert!(calls.eq(burst.calls.iter().map(|call| (call.target.to_string(), call.line, call.column))));
                }
            }
        }
        (Err(whole), Err(ReadError::Input(loaded))) => assert_eq!(*whole, loaded),
        (whole, loaded) => panic!("as a whole {whole:?}, one by one {loaded:?}"),
    }
}

fn check_sessions(file: &SessionFile<'_>) {
    assert!(!file.sessions.is_empty());
    for session in &file.sessions {
        assert!(!session.bursts.is_empty());
        for burst in &session.bursts {
            assert!(!burst.calls.is_empty());
            assert!(burst.think.is_none_or(|think| think < Duration::from_secs(200 * 86_400)));
            for call in &burst.calls {
                assert!(!call.target.is_empty() && call.target.bytes().all(|byte| byte.is_ascii_graphic()));
                assert!(call.line > 0 && call.column > 0);
            }
        }
    }
}

/// Writes sessions in httperf's format, with all of a body in quotes.
fn write_sessions(file: &SessionFile<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for session in &file.sessions {
        for burst in &session.bursts {
            for (index, call) in burst.calls.iter().enumerate() {
                text.extend_from_slice(if index == 0 { b"" } else { b"\t" });
                text.extend_from_slice(format!("{} method={}", call.target, call.method).as_bytes());
                if let Some(think) = burst.think.filter(|_| index == 0) {
                    text.extend_from_slice(
                        format!(" think={}.{:09}", think.as_secs(), think.subsec_nanos()).as_bytes(),
                    );
                }
                text.extend_from_slice(b" contents=\"");
                for &byte in &*call.body {
                    match byte {
                        b'\n' => text.extend_from_slice(b"\\n"),
                        b'"' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
                        _ => text.push(byte),
                    }
                }
                text.extend_from_slice(b"\"\n");
            }
        }
        text.push(b'\n');
    }
    text
}

/// The same calls, wherever they stood.
fn without_places(mut file: SessionFile<'_>) -> SessionFile<'_> {
    let calls = file.sessions.iter_mut().flat_map(|session| &mut session.bursts).flat_map(|burst| &mut burst.calls);
    for CallText { body, line, column, .. } in calls {
        *body = Cow::Owned(body.to_vec());
        (*line, *column) = (0, 0);
    }
    file
}

/// An access log.
pub fn log(data: &[u8]) {
    for line in data.split(|&byte| byte == b'\n') {
        match LogLine::parse(line) {
            Ok(logged) => check_logged(line, &logged),
            Err(fault) => assert!(fault.at <= line.len() && !fault.expected.is_empty()),
        }
    }
    // The first line decides, so that most inputs get to an end.
    let text: Arc<[u8]> = data.into();
    let open: OpenLog = Box::new(move || Ok(Box::new(Cursor::new(text.clone()))));
    let head = ReplayHead { authority: "h", version: thalweg_wire::Version::Http11, fields: &[] };
    match Recording::scan("log", open, &ReplayOrders::at_speed(2.0), &head, None) {
        Ok(recording) => check_replay(&recording),
        Err(ReadError::Input(error)) => check_place(data, error.line, error.column),
        Err(ReadError::Io(error)) => panic!("memory can be read: {error}"),
    }
}

/// All requests that were announced come, in the order of their times, the first one at once.
fn check_replay(recording: &Recording) {
    let (mut count, mut last) = (0, 0);
    let played = recording.for_each(|offset_ns, method, target| {
        assert!(matches!(method, "GET" | "HEAD" | "OPTIONS" | "DELETE"));
        assert!(!target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(offset_ns >= last && (count > 0 || offset_ns == 0));
        (count, last) = (count + 1, offset_ns);
    });
    played.expect("memory can be read again");
    assert_eq!(count, recording.summary().requests);
}

fn check_logged(line: &[u8], logged: &LogLine<'_>) {
    assert!(!logged.host.is_empty() && line.starts_with(logged.host));
    assert!(logged.status.is_none_or(|status| status < 1000));
    if let LoggedRequest::Line { method, target, version } = logged.request {
        assert!(!method.is_empty() && !target.raw().is_empty() && !target.raw().contains(&b' '));
        assert!(version.is_none_or(|version| version.starts_with("HTTP/")));
        assert!(target.decode().len() <= target.raw().len(), "escapes are longer than what they stand for");
    }
    for field in [logged.referer, logged.agent].into_iter().flatten() {
        assert!(!field.raw().is_empty() && field.decode().len() <= field.raw().len());
    }
}

/// Every error is about a place that the file has, or the one behind its end.
fn check_place(text: &[u8], line: usize, column: usize) {
    let lines: Vec<_> = text.split(|&byte| byte == b'\n').collect();
    assert!((1..=lines.len()).contains(&line), "line {line} of {}", lines.len());
    assert!((1..=lines[line - 1].len() + 1).contains(&column), "column {column} of line {line}");
}
