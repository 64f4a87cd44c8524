//! Figures and settings as the page writes them.
//!
//! Rounding is [`thalweg_units::display`]'s part; here it is only decided which of its forms stands
//! where.

use std::time::Duration;

use thalweg_measure::LoopKind;
use thalweg_measure::limit::Limit;
use thalweg_units::display;

/// Stands where there is no figure.
pub(super) const NONE: &str = "–";

/// A time given in microseconds: `310 µs`, `1.24 ms`.
pub(super) fn time_us(us: f64) -> String {
    with_micro_sign(display::time((us * 1000.0).round() as u64))
}

/// The same of a figure that may have a limit, to which it is not rounded then.
pub(super) fn time_us_within(us: f64, bound: Option<Duration>) -> String {
    with_micro_sign(display::time_within(us * 1000.0, bound))
}

/// A round time without needless zeros, for axes and limits: `50 ms`.
pub(super) fn round_time_us(us: f64) -> String {
    exact_time(Duration::from_nanos((us * 1000.0).round() as u64))
}

/// A length of time in seconds: `30 s`, `0.5 s` as `500 ms`.
pub(super) fn seconds(seconds: f64) -> String {
    // A measured length has more digits than a reader needs.
    let ms = (seconds * 1000.0).round() as u64;
    let ms = if ms >= 10_000 { (ms + 50) / 100 * 100 } else { ms };
    exact_time(Duration::from_millis(ms))
}

/// A rate in full: `41,237`. Bounds of a search lie a few percent apart, so rounding to three
/// digits would blur them.
pub(super) fn rate(per_second: f64) -> String {
    if per_second.is_finite() && per_second >= 100.0 {
        return display::count(per_second.round() as u64);
    }
    display::rate(per_second).trim_end_matches("/s").to_owned()
}

/// A rate with its unit: `41,237/s`.
pub(super) fn per_second(rate_per_second: f64) -> String {
    format!("{}/s", rate(rate_per_second))
}

/// A limit in words: `p99 < 50 ms`. What is not a limit as the command line knows it is shown as it
/// is.
pub(super) fn limit(text: &str) -> String {
    let Ok(limit) = text.parse::<Limit>() else {
        return text.to_owned();
    };
    if limit == Limit::NO_ERRORS {
        return "no errors".to_owned();
    }
    match limit {
        Limit::ResponseTime { statistic, inclusive, bound } => {
            format!("{statistic} {} {}", below(inclusive), exact_time(bound))
        }
        Limit::Errors { inclusive, share } => format!("errors {} {}", below(inclusive), display::percent(share)),
        Limit::KbitPerConnection { inclusive, kbit } => {
            format!("{} {kbit} kbit/s per connection", if inclusive { "≥" } else { ">" })
        }
        Limit::Figure { figure, inclusive, bound } if figure.is_amount() => {
            let name = figure.to_string().replace('_', " ");
            format!("{name} {} {}", if inclusive { "≥" } else { ">" }, figure.words(bound))
        }
        Limit::Figure { figure, inclusive, bound } => {
            format!("{} {} {}", figure.to_string().replace('_', " "), below(inclusive), figure.words(bound))
        }
    }
}

/// All limits in words, joined for a sentence; empty if there are none.
pub(super) fn limits(texts: &[String]) -> String {
    enumerated(&texts.iter().map(|text| limit(text)).collect::<Vec<_>>())
}

/// The first limit on the response time: in words, and the bound in microseconds.
pub(super) fn response_time_limit(texts: &[String]) -> Option<(String, f64)> {
    texts.iter().find_map(|text| match text.parse() {
        Ok(Limit::ResponseTime { bound, .. }) => Some((limit(text), bound.as_nanos() as f64 / 1000.0)),
        _ => None,
    })
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn enumerated(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `text` with spaces that no line breaks at between a number and its unit, and around a
/// comparison.
pub(super) fn unbroken(text: &str) -> String {
    const UNITS: [&str; 7] = ["ns", "µs", "ms", "s", "min", "h", "%"];
    const COMPARISONS: [&str; 4] = ["<", "≤", ">", "≥"];
    let mut joined = String::with_capacity(text.len());
    let mut before = "";
    for word in text.split(' ') {
        let is_number = before.ends_with(|c: char| c.is_ascii_digit());
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', ':', '.', ')']));
        let keeps = (is_number && is_unit) || COMPARISONS.contains(&word) || COMPARISONS.contains(&before);
        if !joined.is_empty() {
            joined.push(if keeps { '\u{a0}' } else { ' ' });
        }
        joined.push_str(word);
        before = word;
    }
    joined
}

/// A clause as a sentence of its own.
pub(super) fn as_sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// `1 trial`, `2 trials`.
pub(super) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", display::count(n), if n == 1 { "" } else { "s" })
}

