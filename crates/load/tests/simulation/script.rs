//! The server's script: what it can do with a request.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sha2::{Digest, Sha256};
use thalweg_load::Check;
use thalweg_measure::Outcome;

use crate::{MS, SECOND, US};

/// How long the content of every good response is.
const CONTENT_BYTES: usize = 48;

/// The content of a good response to request `number`, and to no other.
pub(crate) fn content(number: u64) -> Vec<u8> {
    format!("{number:06} is what was asked for and nothing else -\n").into_bytes()
}

/// One way to treat a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    /// At once.
    Good,
    /// After so many nanoseconds.
    Late(u64),
    /// In so many nanoseconds from one byte to the next.
    Dribbled(u64),
    /// One half of it, and the other so many nanoseconds later.
    Halting(u64),
    /// In chunks.
    Chunked,
    /// Behind interim responses.
    Interim,
    /// In one segment with several of them.
    InterimTogether,
    /// With an announced end of the connection.
    Closing,
    /// Ended by the end of the connection.
    UntilClose,
    /// Before the request's body is there.
    Early,
    /// Another status.
    Status(u16),
    /// Other content than the expected, of the right length.
    WrongContent,
    /// Less content than the expected, in good form.
    WrongLength,
    /// Half of the content and the end of the connection.
    Truncated,
    /// No HTTP.
    Garbage,
    /// More bytes than it says.
    Surplus,
    /// A reset.
    Reset,
    /// The end of the connection.
    HangUp,
    /// Nothing.
    Silence,
    /// Good, and then an end of the connection without notice.
    Abandoning,
    /// Good, with the number of seconds after which the server ends an idle connection, which it
    /// does.
    KeptFor(u64),
    /// Good, and the same once more, so many nanoseconds later.
    Twice(u64),
    /// In HTTP/1.0, which ends the connection where nothing else is said; the length is given all
    /// the same.
    Old,
    /// In HTTP/1.0 that keeps the connection.
    OldKept,
    /// A redirect with this status to the request with that number, in one of several forms.
    Redirect(u16, u64, RedirectForm),
}

/// The form of a redirect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RedirectForm {
    /// As a path, on a connection that is kept.
    Path,
    /// As a URL.
    Url,
    /// With an announced end of the connection.
    Closing,
    /// Ended by the end of the connection.
    UntilClose,
    /// In so many nanoseconds from one byte to the next.
    Dribbled(u64),
    /// To another host.
    OtherHost,
    /// To nowhere.
    NoLocation,
}

/// One thing that the server does for a response.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Close,
    Reset,
}

