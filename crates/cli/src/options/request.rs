//! The options that describe the requests of a load and their order, for the commands that choose
//! both. A replay does not: its log has them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thalweg_load::{Pick, Spacing};

use super::headings::{CONNECTIONS, REQUESTS};
use super::values::{positive_calls, whole};

/// Options on requests.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = REQUESTS)]
pub(crate) struct RequestOptions {
    /// Request method [default: GET; POST with --body]
    #[arg(short, long, short_alias = 'X', value_name = "METHOD", value_parser = parse_method)]
    pub method: Option<String>,
    /// Request body: text, @FILE, or @- for stdin
    #[arg(long, value_name = "BODY", value_parser = parse_body)]
    pub body: Option<Body>,
    /// Line of curl with the URL and the request
    ///
    /// As a browser copies it ("Copy as cURL"), in one argument: 'curl -H "A: b" https://...'.
    /// Options beside it take precedence. docs/workloads.md lists the options of curl that are
    /// understood.
    #[arg(long, value_name = "LINE")]
    pub curl: Option<String>,
    /// File of URLs or paths, one per line; - for stdin
    ///
    /// All are on the target's host, each perhaps with a weight and a check (docs/workloads.md).
    #[arg(long, value_name = "FILE")]
    pub urls: Option<PathBuf>,
    /// Order of the URLs: sequential, random, by rank with zipf or zipf:EXPONENT, or weighted
    #[arg(long, value_name = "HOW", default_value = "sequential", requires = "urls", hide_short_help = true)]
    pub pick: Pick,
    /// Requests per connection; 1 closes after each
    ///
    /// [default: as many as the server allows; with --conn-rate 1]
    #[arg(long, value_name = "N", value_parser = positive_calls, hide_short_help = true, help_heading = CONNECTIONS)]
    pub calls: Option<u32>,
    /// Distribution of open-loop arrivals in time
    #[arg(long, value_name = "HOW", default_value = "constant", hide_short_help = true)]
    pub arrivals: ArrivalsOption,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole, hide_short_help = true)]
    pub seed: u64,
}

impl Default for RequestOptions {
    /// The options of a command line that names none of them.
    fn default() -> Self {
        Self {
            method: None,
            body: None,
            curl: None,
            urls: None,
            pick: Pick::Sequential,
            calls: None,
            arrivals: ArrivalsOption::Constant,
            seed: 1,
        }
    }
}

impl RequestOptions {
    /// The method: with a body POST, unless another one is given.
    pub(crate) fn method(&self) -> &str {
        self.method.as_deref().unwrap_or(if self.body.is_some() { "POST" } else { "GET" })
    }
}

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The content of this file; `-` is standard input.
    File(PathBuf),
}

/// How arrivals lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsOption {
    /// Evenly spaced
    Constant,
    /// Independent of one another, like requests of many users
    Poisson,
}

impl From<ArrivalsOption> for Spacing {
    fn from(option: ArrivalsOption) -> Self {
        match option {
            ArrivalsOption::Constant => Self::Constant,
            ArrivalsOption::Poisson => Self::Poisson,
        }
    }
}

fn parse_body(text: &str) -> Result<Body, String> {
    match text.strip_prefix('@') {
        None => Ok(Body::Bytes(text.as_bytes().to_vec())),
        Some("") => Err("expected the name of a file behind @, or @- for standard input".to_owned()),
        Some(file) => Ok(Body::File(file.into())),
    }
}

/// No method is a number, and `-m 10` is the streams of h2load.
fn parse_method(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("expected a method such as POST; h2load's -m {text} is --streams {text}"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        request: RequestOptions,
    }

    #[test]
    fn the_defaults_are_those_of_an_empty_command_line() {
        let parsed = Arguments::try_parse_from(["thalweg"]).map(|arguments| arguments.request);
        let parsed = parsed.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{parsed:?}"), format!("{:?}", RequestOptions::default()));
    }

    /// It was sent as a GET with a body, which servers ignore or refuse.
    #[test]
    fn a_body_without_a_method_is_posted() {
        let check = |arguments: &[&str], expected: &str| {
            let parsed = Arguments::try_parse_from([&["thalweg"], arguments].concat());
            let parsed = parsed.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(parsed.request.method(), expected, "{arguments:?}");
        };
        check(&[], "GET");
        check(&["--body", "a=b"], "POST");
        check(&["--body", ""], "POST");
        check(&["--body", "a=b", "-m", "GET"], "GET");
        check(&["--body", "a=b", "-X", "PUT"], "PUT");
    }

    #[test]
    fn bodies_are_texts_or_files() {
        assert_eq!(parse_body("a=b"), Ok(Body::Bytes(b"a=b".to_vec())));
        assert_eq!(parse_body("@-"), Ok(Body::File("-".into())));
        assert_eq!(parse_body("@a/b"), Ok(Body::File("a/b".into())));
        assert!(parse_body("@").is_err());
        assert!(parse_method("10").unwrap_err().contains("--streams 10") && parse_method("M-SEARCH").is_ok());
    }
}
