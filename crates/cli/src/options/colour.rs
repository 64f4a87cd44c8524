//! The option that says where colours are used.

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

    /// The choice of a command line that is not read yet: its help and its errors use colours, too.
    pub fn of_command_line(arguments: impl Iterator<Item = std::ffi::OsString>) -> clap::ColorChoice {
        let mut arguments = arguments.take_while(|argument| argument != "--").map(|argument| argument.into_string());
        while let Some(argument) = arguments.next() {
            let Ok(argument) = argument else { continue };
            let value = match argument.strip_prefix("--color") {
                Some("") => arguments.next().and_then(Result::ok),
                Some(value) => value.strip_prefix('=').map(str::to_owned),
                None => None,
            };
            match value.as_deref() {
                Some("always") => return clap::ColorChoice::Always,
                Some("never") => return clap::ColorChoice::Never,
                _ => {}
            }
        }
        clap::ColorChoice::Auto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_known_before_the_options_are_read() {
        let check = |arguments: &[&str], expected: clap::ColorChoice| {
            let given = arguments.iter().map(|argument| (*argument).into());
            assert_eq!(ColorOption::of_command_line(given), expected, "{arguments:?}");
        };
        check(&["thalweg", "run", "--color", "never", "--nonsense"], clap::ColorChoice::Never);
        check(&["thalweg", "--color=always", "run"], clap::ColorChoice::Always);
        check(&["thalweg", "run", "--color"], clap::ColorChoice::Auto);
        check(&["thalweg", "run", "--color=purple"], clap::ColorChoice::Auto);
        check(&["thalweg", "run", "--", "--color=never"], clap::ColorChoice::Auto);
    }
}
