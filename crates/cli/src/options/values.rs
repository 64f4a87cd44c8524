//! Values that the options of several commands have in common.

use clap::ValueEnum;
use thalweg_sys::DriverChoice;

/// CPUs as they were listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

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
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

pub(super) fn positive_count(text: &str) -> Result<u64, String> {
    positive(text).map(|number| number as u64)
}

pub(super) fn positive_calls(text: &str) -> Result<u32, String> {
    positive(text)?.try_into().map_err(|_| "at most 4294967295 calls".to_owned())
}

/// Most CPUs and addresses that a range may stand for.
pub(super) const RANGE_MAX: usize = 65_536;

pub fn parse_cpus(text: &str) -> Result<CpuList, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_as_taskset_reads_them() {
        let cpus = |text| parse_cpus(text).map(|list| list.0);
        assert_eq!([cpus("1"), cpus("0,2-4,3")], [Ok(vec![1]), Ok(vec![0, 2, 3, 4])]);
        for wrong in ["", "a", "3-1", "1,", "-1", "0-99999999"] {
            assert!(cpus(wrong).is_err(), "{wrong:?}");
        }
    }
}
