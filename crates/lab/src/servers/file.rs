//! The file of servers: TOML, one table `[[server]]` for each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thalweg_report::document::SuiteName;

use super::placeholders::{self, KNOWN};

/// Largest file of servers, and largest template, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most servers of a file.
const SERVERS_MAX: usize = 64;
/// Longest name in bytes: names of files have it, and tables have columns for it.
const NAME_BYTES_MAX: usize = 64;

/// A file of servers.
#[derive(Clone, Debug)]
pub struct ServersFile {
    /// The servers in the file's order, each with a name of its own.
    pub servers: Vec<ServerSpec>,
    /// The folder of the file, absolute; templates are looked for in it.
    pub folder: PathBuf,
}

/// How one server is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerSpec {
    /// Its name in tables and files.
    pub name: String,
    /// The shell command that is the server: it stays in the foreground and ends by TERM.
    pub command: String,
    /// A shell command that prints the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Configurations whose placeholders are filled in; they are put into the server's folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<PathBuf>,
    /// The address of the folder that has the trees.
    #[serde(default = "url_default")]
    pub url: String,
    /// Path that the server forwards to the origin for dynamic content, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<String>,
    /// The suites that are run against it; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suites: Option<Vec<SuiteName>>,
    /// Seconds that it may take to answer after its start.
    #[serde(default = "start_seconds_default")]
    pub start_seconds: u32,
}

fn url_default() -> String {
    "http://127.0.0.1:{port}/".to_owned()
}

fn start_seconds_default() -> u32 {
    15
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    server: Vec<ServerSpec>,
}

/// The faults of a file of servers.
#[derive(Debug, thiserror::Error)]
pub enum ServersFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// It is no TOML, or has a key that is not known.
    #[error("{}: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's error, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The fault and its mending.
        what: String,
    },
}

impl ServersFile {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// See [`ServersFileError`].
    pub fn read(path: &Path) -> Result<Self, ServersFileError> {
        let unread = |source| ServersFileError::Read { path: path.to_owned(), source };
        let text = read_bounded(path).map_err(unread)?;
        let whole = fs::canonicalize(path).map_err(unread)?;
        let folder = whole.parent().expect("a file has a folder").to_owned();
        let tables: Tables = toml::from_str(&text)
            .map_err(|source| ServersFileError::Malformed { path: path.to_owned(), source: Box::new(source) })?;
        let file = Self { servers: tables.server, folder };
        match file.fault() {
            None => Ok(file),
            Some(what) => Err(ServersFileError::Wrong { path: path.to_owned(), what }),
        }
    }

    fn fault(&self) -> Option<String> {
        if self.servers.is_empty() {
            return Some("it has no [[server]]; each server needs at least a name and a command".to_owned());
        }
        if self.servers.len() > SERVERS_MAX {
            return Some(format!("it has {} servers; at most {SERVERS_MAX} fit a table", self.servers.len()));
        }
        self.servers.iter().enumerate().find_map(|(position, server)| {
            let earlier = &self.servers[..position];
            server.fault(earlier, &self.folder).map(|what| format!("server {:?}: {what}", server.name))
        })
    }
}

impl ServerSpec {
    /// Its name in names of files.
    pub(crate) fn file_name(&self) -> String {
        file_name(&self.name)
    }

    /// Whether the suite is run against it.
    pub fn takes_part(&self, suite: SuiteName) -> bool {
        self.suites.as_ref().is_none_or(|suites| suites.contains(&suite))
    }

