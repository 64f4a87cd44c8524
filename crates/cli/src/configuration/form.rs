//! The forms of values: how a configuration file writes each type of value.
//!
//! A form reads every text that it writes. Units are those of the options.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_serve::{
    ClientField, DeniedClients, EtagSource, Level, LogFormat, LogTarget, MountOrigin, Network, RequestRate, Symlinks,
    UnknownHost, VolumeConfig,
};
use thalweg_sys::DriverChoice;
use thalweg_units::{UnitError, display, parse_link_rate, parse_size, parse_time};
use toml::de::DeValue;
use toml::{Spanned, Table, Value};

use super::fault::Fault;
use crate::options::{CpuList, SandboxOption, parse_cpus};

/// The written form of a type of value.
pub(super) struct Form<T: 'static> {
    /// An example of a value.
    pub example: &'static str,
    /// Reads a value; paths are relative to the folder.
    pub read: fn(&Spanned<DeValue<'_>>, &Path) -> Result<T, Fault>,
    /// Writes a value; `None` if there is none.
    pub write: fn(&T) -> Option<Value>,
}

impl<T> Form<T> {
    /// The same form with another example.
    pub(super) const fn like(&self, example: &'static str) -> Self {
        Self { example, read: self.read, write: self.write }
    }
}

/// A value that is one of some names.
pub(super) trait Named: Copy + PartialEq + 'static {
    /// All of them.
    const NAMES: &'static [(&'static str, Self)];
}

pub(super) const TIME: Form<Duration> = Form {
    example: "\"30s\"",
    read: |value, _| unit(value, parse_time),
    write: |time| Some(display::exact_time(*time).into()),
};

pub(super) const MAYBE_TIME: Form<Option<Duration>> = Form {
    example: "\"30s\"",
    read: |value, _| unit(value, parse_time).map(Some),
    write: |time| time.map(|time| display::exact_time(time).into()),
};

/// Days, which a time cannot have as many of.
pub(super) const MAYBE_DAYS: Form<Option<Duration>> = Form {
    example: "365",
    read: |value, _| {
        let days: u32 = whole(value).and_then(|days| fitting(value, days))?;
        Ok(Some(Duration::from_secs(u64::from(days) * DAY_S)))
    },
    write: |time| time.map(|time| ((time.as_secs() / DAY_S) as i64).into()),
};

pub(super) const SIZE: Form<usize> = Form {
    example: "\"64KiB\"",
    read: |value, _| size(value).and_then(|bytes| fitting(value, bytes)),
    write: |&bytes| Some(size_text(bytes as u64).into()),
};

pub(super) const SIZE_64: Form<u64> =
    Form { example: "\"256MiB\"", read: |value, _| size(value), write: |&bytes| Some(size_text(bytes).into()) };

