//! A line written as Apache writes it is read back as the same.
#![forbid(unsafe_code)]

use proptest::prelude::*;
use thalweg_formats::access_log::{LogLine, LoggedRequest};
use thalweg_wire::date;

/// A text as Apache writes it into its log.
fn escaped(text: &[u8]) -> String {
    let escape = |&byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    text.iter().map(escape).collect()
}

proptest! {
    #[test]
    fn log_lines(
        user in "[a-z\\[\\]\" ]{0,8}[a-z]",
        second in 0..=date::SECOND_MAX,
        target in prop::collection::vec(any::<u8>(), 1..30),
        status in 0u16..1000,
        bytes in any::<u64>(),
        agent in prop::collection::vec(any::<u8>(), 2..30),
    ) {
        let text = String::from_utf8_lossy(&date::imf_fixdate(second)).into_owned();
        let [_, day, month, year, clock, _] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(TestCaseError::fail("no date"));
        };
        let (request, named) = (escaped(&target), escaped(&agent));
        let line = format!(
            "::1 - {user} [{day}/{month}/{year}:{clock} +0000] \"PUT {request} HTTP/1.1\" {status} {bytes} \"-\" \"{named}\""
        );
        let read = LogLine::parse(line.as_bytes()).map_err(|fault| TestCaseError::fail(format!("{line}: {fault:?}")))?;
        prop_assert_eq!(read.host, b"::1");
        prop_assert_eq!(read.user, Some(user.as_bytes()));
        prop_assert_eq!((read.time_unix_s, read.status, read.bytes), (second, Some(status), bytes));
        prop_assert_eq!(read.agent.map(|agent| agent.decode().into_owned()), Some(agent));
        match read.request {
            LoggedRequest::Line { method, target: logged, version } => {
                prop_assert_eq!((method, version), ("PUT", Some("HTTP/1.1")));
                prop_assert_eq!(logged.decode().into_owned(), target);
            }
            LoggedRequest::Malformed(logged) => {
                prop_assert!(target.contains(&b' '));
                prop_assert_eq!(logged.decode().into_owned(), [b"PUT ", target.as_slice(), b" HTTP/1.1"].concat());
            }
        }
    }
}
