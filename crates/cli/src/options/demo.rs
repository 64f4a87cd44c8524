//! Options of `thalweg demo`.

use std::path::PathBuf;

use clap::Args;

use super::store::StoreOptions;
use super::values::DriverOption;

/// Options of `thalweg demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg demo
  thalweg demo --tls
  thalweg demo --out /tmp/demo.html --driver epoll")]
pub(crate) struct DemoOptions {
    /// Report file to write
    #[arg(long, value_name = "FILE", default_value = "thalweg-demo.html")]
    pub out: PathBuf,
    /// Serve and measure over TLS, with a self-signed certificate
    #[arg(long)]
    pub tls: bool,
    /// Kernel interface
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverOption,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
}