/// Volumes, each a path or a table of a path and a size.
pub(super) const VOLUMES: Form<Vec<VolumeConfig>> = Form {
    example: "[{ path = \"/var/cache/thalweg.vol\", size = \"20GiB\" }]",
    read: |value, folder| list(value, |value| volume(value, folder)),
    write: |volumes| {
        let volume = |volume: &VolumeConfig| match volume.size {
            None => path_text(&volume.path),
            Some(size) => {
                let entries = [("path", path_text(&volume.path)), ("size", size_text(size).into())];
                Value::Table(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }
        };
        Some(volumes.iter().map(volume).collect::<Vec<_>>().into())
    },
};

/// Origins of a mount, each a name or a table of a name and a weight.
pub(super) const MOUNT_ORIGINS: Form<Vec<MountOrigin>> = Form {
    example: "[\"debian\"]",
    read: |value, _| list(value, mount_origin),
    write: |origins| {
        let origin = |origin: &MountOrigin| match origin.weight {
            None => Value::from(origin.name.as_str()),
            Some(weight) => {
                let entries = [("name", origin.name.as_str().into()), ("weight", i64::from(weight).into())];
                Value::Table(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }
        };
        (!origins.is_empty()).then(|| origins.iter().map(origin).collect::<Vec<_>>().into())
    },
};

pub(super) const HEAD_SIZE: Form<u32> = Form {
    example: "\"16KiB\"",
    read: |value, _| size(value).and_then(|bytes| fitting(value, bytes)),
    write: |&bytes| Some(size_text(bytes.into()).into()),
};

pub(super) const COUNT: Form<usize> = Form {
    example: "1000",
    read: |value, _| whole(value).and_then(|n| fitting(value, n)),
    write: |&n| Some((n as i64).into()),
};

pub(super) const COUNT_32: Form<u32> = Form {
    example: "1000",
    read: |value, _| whole(value).and_then(|n| fitting(value, n)),
    write: |&n| Some(i64::from(n).into()),
};

/// Bytes per second, written as bits per second; 0 is without limit.
pub(super) const RATE: Form<u64> = Form {
    example: "\"100Mbit\"",
    read: |value, _| match text(value)? {
        UNLIMITED => Ok(0),
        _ => rate(value),
    },
    write: |&bytes| Some(if bytes == 0 { UNLIMITED.to_owned() } else { rate_text(bytes) }.into()),
};

/// The same where 0 means nothing.
pub(super) const RATE_MIN: Form<u32> = Form {
    example: "\"12kbit\"",
    read: |value, _| rate(value).and_then(|bytes| fitting(value, bytes)),
    write: |&bytes| Some(rate_text(bytes.into()).into()),
};

pub(super) const BOOL: Form<bool> =
    Form { example: "true", read: |value, _| boolean(value), write: |&is_so| Some(is_so.into()) };

pub(super) const MAYBE_BOOL: Form<Option<bool>> =
    Form { example: "true", read: |value, _| boolean(value).map(Some), write: |is_so| is_so.map(Value::from) };

pub(super) const TEXT: Form<String> =
    Form { example: "\"/pub/\"", read: |value, _| owned(value), write: |text| Some(text.as_str().into()) };

pub(super) const MAYBE_TEXT: Form<Option<String>> = Form {
    example: "\"/pub/\"",
    read: |value, _| owned(value).map(Some),
    write: |text| text.as_deref().map(Value::from),
};

/// The name of a file; an empty text stands for none.
pub(super) const FILE_NAME: Form<Option<String>> = Form {
    example: "\"HEADER.html\"",
    read: |value, _| owned(value).map(|name| Some(name).filter(|name| !name.is_empty())),
    write: |name| Some(name.as_deref().unwrap_or_default().into()),
};

pub(super) const TEXTS: Form<Vec<String>> = Form {
    example: "[\"example.org\", \"*.example.org\"]",
    read: |value, _| list(value, owned),
    write: |texts| Some(texts.clone().into()),
};

pub(super) const MAYBE_TEXTS: Form<Option<Vec<String>>> = Form {
    example: "[\"index.html\", \"index.htm\"]",
    read: |value, _| list(value, owned).map(Some),
    write: |texts| texts.clone().map(Value::from),
};

pub(super) const PATH: Form<PathBuf> =
    Form { example: "\"/srv/mirror\"", read: path, write: |path| Some(path_text(path)) };

/// A path that is left out where no folder is served.
pub(super) const FOLDER: Form<PathBuf> = Form {
    example: "\"/srv/mirror\"",
    read: path,
    write: |path| (!path.as_os_str().is_empty()).then(|| path_text(path)),
};

/// Networks of clients.
pub(super) const NETWORKS: Form<Vec<Network>> = Form {
    example: "[\"192.0.2.0/24\", \"2001:db8::/32\"]",
    read: |value, _| {
        list(value, |value| {
            text(value)?.parse().map_err(|error: thalweg_serve::NetworkError| Fault::at(value, error.to_string()))
        })
    },
    write: |networks| Some(networks.iter().map(ToString::to_string).collect::<Vec<_>>().into()),
};

/// A rate of requests; `None` is without limit.
pub(super) const REQUEST_RATE: Form<Option<RequestRate>> = Form {
    example: "\"10/s\"",
    read: |value, _| match text(value)? {
        UNLIMITED => Ok(None),
        rate => {
            rate.parse().map(Some).map_err(|error: thalweg_serve::RequestRateError| Fault::at(value, error.to_string()))
        }
    },
    write: |rate| Some(rate.map_or_else(|| UNLIMITED.to_owned(), |rate| rate.to_string()).into()),
};

/// A status code.
pub(super) const MAYBE_STATUS: Form<Option<u16>> = Form {
    example: "301",
    read: |value, _| whole(value).and_then(|n| fitting(value, n)).map(Some),
    write: |status| status.map(|status| i64::from(status).into()),
};

pub(super) const MAYBE_PATH: Form<Option<PathBuf>> = Form {
    example: "\"/srv/mirror\"",
    read: |value, folder| path(value, folder).map(Some),
    write: |path| path.as_deref().map(path_text),
};

pub(super) const ADDRESS: Form<SocketAddr> = Form {
    example: "\"127.0.0.1:9180\"",
    read: |value, _| {
        let wrong = |_| Fault::at(value, "expected an address with a port, such as \"127.0.0.1:9180\"");
        text(value)?.parse().map_err(wrong)
    },
    write: |address| Some(address.to_string().into()),
};

pub(super) const MAYBE_ADDRESS: Form<Option<SocketAddr>> = Form {
    example: ADDRESS.example,
    read: |value, folder| (ADDRESS.read)(value, folder).map(Some),
    write: |address| address.map(|address| address.to_string().into()),
};

/// A list of CPUs; an empty one stands for all.
pub(super) const CORES: Form<Vec<usize>> = Form {
    example: "\"0,2-3\"",
    read: |value, _| match text(value)? {
        ALL => Ok(Vec::new()),
        cpus => parse_cpus(cpus).map(|CpuList(cpus)| cpus).map_err(|what| Fault::at(value, what)),
    },
    write: |cpus| {
        let listed: Vec<_> = cpus.iter().map(ToString::to_string).collect();
        Some(if listed.is_empty() { ALL.to_owned() } else { listed.join(",") }.into())
    },
};

pub(super) const LOG: Form<LogTarget> =
    Form { example: "\"stderr\"", read: log_target, write: |target| Some(target.to_string().into()) };

pub(super) const MAYBE_LOG: Form<Option<LogTarget>> = Form {
    example: "\"/var/log/thalweg/access.log\"",
    read: |value, folder| log_target(value, folder).map(Some),
    write: |target| target.as_ref().map(|target| target.to_string().into()),
};

/// Permission bits, in octal digits. TOML has octal numbers too; one that looks octal and is
/// decimal would mean another mode.
pub(super) const MODE: Form<u32> = Form {
    example: "\"0660\"",
    read: |value, _| {
        let digits = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 8 => number.as_str(),
            _ => text(value)?,
        };
        let is_octal = (3..=4).contains(&digits.len()) && digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        let mode = u32::from_str_radix(digits, 8).ok().filter(|&mode| is_octal && mode <= 0o777);
        mode.ok_or_else(|| Fault::at(value, "expected permissions in octal digits, as for chmod, such as \"0660\""))
    },
    write: |mode| Some(format!("{mode:04o}").into()),
};

/// Names and values of fields; several values of one name are a list.
pub(super) const HEADERS: Form<Vec<(String, String)>> = Form {
    example: "{ X-Content-Type-Options = \"nosniff\" }",
    read: |value, _| {
        let fields = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = name.get_ref();
            Ok(list(value, owned)?.into_iter().map(|text| (name.to_string(), text)).collect::<Vec<_>>())
        };
        gather(entries(value)?.map(fields)).map(|fields| fields.concat())
    },
    write: |headers| {
        let mut table = Table::new();
        for (name, value) in headers {
            match table.get_mut(name) {
                Some(Value::Array(values)) => values.push(value.as_str().into()),
                Some(first) => *first = vec![first.clone(), value.as_str().into()].into(),
                None => drop(table.insert(name.clone(), value.as_str().into())),
            }
        }
        (!table.is_empty()).then_some(Value::Table(table))
    },
};

