//! The reasons that S3 servers give for errors, what helps against them, and whether this side can
//! help itself.

use bytes::Bytes;
use hyper::header::CONTENT_LENGTH;

use super::xml;
use crate::body::Body;
use crate::response::{Answer, S3Problem};

/// Bytes of an error document that are read.
pub(super) const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// Characters of a server's sentence that are kept.
const MESSAGE_CHARS_MAX: usize = 300;

/// A difference of clocks from which on it may be the reason of a refusal, in seconds. The servers'
/// own limit is 15 minutes, and less for signatures from the future.
const CLOCK_MATTERS_S: i64 = 30;

/// A step of this side by which the same request may succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// Sign with the time that the server's answer has shown.
    Time,
    /// Sign with other keys.
    Keys,
    /// Nothing.
    None,
}

/// Reads the reason of an error out of an answer's body, which stays as it was.
pub(super) async fn read(answer: &mut Answer, clock_ahead_s: i64) -> S3Problem {
    let (mut code, mut message) = (String::new(), String::new());
    match answer.body.read_all(PROBLEM_BYTES_MAX).await {
        Ok(Some(bytes)) => {
            // A document that cannot be read tells as much as it can.
            let _ = xml::visit(&bytes, |path, text| match path {
                ["Error", "Code"] | ["ErrorResponse", "Error", "Code"] => code = printable(text),
                ["Error", "Message"] | ["ErrorResponse", "Error", "Message"] => message = printable(text),
                _ => {}
            });
            answer.body = Body::of_bytes(bytes);
        }
        Ok(None) | Err(_) => {
            answer.body = Body::of_bytes(Bytes::new());
            answer.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str().as_bytes()));
            answer.length = Some(0);
        }
    }
    S3Problem { advice: advice(&code), code, message, clock_ahead_s }
}

/// The step that may help; `clock_moved_s` is the correction of the clock since the request was
/// signed.
pub(super) fn remedy(problem: &S3Problem, status: u16, clock_moved_s: i64) -> Remedy {
    if !matches!(status, 400 | 401 | 403) {
        return Remedy::None;
    }
    let is_of_time = match &*problem.code {
        "RequestTimeTooSkewed" | "RequestExpired" => clock_moved_s != 0,
        // A signed URL of another time is refused with AccessDenied, and HEAD has no code at all.
        "" | "AccessDenied" | "SignatureDoesNotMatch" => clock_moved_s.abs() > CLOCK_MATTERS_S,
        _ => false,
    };
    match &*problem.code {
        _ if is_of_time => Remedy::Time,
        "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "InvalidToken" | "InvalidAccessKeyId" => {
            Remedy::Keys
        }
        // The answer to a HEAD may mean that.
        "" => Remedy::Keys,
        _ => Remedy::None,
    }
}

fn advice(code: &str) -> Option<&'static str> {
    Some(match code {
        "RequestTimeTooSkewed" | "RequestExpired" => "set this host's clock by NTP",
        "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => {
            "the temporary keys are no longer valid; have their provider renew them"
        }
        "InvalidAccessKeyId" | "XAdminUserNotFound" => {
            "the server does not know the access key; check key and endpoint"
        }
        "SignatureDoesNotMatch" => "check the secret key and the region",
        "AccessDenied" => {
            "the keys may not read this object, or signed URLs are not allowed; check the bucket's policy"
        }
        "AuthorizationHeaderMalformed" | "AuthorizationQueryParametersError" => "check the region of the bucket",
        "PermanentRedirect" | "TemporaryRedirect" => "the bucket is in another region or at another endpoint",
        "NoSuchBucket" => "check the name of the bucket, and whether the server has it in the path or in the host name",
        "SlowDown" => "the server limits the rate of requests; lower the limit of requests at once",
        _ => return None,
    })
}

fn printable(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_request_is_sent_only_if_it_may_help() {
        let check = |code: &str, status: u16, clock_moved_s: i64, expected: Remedy| {
            let problem = S3Problem { code: code.into(), message: String::new(), advice: None, clock_ahead_s: 0 };
            assert_eq!(remedy(&problem, status, clock_moved_s), expected, "{code} {status} {clock_moved_s}");
        };
        check("RequestTimeTooSkewed", 403, 3600, Remedy::Time);
        check("RequestTimeTooSkewed", 403, 0, Remedy::None);
        check("AccessDenied", 403, -1000, Remedy::Time);
        check("AccessDenied", 403, 10, Remedy::None);
        check("", 403, 1000, Remedy::Time);
        check("", 403, 0, Remedy::Keys);
        check("", 404, 1000, Remedy::None);
        check("ExpiredToken", 400, 0, Remedy::Keys);
        check("ExpiredToken", 403, 1000, Remedy::Keys);
        check("NoSuchKey", 404, 0, Remedy::None);
        check("SlowDown", 503, 1000, Remedy::None);
    }
}
