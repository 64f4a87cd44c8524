//! A session in httperf's `--wsesslog` format.

use std::io::Write;

use crate::method::LoggedMethod;
use crate::settings::{Contents, Settings};
use crate::summary::Summary;

/// A request of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Seconds since some time that the session's calls have in common.
    pub(crate) at_s: i32,
    pub(crate) method: LoggedMethod,
    pub(crate) target: &'a str,
}

/// The longest line of a session file that httperf 0.9 reads, less a margin for its own words.
const LINE_BYTES_MAX: usize = 9_900;

/// Whether httperf 0.9 reads the line of such a call.
pub(crate) fn fits(target: &str, method: LoggedMethod, contents: Option<&Contents>) -> bool {
    let contents = contents.filter(|_| method.has_body()).map_or(0, |contents| contents.quoted().len());
    target.len() + contents <= LINE_BYTES_MAX
}

/// Appends a session, whose calls come in the order of their times, and a blank line.
pub(crate) fn write_session(calls: &[Call<'_>], settings: &Settings, out: &mut Vec<u8>, summary: &mut Summary) {
    let mut rest = calls;
    while let Some(page) = rest.first() {
        let is_part = |call: &&Call<'_>| i64::from(call.at_s) - i64::from(page.at_s) <= i64::from(settings.burst_s);
        let length = rest.iter().take_while(is_part).count();
        let (burst, later) = rest.split_at(length);
        let last_s = burst.last().unwrap_or(page).at_s;
        let think_s = later.first().map(|next| think(last_s.abs_diff(next.at_s), settings, summary));
        for (number, call) in burst.iter().enumerate() {
            if number > 0 {
                out.push(b'\t');
            }
            write_call(call, think_s.filter(|_| number == 0), settings, out);
        }
        summary.bursts += 1;
        rest = later;
    }
    out.push(b'\n');
    summary.sessions += 1;
    summary.requests += calls.len() as u64;
    summary.session_requests_max = summary.session_requests_max.max(calls.len() as u64);
}

fn think(logged_s: u32, settings: &Settings, summary: &mut Summary) -> u32 {
    let think_s = settings.think_max_s.map_or(logged_s, |max| logged_s.min(max));
    summary.thinks_shortened += u64::from(think_s < logged_s);
    summary.thinks.add(think_s);
    think_s
}

fn write_call(call: &Call<'_>, think_s: Option<u32>, settings: &Settings, out: &mut Vec<u8>) {
    out.extend_from_slice(call.target.as_bytes());
    // Writing to a vector cannot fail.
    if call.method != LoggedMethod::Get {
        let _ = write!(out, " method={}", call.method.name());
    }
    if let Some(contents) = settings.contents.as_ref().filter(|_| call.method.has_body()) {
        let _ = write!(out, " contents={}", contents.quoted());
    }
    if let Some(think_s) = think_s {
        let _ = write!(out, " think={think_s}");
    }
    out.push(b'\n');
}