/// Names of fields, and the files that have their values.
pub(super) const FIELD_FILES: Form<Vec<(String, PathBuf)>> = Form {
    example: "{ Authorization = \"/etc/thalweg/origin-authorization\" }",
    read: |value, folder| {
        let field = |(name, file): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = name.get_ref();
            Ok((name.to_string(), path(file, folder)?))
        };
        gather(entries(value)?.map(field))
    },
    write: |files| {
        let table: Table = files.iter().map(|(name, path)| (name.clone(), path_text(path))).collect();
        (!table.is_empty()).then_some(Value::Table(table))
    },
};

/// Times by status code.
pub(super) const LIFETIMES: Form<Vec<(u16, Duration)>> = Form {
    example: "{ 301 = \"1h\", 404 = \"1m\" }",
    read: |value, folder| {
        let lifetime = |(status, time): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let status: &std::borrow::Cow<'_, str> = status.get_ref();
            let code = status.parse().map_err(|_| Fault::at(time, format!("{status:?} is not a status code")))?;
            Ok((code, (TIME.read)(time, folder)?))
        };
        gather(entries(value)?.map(lifetime))
    },
    write: |lifetimes| {
        let entry = |(status, time): &(u16, Duration)| Some((status.to_string(), (TIME.write)(time)?));
        let table: Table = lifetimes.iter().filter_map(entry).collect();
        (!table.is_empty()).then_some(Value::Table(table))
    },
};

