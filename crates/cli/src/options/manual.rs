//! Options of `thalweg completions` and `thalweg man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Options of `thalweg completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg
  thalweg completions zsh > ~/.zfunc/_thalweg
  thalweg completions fish > ~/.config/fish/completions/thalweg.fish")]
pub(crate) struct CompletionsOptions {
    /// Shell that the completions are for
    pub shell: Shell,
}

/// Options of `thalweg man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg man | man -l -
  thalweg man find | man -l -
  thalweg man --dir /usr/local/share/man/man1")]
pub(crate) struct ManOptions {
    /// Command whose page is printed [default: that of thalweg]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub command: Option<String>,
    /// Write the pages of all commands to this folder, which is made if it does not exist
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}
