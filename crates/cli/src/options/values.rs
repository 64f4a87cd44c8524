//! Values that the options of several commands have in common.

use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::ValueEnum;
use thalweg_sys::DriverChoice;
use thalweg_units::parse_seconds;

/// CPUs as they were listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub Vec<usize>);

/// Drivers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverOption {
    /// io_uring if available, else epoll
    Auto,
    /// io_uring; fail if unavailable
    Uring,
    /// epoll
    Epoll,
}

impl From<DriverOption> for DriverChoice {
    fn from(option: DriverOption) -> Self {
        match option {
            DriverOption::Auto => Self::Auto,
            DriverOption::Uring => Self::Uring,
            DriverOption::Epoll => Self::Epoll,
        }
    }
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    at_least_one(text, usize::MAX as u64).map(|number| number as usize)
}

pub(super) fn positive_count(text: &str) -> Result<u64, String> {
    at_least_one(text, u64::MAX)
}

pub(super) fn positive_calls(text: &str) -> Result<u32, String> {
    at_least_one(text, u32::MAX.into()).map(|number| number as u32)
}

fn at_least_one(text: &str, max: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        Ok(1..) => Err(format!("it is too large; the maximum is {max}")),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
            Err(format!("it is too large; the maximum is {max}"))
        }
        _ => Err("expected a whole number of at least 1".to_owned()),
    }
}

/// A whole number from 0 on, such as a seed.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    within(text, 0..=u64::MAX)
}

/// A whole number of a range.
pub(super) fn within<T: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.and_then(|number: u64| number.try_into().ok()).ok_or_else(|| match (*range.start(), *range.end()) {
        (0, u64::MAX) => "expected a whole number of at least 0".to_owned(),
        (first, last) => format!("expected a whole number from {first} to {last}"),
    })
}

/// A number above 0, such as a factor.
pub(super) fn positive_number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0, such as 2.5".to_owned())
}

/// A length of a run. Curl, hey and oha have their body where wrk has this.
pub(super) fn parse_length(text: &str) -> Result<Duration, String> {
    parse_seconds(text).map_err(|error| {
        let begins_with_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let body = if begins_with_number { "" } else { "; -d is --duration here, and the body of a request is --body" };
        format!("{error}{body}")
    })
}

/// Most CPUs and addresses that a range may stand for.
pub(super) const RANGE_MAX: usize = 65_536;

pub(crate) fn parse_cpus(text: &str) -> Result<CpuList, String> {
    let wrong = || format!("{text:?} is not a list of CPUs; expected for example 1 or 0,2-3");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first > last || last >= RANGE_MAX {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(CpuList(cpus))
}

pub(super) fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
    scale.ok_or_else(|| "expected a share above 0 and up to 1, such as 0.01".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_bounds() {
        assert_eq!((positive("7"), positive_calls("4294967295")), (Ok(7), Ok(u32::MAX)));
        assert_eq!(positive_count("18446744073709551615"), Ok(u64::MAX));
        for (wrong, part) in
            [("0", "at least 1"), ("-1", "at least 1"), ("1.5", "at least 1"), ("4294967296", "4294967295")]
        {
            let message = positive_calls(wrong).unwrap_err();
            assert!(message.contains(part), "{wrong}: {message}");
        }
        assert_eq!((whole("0"), within("100", 2..=100)), (Ok(0), Ok(100_u32)));
        for wrong in ["1", "101", "x", "-2", ""] {
            assert_eq!(
                within::<u32>(wrong, 2..=100),
                Err("expected a whole number from 2 to 100".to_owned()),
                "{wrong}"
            );
        }
        assert_eq!(positive_number("2.5"), Ok(2.5));
        assert!(["0", "-1", "nan", "inf", "x"].iter().all(|wrong| positive_number(wrong).is_err()));
        assert!(positive_count("99999999999999999999").unwrap_err().contains("too large"));
    }

    #[test]
    fn a_body_in_the_place_of_a_length_is_named() {
        assert_eq!(parse_length("10"), Ok(Duration::from_secs(10)));
        for (wrong, is_body) in [("a=b", true), ("{\"a\": 1}", true), ("10x", false), ("-5", false)] {
            assert_eq!(parse_length(wrong).unwrap_err().contains("--body"), is_body, "{wrong}");
        }
    }

    #[test]
    fn cpu_lists_are_read_as_taskset_reads_them() {
        let cpus = |text| parse_cpus(text).map(|list| list.0);
        assert_eq!([cpus("1"), cpus("0,2-4,3")], [Ok(vec![1]), Ok(vec![0, 2, 3, 4])]);
        for wrong in ["", "a", "3-1", "1,", "-1", "0-99999999"] {
            assert!(cpus(wrong).is_err(), "{wrong:?}");
        }
    }
}
