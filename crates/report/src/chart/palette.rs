//! The colours of the page and of its charts, for light and dark.
//!
//! Verdicts and series differ in lightness as well as in hue, so that they are told apart in print
//! and by readers who see fewer colours. Elements name a colour by a class, never by value: the
//! page fills classes from variables of its style sheet, a stand-alone file brings the values.

use std::fmt::Write;

/// The part that something plays in a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Pass,
    Fail,
    Invalid,
    /// The main series.
    Series,
    Errors,
    Service,
    Muted,
    P50,
    P90,
    P99,
    P999,
    /// One of several targets, counted from 0; they repeat after [`SIDES`].
    Side(usize),
}

/// How many targets have a colour of their own.
pub(crate) const SIDES: usize = 6;

/// Names with their values for light and for dark.
const VALUES: [(&str, &str, &str); 25] = [
    ("paper", "#fdfdfb", "#16181b"),
    ("panel", "#f4f4f0", "#202327"),
    ("ink", "#1d1f21", "#e7e6e2"),
    ("muted", "#5c6066", "#a3a8af"),
    ("rule", "#dcdcd6", "#353a40"),
    ("link", "#005f96", "#7fc4f0"),
    ("pass", "#00699f", "#6bbcf0"),
    ("fail", "#b04500", "#f39a5c"),
    ("invalid", "#96417a", "#e29cc6"),
    ("pass-soft", "#e3f0f7", "#17303f"),
    ("fail-soft", "#fbeadf", "#3d2716"),
    ("invalid-soft", "#f7e8f2", "#3a2233"),
    ("series", "#005f96", "#6bbcf0"),
    ("errors", "#b04500", "#f39a5c"),
    ("service", "#7d6000", "#e0bb55"),
    ("p50", "#6193b5", "#5d89a6"),
    ("p90", "#35779f", "#7fb2d3"),
    ("p99", "#0b4a75", "#c3e3f6"),
    ("p999", "#5b3d83", "#c9b3ec"),
    ("side0", "#005f96", "#6bbcf0"),
    ("side1", "#b04500", "#f39a5c"),
    ("side2", "#1f7a4d", "#6fcf9c"),
    ("side3", "#8a3d8f", "#dc9be0"),
    ("side4", "#7d6000", "#e0bb55"),
    ("side5", "#4a5568", "#b7c0cd"),
];

impl Color {
    /// The colour's name, which is part of the names of its classes and of its variable.
    pub(crate) fn name(self) -> &'static str {
        const SIDE_NAMES: [&str; SIDES] = ["side0", "side1", "side2", "side3", "side4", "side5"];
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
            Self::Series => "series",
            Self::Errors => "errors",
            Self::Service => "service",
            Self::Muted => "muted",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Side(side) => SIDE_NAMES[side % SIDES],
        }
    }
}

/// The colours as variables of a style sheet, and the classes that use them: `s-NAME` for a stroke,
/// `f-NAME` for a fill.
pub(crate) fn page_style() -> String {
    let mut style = String::from(":root{color-scheme:light dark;");
    // Writing to a string cannot fail.
    for (name, light, _) in VALUES {
        let _ = write!(style, "--{name}:{light};");
    }
    style.push_str("}@media screen and (prefers-color-scheme:dark){:root{");
    for (name, _, dark) in VALUES {
        let _ = write!(style, "--{name}:{dark};");
    }
    style.push_str("}}");
    for (name, ..) in VALUES {
        let _ = write!(style, ".s-{name}{{stroke:var(--{name})}}.f-{name}{{fill:var(--{name})}}");
    }
    style
}

/// The classes with values, since not every program that shows SVG knows variables.
pub(super) fn file_style() -> String {
    let mut style = String::new();
    let classes = |style: &mut String, name: &str, value: &str| {
        let _ = write!(style, ".s-{name}{{stroke:{value}}}.f-{name}{{fill:{value}}}");
    };
    VALUES.iter().for_each(|(name, light, _)| classes(&mut style, name, light));
    style.push_str("@media screen and (prefers-color-scheme:dark){");
    VALUES.iter().for_each(|(name, _, dark)| classes(&mut style, name, dark));
    style.push('}');
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_color_has_a_value() {
        use Color::{Errors, Fail, Invalid, Muted, P50, P90, P99, P999, Pass, Series, Service};
        let all = [Pass, Fail, Invalid, Series, Errors, Service, Muted, P50, P90, P99, P999];
        for color in all.into_iter().chain((0..SIDES + 1).map(Color::Side)) {
            assert!(VALUES.iter().any(|(name, ..)| *name == color.name()), "{color:?}");
        }
    }
}
