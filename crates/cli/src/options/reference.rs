//! Options of `thalweg man` and `thalweg completions`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Options of `thalweg man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg man ~/.local/share/man/man1
  man thalweg-run

The package and the tarball have the pages already.")]
pub struct ManOptions {
    /// Folder for the pages, thalweg.1 and one for each command; created if it does not exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Options of `thalweg completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg
  thalweg completions zsh > /usr/local/share/zsh/site-functions/_thalweg
  thalweg completions fish > ~/.config/fish/completions/thalweg.fish

A shell that starts afterwards uses the file. The package has the files already.")]
pub struct CompletionsOptions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}
