//! The document that is written from the transcripts.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::case::{Case, Group, Step};
use super::frames::notation;

/// The version of nginx whose responses the cases state.
pub(crate) const NGINX: &str = "nginx 1.22.1";

const INTRODUCTION: &str = "\
# Conformance

Responses of `thalweg serve` to requests as bytes, with the standard that requires them. Each row is a transcript in
[`tests/conformance`](../tests/conformance/README.md), which the end-to-end tests play over both drivers, with a client that shares
no code with the server; this table is generated from them. A response is the status of each response, and whether the connection was kept
or closed after it. `same` means a response that is equally valid. ";

/// Before the tables of transcripts of frames.
const FRAMES: &str = "
# Conformance of HTTP/2

The same for frames of HTTP/2: each row is a transcript in [`tests/conformance/http2`](../tests/conformance/http2/README.md), which the
end-to-end tests play over both drivers, without TLS. The answer is the status of each response, the codes of RST_STREAM and GOAWAY, and
whether the connection was kept or closed after it. In the last table the roles are exchanged: `thalweg run` makes a request, and the
answer is its outcome; after an error of the connection the client closes it without GOAWAY, which RFC 9113, 5.4.1 recommends.
[h2spec](http.md#http2), a test suite by others, passes too.
";

/// Holds the document against the transcripts, or writes it if `THALWEG_WRITE` is set.
pub(crate) fn check(groups: &[Group], of_frames: &[notation::Group]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let document = document(groups) + &frames(of_frames);
    if std::env::var_os("THALWEG_WRITE").is_some() {
        fs::write(&path, &document).expect("the document can be written");
    }
    let has = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        has == document,
        "docs/conformance.md is not what the transcripts say; write it: \
         THALWEG_WRITE=1 cargo test -p thalweg-cli --test end_to_end conformance"
    );
}

fn document(groups: &[Group]) -> String {
    let cases = groups.iter().map(|group| group.cases.len()).sum::<usize>();
    let differences = groups.iter().flat_map(|group| &group.cases).filter(|case| case.nginx.is_some()).count();
    let mut text = String::from(INTRODUCTION);
    let write = &mut text;
    write_line(
        write,
        &format!(
            "The same requests were sent to {NGINX}, configured in the same way; of {cases} cases it answers {differences} differently, for the \
             given reasons.",
        ),
    );
    for group in groups {
        write_line(write, &format!("\n## {}\n", group.title));
        write_line(write, "| case | standard | response | nginx |\n| --- | --- | --- | --- |");
        for case in &group.cases {
            let nginx = match &case.nginx {
                None => "same".to_owned(),
                Some(difference) => format!("{}: {}", difference.answer, difference.because),
            };
            let answer = case.note.as_ref().map_or_else(|| answer(case), |note| format!("{}: {note}", answer(case)));
            let row = [&case.title, &case.section, &answer, &nginx].map(|cell| cell.replace('|', "\\|"));
            write_line(write, &format!("| {} |", row.join(" | ")));
        }
    }
    text
}

fn frames(groups: &[notation::Group]) -> String {
    let mut text = String::from(FRAMES);
    for group in groups {
        write_line(&mut text, &format!("\n## {}\n", group.title));
        write_line(&mut text, "| case | standard | answer |\n| --- | --- | --- |");
        for case in &group.cases {
            let answer = case.answer();
            let answer = case.note.as_ref().map_or_else(|| answer.clone(), |note| format!("{answer}: {note}"));
            let row = [&case.title, &case.section, &answer].map(|cell| cell.replace('|', "\\|"));
            write_line(&mut text, &format!("| {} |", row.join(" | ")));
        }
    }
    text
}

fn write_line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string can be written to");
}

fn answer(case: &Case) -> String {
    let responses = case.steps.iter().filter_map(|step| match step {
        Step::Receive(expected) => Some(expected.statuses[0].to_string()),
        _ => None,
    });
    format!("{} {}", responses.collect::<Vec<_>>().join(" "), case.afters[0].name())
}