impl Response {
    /// The outcome of the request, if the response comes in time over a network that breaks
    /// nothing. For responses whose effect lies in later requests it is that of their own request.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Good | Self::Late(_) | Self::Dribbled(_) | Self::Chunked | Self::Interim => Outcome::Good,
            Self::InterimTogether => Outcome::Good,
            Self::Closing | Self::UntilClose | Self::Early | Self::Abandoning | Self::Twice(_) => Outcome::Good,
            Self::Old | Self::OldKept | Self::Halting(_) | Self::KeptFor(_) => Outcome::Good,
            Self::Status(_) | Self::Redirect(..) => Outcome::BadStatus,
            Self::WrongContent | Self::WrongLength => Outcome::FailedCheck,
            Self::Truncated => Outcome::Truncated,
            Self::Garbage | Self::Surplus => Outcome::ProtocolError,
            Self::Reset | Self::HangUp => Outcome::Reset,
            Self::Silence => Outcome::Timeout,
        }
    }

    /// One of those whose outcome depends on nothing but themselves; mostly good ones.
    pub(crate) fn independent(random: &mut Pcg64Mcg) -> Self {
        match random.random_range(0..40) {
            0 => Self::Status(if random.random() { 503 } else { 404 }),
            1 => Self::WrongContent,
            2 => Self::WrongLength,
            3 => Self::Truncated,
            4 => Self::Garbage,
            5 => Self::Surplus,
            6 => Self::Reset,
            7 => Self::HangUp,
            8 => Self::Silence,
            9 | 10 => Self::Dribbled(random.random_range(1..300) * US),
            11 => Self::Halting(random.random_range(0..10 * MS)),
            12 => Self::Chunked,
            13 | 14 => Self::Interim,
            15 => Self::Closing,
            16 => Self::UntilClose,
            26 => Self::Old,
            27 | 28 => Self::OldKept,
            17..=24 => Self::Late(random.random_range(0..30 * MS)),
            25 => Self::Late(random.random_range(0..300 * MS)),
            _ => Self::Good,
        }
    }

    /// Any.
    pub(crate) fn any(random: &mut Pcg64Mcg) -> Self {
        match random.random_range(0..20) {
            0 => Self::Abandoning,
            1 => Self::Twice(if random.random() { 0 } else { random.random_range(0..3 * MS) }),
            2 => Self::Early,
            _ => Self::independent(random),
        }
    }

    /// The steps of it, each with the nanoseconds from the one before; the first from the request's
    /// arrival. `close` says that the connection ends behind it, as the request wants it.
    pub(crate) fn steps(self, number: u64, close: bool) -> Vec<(u64, Step)> {
        let content = content(number);
        let whole = response(200, if close { "Connection: close\r\n" } else { "" }, &content);
        let mut steps = match self {
            Self::Good | Self::Early | Self::Abandoning => vec![(0, Step::Send(whole))],
            Self::Late(ns) => vec![(ns, Step::Send(whole))],
            Self::Dribbled(ns) => whole.iter().map(|&byte| (ns, Step::Send(vec![byte]))).collect(),
            Self::Halting(ns) => {
                let (front, back) = whole.split_at(whole.len() / 2);
                vec![(0, Step::Send(front.to_vec())), (ns, Step::Send(back.to_vec()))]
            }
            Self::Chunked => vec![(0, Step::Send(chunked(&content)))],
            Self::Interim => {
                let continued = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
                let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n".to_vec();
                vec![(0, Step::Send(continued)), (20 * US, Step::Send(hints)), (20 * US, Step::Send(whole))]
            }
            Self::InterimTogether => {
                let interim =
                    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n";
                vec![(0, Step::Send([&interim[..], &whole].concat()))]
            }
            Self::Closing => {
                vec![(0, Step::Send(response(200, "Connection: close\r\n", &content))), (0, Step::Close)]
            }
            Self::Old | Self::OldKept => {
                let kept = if self == Self::OldKept && !close { "Connection: keep-alive\r\n" } else { "" };
                let mut response = response(200, kept, &content);
                response[..8].copy_from_slice(b"HTTP/1.0");
                let end = if kept.is_empty() { Some((0, Step::Close)) } else { None };
                [(0, Step::Send(response))].into_iter().chain(end).collect()
            }
            Self::KeptFor(seconds) => {
                let fields = format!("Keep-Alive: max=100, timeout={seconds}\r\n");
                vec![(0, Step::Send(response(200, &fields, &content))), (seconds * SECOND, Step::Close)]
            }
            Self::UntilClose => {
                let head = b"HTTP/1.1 200 OK\r\n\r\n";
                vec![(0, Step::Send([head, &content[..]].concat())), (30 * US, Step::Close)]
            }
            Self::Redirect(status, to, form) => redirect(status, to, form),
            Self::Status(status) => vec![(0, Step::Send(response(status, "", b"no\n")))],
            Self::WrongContent => {
                let wrong = format!("{number:0CONTENT_BYTES$}");
                vec![(0, Step::Send(response(200, "", wrong.as_bytes())))]
            }
            Self::WrongLength => vec![(0, Step::Send(response(200, "", &content[1..])))],
            Self::Truncated => {
                let half = whole[..whole.len() - CONTENT_BYTES / 2].to_vec();
                vec![(0, Step::Send(half)), (0, Step::Close)]
            }
            Self::Garbage => vec![(0, Step::Send(b"\x16\x03\x01 is no HTTP\r\n\r\n".to_vec()))],
            Self::Surplus => vec![(0, Step::Send([&whole, &b"surplus"[..]].concat()))],
            Self::Reset => vec![(0, Step::Reset)],
            Self::HangUp => vec![(0, Step::Close)],
            Self::Silence => vec![],
            Self::Twice(ns) => vec![(0, Step::Send(whole.clone())), (ns, Step::Send(whole))],
        };
        let ends = matches!(steps.last(), None | Some((_, Step::Close | Step::Reset)));
        if !ends && (close || self == Self::Abandoning) {
            steps.push((0, Step::Close));
        }
        steps
    }
}

fn redirect(status: u16, to: u64, form: RedirectForm) -> Vec<(u64, Step)> {
    let location = match form {
        RedirectForm::NoLocation => String::new(),
        RedirectForm::OtherHost => format!("Location: http://elsewhere/{to}\r\n"),
        RedirectForm::Url => format!("location: HTTP://H:80/x/../{to}#there\r\n"),
        _ => format!("Location: /{to}\r\n"),
    };
    let content = b"it has moved\n";
    match form {
        RedirectForm::Closing => {
            let fields = format!("Connection: close\r\n{location}");
            vec![(0, Step::Send(response(status, &fields, content))), (0, Step::Close)]
        }
        RedirectForm::UntilClose => {
            let head = format!("HTTP/1.1 {status} Reason\r\n{location}\r\n");
            vec![(0, Step::Send([head.as_bytes(), content].concat())), (30 * US, Step::Close)]
        }
        RedirectForm::Dribbled(ns) => {
            response(status, &location, content).iter().map(|&byte| (ns, Step::Send(vec![byte]))).collect()
        }
        _ => vec![(0, Step::Send(response(status, &location, content)))],
    }
}

fn response(status: u16, fields: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} Reason\r\nContent-Length: {}\r\n{fields}\r\n", content.len());
    [head.as_bytes(), content].concat()
}

fn chunked(content: &[u8]) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in content.chunks(10) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// The generator of a request's treatment: the same for the same request, whenever it comes.
pub(crate) fn random_of(seed: u64, number: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number)
}

/// The check that only the content of request `number` passes.
pub(crate) fn whole_check(number: u64) -> Check {
    let (status, length) = (Some(200.into()), Some(CONTENT_BYTES as u64));
    Check { status, length, sha256: Some(Sha256::digest(content(number)).into()), ..Check::default() }
}

/// The same in the words of a check file.
pub(crate) fn whole_check_text(number: u64) -> String {
    let digest: String = Sha256::digest(content(number)).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("status=200,length={CONTENT_BYTES},sha256={digest}")
}