/// A number of things.
pub(super) fn count(n: u64) -> String {
    display::count(n)
}

/// The loop in words.
pub(super) fn loop_kind(kind: LoopKind) -> &'static str {
    match kind {
        LoopKind::Open => "open loop",
        LoopKind::Closed => "closed loop",
    }
}

/// An RFC 3339 time in UTC as people read it: `2026-03-14 15:09:26 UTC`. Any other text is shown as
/// it is.
pub(super) fn date(rfc3339: &str) -> String {
    let readable = || {
        let (day, time) = rfc3339.strip_suffix('Z')?.split_once('T')?;
        let whole_seconds = time.split('.').next()?;
        Some(format!("{day} {whole_seconds} UTC"))
    };
    readable().unwrap_or_else(|| rfc3339.to_owned())
}

/// A command line that a POSIX shell takes apart into exactly these arguments again.
pub(super) fn shell_command(arguments: &[String]) -> String {
    arguments.iter().map(|argument| shell_quoted(argument)).collect::<Vec<_>>().join(" ")
}

fn shell_quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

fn below(inclusive: bool) -> &'static str {
    if inclusive { "≤" } else { "<" }
}

fn exact_time(time: Duration) -> String {
    with_micro_sign(display::exact_time_spaced(time))
}

/// A terminal may lack the sign; a page does not.
fn with_micro_sign(text: String) -> String {
    text.strip_suffix(" us").map(|number| format!("{number} µs")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_readers() {
        assert_eq!(time_us(310.2), "310 µs");
        assert_eq!(time_us(0.0), "0 ns");
        assert_eq!(round_time_us(50_000.0), "50 ms");
        assert_eq!(seconds(10.0004), "10 s");
        assert_eq!(seconds(0.5), "500 ms");
        assert_eq!(rate(41_237.4), "41,237");
        assert_eq!(rate(0.5), "0.500");
        assert_eq!(rate(f64::NAN), "NaN");
        assert_eq!(date("2026-03-14T15:09:26.535897Z"), "2026-03-14 15:09:26 UTC");
        assert_eq!(date("yesterday"), "yesterday");
        assert_eq!(counted(1, "trial"), "1 trial");
        assert_eq!(counted(1200, "trial"), "1,200 trials");
    }

    #[test]
    fn figures_stay_on_one_line() {
        let sentence = "It takes 41,237 requests/s with p99 < 50 ms, 99.9 % of them.";
        let expected = "It takes 41,237 requests/s with p99\u{a0}<\u{a0}50\u{a0}ms, 99.9\u{a0}% of them.";
        assert_eq!(unbroken(sentence), expected);
    }

    #[test]
    fn limits_are_written_in_words() {
        for (text, expected) in [
            ("p99<50ms", "p99 < 50 ms"),
            ("p99.9<=250us", "p99.9 ≤ 250 µs"),
            ("errors<0.1%", "errors < 0.100 %"),
            ("errors<=0%", "no errors"),
            ("kbit_per_conn>=320", "≥ 320 kbit/s per connection"),
            ("<script>", "<script>"),
        ] {
            assert_eq!(limit(text), expected);
        }
        assert_eq!(limits(&["p99<50ms".into(), "errors<=0%".into()]), "p99 < 50 ms and no errors");
        assert_eq!(response_time_limit(&["errors<=0%".into(), "max<1s".into()]), Some(("max < 1 s".to_owned(), 1e6)));
    }

    #[test]
    fn commands_survive_the_shell() {
        let arguments = ["thalweg", "--limit", "p99<50ms", "--header", "K: it's", "--rate=5000/s", ""];
        let command = shell_command(&arguments.map(String::from));
        assert_eq!(command, r"thalweg --limit 'p99<50ms' --header 'K: it'\''s' --rate=5000/s ''");
    }
}