    fn fault(&self, earlier: &[Self], folder: &Path) -> Option<String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+ ".contains(&byte);
        if self.name.trim().is_empty() || !self.name.bytes().all(is_name) || self.name.starts_with('.') {
            return Some("a name has letters, digits, spaces and -_.+ alone, and names files".to_owned());
        }
        if self.name.len() > NAME_BYTES_MAX {
            return Some(format!("a name has at most {NAME_BYTES_MAX} bytes"));
        }
        if earlier.iter().any(|other| other.file_name().eq_ignore_ascii_case(&self.file_name())) {
            return Some("another server has this name, with - for spaces and upper case alike".to_owned());
        }
        let texts = [Some(&self.command), Some(&self.url), self.version.as_ref()];
        if let Some(name) = texts.into_iter().flatten().find_map(|text| placeholders::unknown(text)) {
            let known: Vec<String> = KNOWN.iter().map(|(name, meaning)| format!("{{{name}}} ({meaning})")).collect();
            return Some(format!("{{{name}}} is no placeholder; known are {}", known.join(", ")));
        }
        if !self.url.ends_with('/') {
            return Some(format!("the URL {} names a file; it has to end in /", self.url));
        }
        if self.dynamic.as_ref().is_some_and(|path| !is_dynamic_path(path)) {
            return Some("`dynamic` is a path such as /dynamic: it begins with / and has no space, ? or #".to_owned());
        }
        self.templates.iter().enumerate().find_map(|(position, template)| {
            let has_its_name = |other: &PathBuf| other.file_name() == template.file_name();
            if self.templates[..position].iter().any(has_its_name) {
                return Some(format!(
                    "two templates have the name of {}; all are put into one folder",
                    template.display()
                ));
            }
            let fault = match read_bounded(&folder.join(template)) {
                Ok(_) if template.file_name().is_some() => return None,
                Ok(_) => "it names no file".to_owned(),
                Err(error) => error.to_string(),
            };
            Some(format!("cannot read the template {}: {fault}", template.display()))
        })
    }
}

/// The name of a server in names of files.
pub(crate) fn file_name(server: &str) -> String {
    server.replace(' ', "-")
}

/// Whether `text` is a path that dynamic requests can be made beneath: visible ASCII characters
/// from a `/` on, without query and fragment.
pub fn is_dynamic_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'))
}

/// The text of a file that is not larger than a configuration is.
pub(super) fn read_bounded(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServersFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.toml");
        fs::write(&path, text).unwrap();
        fs::write(folder.path().join("one.conf"), "").unwrap();
        ServersFile::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_needs_a_name_and_a_command() {
        let file = read("[[server]]\nname = 'one'\ncommand = 'one -c {work}/one.conf'\ntemplates = ['one.conf']\n");
        let server = &file.unwrap().servers[0];
        assert_eq!((server.url.as_str(), server.start_seconds), ("http://127.0.0.1:{port}/", 15));
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, expected: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let one = "[[server]]\nname = 'one'\ncommand = 'one'\n";
        check("", "it has no [[server]]");
        check("[[server]]\nname = 'one'\n", "missing field `command`");
        check(&format!("{one}comand = 'x'\n"), "unknown field `comand`");
        check(&format!("{one}{one}"), "server \"one\": another server has this name");
        check("[[server]]\nname = '../x'\ncommand = 'one'\n", "a name has letters");
        check("[[server]]\nname = 'one'\ncommand = 'one {prot}'\n", "{prot} is no placeholder; known are {root} (");
        check(&format!("{one}url = 'http://127.0.0.1:{{port}}/x'\n"), "it has to end in /");
        check(&format!("{one}templates = ['two.conf']\n"), "cannot read the template two.conf");
        for path in ["x", "/a b", "/a?b"] {
            check(&format!("{one}dynamic = '{path}'\n"), "it begins with / and has no space");
        }
        check(&format!("{one}suites = ['acme-smal']\n"), "acme-smal");
        let named = |name: &str| format!("[[server]]\nname = '{name}'\ncommand = 'one'\n");
        check(&(named("one 1") + &named("One-1")), "server \"One-1\": another server has this name");
        check(&named(&"x".repeat(65)), "a name has at most 64 bytes");
        check(&format!("{one}templates = ['one.conf', './one.conf']\n"), "two templates have the name of ./one.conf");
    }
}
