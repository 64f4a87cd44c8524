//! The servers of a comparison: a file that says how each is started, and their lives.
//!
//! | module | owns |
//! | --- | --- |
//! | `file` | reading the file, its checks |
//! | `placeholders` | `{port}` and the others in commands, addresses and configurations |
//! | `running` | a server from its start until it has ended |

mod file;
mod placeholders;
mod running;

pub(crate) use file::file_name;

pub use file::{ServerSpec, ServersFile, ServersFileError, is_dynamic_path};
pub use running::{RunningServer, ServerSetting, StartError, pinned, version};