/// A URL, whose user and password are read and not written.
pub(super) const MAYBE_URL: Form<Option<String>> = Form {
    example: MAYBE_TEXT.example,
    read: MAYBE_TEXT.read,
    write: |url| url.as_deref().map(|url| thalweg_serve::without_user(url).into()),
};

pub(super) const ERROR_PAGES: Form<Vec<(u16, String)>> = Form {
    example: "{ 404 = \"/errors/404.html\" }",
    read: |value, _| {
        let page = |(status, path): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let status: &std::borrow::Cow<'_, str> = status.get_ref();
            let code = status.parse().map_err(|_| Fault::at(path, format!("{status:?} is not a status code")))?;
            Ok((code, owned(path)?))
        };
        gather(entries(value)?.map(page))
    },
    write: |pages| {
        let table: Table = pages.iter().map(|(status, path)| (status.to_string(), path.as_str().into())).collect();
        (!table.is_empty()).then_some(Value::Table(table))
    },
};

/// The form of a value that is one of some names.
pub(super) const fn name<T: Named>(example: &'static str) -> Form<T> {
    Form {
        example,
        read: |value, _| {
            let written = text(value)?;
            let known = T::NAMES.iter().find(|(name, _)| *name == written);
            known.map(|&(_, known)| known).ok_or_else(|| {
                let names: Vec<_> = T::NAMES.iter().map(|(name, _)| format!("{name:?}")).collect();
                Fault::at(value, format!("{written:?} is unknown; expected {}", names.join(", ")))
            })
        },
        write: |value| T::NAMES.iter().find(|(_, known)| known == value).map(|&(name, _)| name.into()),
    }
}

/// The same of a setting that may be left out.
pub(super) const fn maybe_name<T: Named>(example: &'static str) -> Form<Option<T>> {
    Form {
        example,
        read: |value, folder| (name::<T>("").read)(value, folder).map(Some),
        write: |value| value.as_ref().and_then(name::<T>("").write),
    }
}

/// A list of values that are each one of some names.
pub(super) const fn names<T: Named>(example: &'static str) -> Form<Vec<T>> {
    Form {
        example,
        read: |value, folder| list(value, |value| (name::<T>("").read)(value, folder)),
        write: |values| Some(values.iter().filter_map(name::<T>("").write).collect::<Vec<_>>().into()),
    }
}

impl Named for EtagSource {
    const NAMES: &'static [(&'static str, Self)] = &[("ctime", Self::ChangeTime), ("mtime", Self::ModificationTime)];
}

impl Named for DriverChoice {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("uring", Self::Uring), ("epoll", Self::Epoll)];
}

