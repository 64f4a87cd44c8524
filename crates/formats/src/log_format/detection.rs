//! The format of a log by its first lines: the one that most of them have.

use std::fmt;

use super::json::Names;
use super::{Kind, LogFormat, LogReader, balancers};

/// A format that was found, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The format.
    pub format: LogFormat,
    /// Number of the examined lines that have this format.
    pub matching: usize,
    /// Number of the examined lines.
    pub of: usize,
}

impl fmt::Display for Detected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, matching, of } = self;
        write!(f, "{format}, which {matching} of the first {of} lines have")?;
        format.members().map_or(Ok(()), |members| write!(f, " ({members})"))
    }
}

/// The format that most of the lines have. Of formats that have as many the first one is taken; a
/// log whose lines have none is read as the common one, whose message says what is wrong.
pub fn detect(lines: &[&[u8]]) -> Detected {
    let lines: Vec<&[u8]> = lines.iter().copied().filter(|line| !line.trim_ascii().is_empty()).collect();
    let object = lines.iter().find(|line| line.starts_with(b"{")).and_then(|line| Names::guess(line));
    let mut candidates = vec![
        LogFormat::common(),
        LogFormat::new(Kind::W3c, "w3c"),
        LogFormat::new(Kind::Haproxy, "haproxy"),
        LogFormat::new(Kind::Pattern { pattern: Box::new(balancers::alb()), has_urls: true }, "alb"),
    ];
    if let Some((name, names)) = &object {
        // Lines that are no objects may stand among those that are.
        candidates[0].json = Some(names.clone());
        candidates.push(LogFormat::of_json(names.clone(), name));
    }
    let mut best: Option<Detected> = None;
    for format in candidates {
        let matching = matching(&format, &lines);
        // A log of nothing but objects has no common lines.
        let is_better = best.as_ref().is_none_or(|best| matching > best.matching)
            || (format.kind == Kind::Json && best.as_ref().is_some_and(|best| matching == best.matching));
        if is_better {
            best = Some(Detected { format, matching, of: lines.len() });
        }
    }
    best.expect("there are candidates")
}

fn matching(format: &LogFormat, lines: &[&[u8]]) -> usize {
    let mut reader = LogReader::new(format.clone());
    lines.iter().filter(|line| reader.read(line).is_ok()).count()
}
