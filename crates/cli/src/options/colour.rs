//! The option that says where colours are used.

use std::ffi::OsString;

use anstream::ColorChoice;
use clap::ValueEnum;

/// The output that has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorOption {
    /// On a terminal that has colours, unless NO_COLOR is set
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl ColorOption {
    /// Has everything that is printed use colours so.
    pub fn apply(self) {
        let choice = match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        };
        choice.write_global();
    }

    /// The choice of a command line that is not read yet. A wrong one is left to reading it.
    pub fn of_arguments(arguments: &[OsString]) -> Self {
        let mut arguments = arguments.iter().map(|argument| argument.to_str()).take_while(|text| *text != Some("--"));
        while let Some(argument) = arguments.next() {
            let value = match argument.and_then(|argument| argument.strip_prefix("--color")) {
                Some("") => arguments.next().flatten(),
                Some(value) => value.strip_prefix('='),
                None => None,
            };
            if let Some(choice) = value.and_then(|value| Self::from_str(value, false).ok()) {
                return choice;
            }
        }
        Self::Auto
    }
}

impl From<ColorOption> for clap::ColorChoice {
    fn from(option: ColorOption) -> Self {
        match option {
            ColorOption::Auto => Self::Auto,
            ColorOption::Always => Self::Always,
            ColorOption::Never => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_known_before_the_options_are_read() {
        let check = |arguments: &[&str], expected: ColorOption| {
            let given: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            assert_eq!(ColorOption::of_arguments(&given), expected, "{arguments:?}");
        };
        check(&["thalweg", "run", "--color", "never", "--nonsense"], ColorOption::Never);
        check(&["thalweg", "--color=always", "run"], ColorOption::Always);
        check(&["thalweg", "run", "--color"], ColorOption::Auto);
        check(&["thalweg", "run", "--color=purple"], ColorOption::Auto);
        check(&["thalweg", "run", "--", "--color=never"], ColorOption::Auto);
    }
}