impl Named for SandboxOption {
    const NAMES: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

impl Named for UnknownHost {
    const NAMES: &'static [(&'static str, Self)] = &[("first", Self::First), ("refuse", Self::Refuse)];
}

impl Named for DeniedClients {
    const NAMES: &'static [(&'static str, Self)] = &[("respond", Self::Respond), ("close", Self::Close)];
}

impl Named for ClientField {
    const NAMES: &'static [(&'static str, Self)] =
        &[("X-Forwarded-For", Self::XForwardedFor), ("Forwarded", Self::Forwarded)];
}

impl Named for Symlinks {
    const NAMES: &'static [(&'static str, Self)] =
        &[("deny", Self::Deny), ("beneath", Self::Beneath), ("owner", Self::OwnerMatch)];
}

impl Named for LogFormat {
    const NAMES: &'static [(&'static str, Self)] =
        &[("common", Self::Common), ("combined", Self::Combined), ("json", Self::Json)];
}

impl Named for Level {
    const NAMES: &'static [(&'static str, Self)] =
        &[("error", Self::Error), ("warning", Self::Warning), ("notice", Self::Notice)];
}

const DAY_S: u64 = 86_400;
const UNLIMITED: &str = "unlimited";
const ALL: &str = "all";

/// The fault for a value of a wrong type.
fn mismatch(value: &Spanned<DeValue<'_>>, wanted: &str) -> Fault {
    Fault::at(value, format!("expected {wanted}, but this is of type {}", value.get_ref().type_str()))
}

pub(super) fn text<'v>(value: &'v Spanned<DeValue<'_>>) -> Result<&'v str, Fault> {
    value.get_ref().as_str().ok_or_else(|| mismatch(value, "a text in quotes"))
}

fn owned(value: &Spanned<DeValue<'_>>) -> Result<String, Fault> {
    text(value).map(str::to_owned)
}

fn boolean(value: &Spanned<DeValue<'_>>) -> Result<bool, Fault> {
    value.get_ref().as_bool().ok_or_else(|| mismatch(value, "true or false"))
}

fn whole(value: &Spanned<DeValue<'_>>) -> Result<u64, Fault> {
    let number = value.get_ref().as_integer().ok_or_else(|| mismatch(value, "a whole number"))?;
    u64::from_str_radix(number.as_str(), number.radix()).map_err(|_| {
        Fault::at(
            value,
            "expected a number of at least \
        0",
        )
    })
}

fn fitting<N: Into<u64>, T: TryFrom<N>>(value: &Spanned<DeValue<'_>>, number: N) -> Result<T, Fault> {
    T::try_from(number).map_err(|_| Fault::at(value, "the number is too large"))
}

fn unit<T>(value: &Spanned<DeValue<'_>>, parse: fn(&str) -> Result<T, UnitError>) -> Result<T, Fault> {
    let wrong = |error: UnitError| Fault::at(value, error.to_string());
    match value.get_ref() {
        DeValue::Integer(number) => parse(number.as_str()).map_err(wrong),
        _ => parse(text(value)?).map_err(wrong),
    }
}

fn volume(value: &Spanned<DeValue<'_>>, folder: &Path) -> Result<VolumeConfig, Fault> {
    if value.get_ref().as_str().is_some() {
        return Ok(VolumeConfig { path: path(value, folder)?, size: None });
    }
    let mut volume = VolumeConfig { path: PathBuf::new(), size: None };
    for (name, entry) in entries(value)? {
        match name.get_ref().as_ref() {
            "path" => volume.path = path(entry, folder)?,
            "size" => volume.size = Some(size(entry)?),
            other => return Err(Fault::at(entry, format!("unknown key `{other}`; known keys are path, size"))),
        }
    }
    if volume.path.as_os_str().is_empty() {
        return Err(Fault::at(value, "`path` is missing; expected for example { path = \"/var/cache/thalweg.vol\" }"));
    }
    Ok(volume)
}

fn mount_origin(value: &Spanned<DeValue<'_>>) -> Result<MountOrigin, Fault> {
    if let Some(name) = value.get_ref().as_str() {
        return Ok(MountOrigin::new(name));
    }
    let mut origin = MountOrigin::new("");
    for (name, entry) in entries(value)? {
        match name.get_ref().as_ref() {
            "name" => origin.name = owned(entry)?,
            "weight" => origin.weight = Some(whole(entry).and_then(|weight| fitting(entry, weight))?),
            other => return Err(Fault::at(entry, format!("unknown key `{other}`; known keys are name, weight"))),
        }
    }
    if origin.name.is_empty() {
        return Err(Fault::at(value, "`name` is missing; expected for example { name = \"debian\", weight = 2 }"));
    }
    Ok(origin)
}

fn size(value: &Spanned<DeValue<'_>>) -> Result<u64, Fault> {
    unit(value, parse_size)
}

fn rate(value: &Spanned<DeValue<'_>>) -> Result<u64, Fault> {
    match unit(value, parse_link_rate)? / 8 {
        0 => Err(Fault::at(value, "this is less than one byte per second")),
        bytes => Ok(bytes),
    }
}

/// A list, or a single value that stands for a list of one.
pub(super) fn list<T>(
    value: &Spanned<DeValue<'_>>,
    read: impl Fn(&Spanned<DeValue<'_>>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    match value.get_ref() {
        DeValue::Array(values) => gather(values.iter().map(read)),
        _ => read(value).map(|one| vec![one]),
    }
}

/// All values, or all mistakes.
fn gather<T>(values: impl Iterator<Item = Result<T, Fault>>) -> Result<Vec<T>, Fault> {
    let mut all = Vec::new();
    let mut wrong: Option<Fault> = None;
    for value in values {
        match (value, &mut wrong) {
            (Ok(value), _) => all.push(value),
            (Err(fault), None) => wrong = Some(fault),
            (Err(mut fault), Some(first)) => {
                first.others.append(&mut fault.others);
                first.others.push(fault);
            }
        }
    }
    wrong.map_or(Ok(all), Err)
}

pub(super) type Entry<'v, 'i> = (&'v Spanned<std::borrow::Cow<'i, str>>, &'v Spanned<DeValue<'i>>);

pub(super) fn entries<'v, 'i>(value: &'v Spanned<DeValue<'i>>) -> Result<impl Iterator<Item = Entry<'v, 'i>>, Fault> {
    let table = value.get_ref().as_table().ok_or_else(|| mismatch(value, "a table such as { name = \"value\" }"))?;
    Ok(table.iter())
}

fn path(value: &Spanned<DeValue<'_>>, folder: &Path) -> Result<PathBuf, Fault> {
    match text(value)? {
        "" => Err(Fault::at(value, "the path is empty")),
        path => Ok(folder.join(path)),
    }
}

fn log_target(value: &Spanned<DeValue<'_>>, folder: &Path) -> Result<LogTarget, Fault> {
    Ok(match LogTarget::parse(path(value, Path::new(""))?) {
        LogTarget::File(path) => LogTarget::File(folder.join(path)),
        stream => stream,
    })
}

fn path_text(path: &Path) -> Value {
    path.to_string_lossy().as_ref().into()
}

/// A number in the largest unit of which it is a multiple.
fn size_text(bytes: u64) -> String {
    let units =
        [("GiB", 1 << 30), ("GB", 1_000_000_000), ("MiB", 1 << 20), ("MB", 1_000_000), ("KiB", 1 << 10), ("KB", 1000)];
    let unit = units.into_iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

/// A number in the largest unit in which it has at most three decimals.
fn rate_text(bytes: u64) -> String {
    let bits = u128::from(bytes) * 8;
    let units = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1000)];
    let unit = units.into_iter().find(|(_, factor)| bits >= *factor && bits.is_multiple_of(factor / 1000));
    unit.map_or_else(
        || format!("{bits}bit"),
        |(unit, factor)| {
            let decimals = format!("{}.{:03}", bits / factor, bits % factor / (factor / 1000));
            format!("{}{unit}", decimals.trim_end_matches('0').trim_end_matches('.'))
        },
    )
}
