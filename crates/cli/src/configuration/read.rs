//! Reading a file by its keys. All mistakes are found, not only the first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::Fault;
use super::form::Form;
use super::keys;
use super::settings::Configuration;
use super::visitor::Keys;

/// Deepest nesting of tables; a configuration has few levels.
const DEPTH_MAX: usize = 16;

/// The configuration that a file's text describes. Values with mistakes in them are as if they were
/// left out.
pub(super) struct Reading {
    pub(super) configuration: Configuration,
    pub(super) places: Places,
    pub(super) faults: Vec<Fault>,
    /// The whole text is TOML, so that no part of it was skipped.
    pub(super) is_whole: bool,
}

/// Reads a file's text. Paths in it are relative to the folder.
pub(super) fn read_all(text: &str, folder: &Path) -> Reading {
    let (table, errors) = DeTable::parse_recoverable(text);
    let faults = RefCell::default();
    let mut reader =
        Reader { table: table.get_ref(), prefix: String::new(), at: 0..0, folder, faults: &faults, known: Vec::new() };
    let mut configuration = Configuration::default();
    keys::configuration(&mut reader, &mut configuration);
    reader.end();
    let line_of = |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count();
    let mut all: Vec<Fault> = Vec::new();
    for error in &errors {
        let fault = Fault::new(error.span().unwrap_or(0..0), error.message().trim().replace('\n', "; "));
        // The parser guesses the rest of such a line.
        if all.iter().all(|known| line_of(known.span.start) != line_of(fault.span.start)) {
            all.push(fault);
        }
    }
    // Keys that follow a line that is no TOML may belong to another table than the one where they
    // were found.
    let sure = all.iter().map(|fault| line_of(fault.span.start)).min().unwrap_or(usize::MAX);
    all.extend(faults.into_inner().into_iter().filter(|fault| line_of(fault.span.start) < sure));
    Reading { configuration, places: Places::of(table.get_ref()), faults: all, is_whole: errors.is_empty() }
}

/// Reads a file's text; any mistake is an error.
#[cfg(test)]
pub(super) fn read(text: &str, folder: &Path) -> Result<(Configuration, Places), Vec<Fault>> {
    let Reading { configuration, places, faults, .. } = read_all(text, folder);
    if faults.is_empty() { Ok((configuration, places)) } else { Err(faults) }
}

struct Reader<'t> {
    table: &'t DeTable<'t>,
    /// The names of the tables that it is in, each with a dot behind it.
    prefix: String,
    /// The place of the table.
    at: Range<usize>,
    folder: &'t Path,
    faults: &'t RefCell<Vec<Fault>>,
    /// The keys that the table may have.
    known: Vec<&'static str>,
}

impl<'t> Reader<'t> {
    fn value_of(&mut self, name: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.known.push(name);
        self.table.get(name)
    }

    /// Records a mistake, and those beside it, in the value of this name.
    fn add(&self, name: &str, mut fault: Fault) {
        let mut faults = self.faults.borrow_mut();
        let others = std::mem::take(&mut fault.others);
        for fault in [fault].into_iter().chain(others) {
            faults.push(Fault { at: format!("{}{name}", self.prefix), ..fault });
        }
    }

    /// Reads a table that is the value of this name.
    fn read_table<T>(&self, name: &str, found: &'t Spanned<DeValue<'t>>, value: &mut T, keys: fn(&mut Self, &mut T)) {
        let Some(table) = found.get_ref().as_table() else {
            return self.add(name, Fault::at(found, "expected a table"));
        };
        let prefix = format!("{}{name}.", self.prefix);
        let (at, folder, faults) = (found.span(), self.folder, self.faults);
        let mut reader = Self { table, prefix, at, folder, faults, known: Vec::new() };
        keys(&mut reader, value);
        reader.end();
    }

    /// Finds the keys that the table may not have.
    fn end(self) {
        for (name, _) in self.table.iter().filter(|(name, _)| !self.known.contains(&name.get_ref().as_ref())) {
            // A name in quotes can contain any character, even a terminal's control characters.
            let written = name.get_ref().escape_debug().to_string();
            let near = self.known.iter().map(|known| (strsim::damerau_levenshtein(known, &written), known));
            let meant =
                near.min().filter(|(distance, known)| *distance <= 1 + known.len() / 4).map(|(_, known)| *known);
            let what = match meant {
                Some(known) => format!("unknown key `{written}`; did you mean `{known}`?"),
                None => format!("unknown key `{written}`; known keys are {}", self.known.join(", ")),
            };
            self.add(meant.unwrap_or(&written), Fault::new(name.span(), what));
        }
    }
}

impl Keys for Reader<'_> {
    fn value<T>(&mut self, name: &'static str, _: &'static str, form: &Form<T>, value: &mut T) {
        if let Some(found) = self.value_of(name) {
            match (form.read)(found, self.folder) {
                Ok(read) => *value = read,
                Err(fault) => self.add(name, fault),
            }
        }
    }

    fn required<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T) {
        if !self.table.contains_key(name) {
            let what = format!("`{name}` is missing; expected for example {name} = {}", form.example);
            self.add(name, Fault::new(self.at.clone(), what));
        }
        self.value(name, says, form, value);
    }

    fn table<T>(&mut self, name: &'static str, _: &'static str, value: &mut T, keys: fn(&mut Self, &mut T)) {
        if let Some(found) = self.value_of(name) {
            self.read_table(name, found, value, keys);
        }
    }

    fn optional<T>(
        &mut self,
        name: &'static str,
        _: &'static str,
        value: &mut Option<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    ) {
        if let Some(found) = self.value_of(name) {
            self.read_table(name, found, value.get_or_insert_with(new), keys);
        }
    }

    fn tables<T>(
        &mut self,
        name: &'static str,
        _: &'static str,
        values: &mut Vec<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    ) {
        let Some(found) = self.value_of(name) else { return };
        let Some(tables) = found.get_ref().as_array() else {
            let what = format!("use two pairs of brackets, [[{name}]], because there may be several");
            return self.add(name, Fault::at(found, what));
        };
        for (index, found) in tables.iter().enumerate() {
            let mut value = new();
            self.read_table(&format!("{name}.{index}"), found, &mut value, keys);
            values.push(value);
        }
    }
}

/// The place of each value in a file.
#[derive(Debug)]
pub(super) struct Places(HashMap<String, Range<usize>>);

impl Places {
    fn of(table: &DeTable<'_>) -> Self {
        let mut places = Self(HashMap::new());
        places.add_table("", table, 0);
        places
    }

    /// The place of a value by its names with dots between; if it was left out, the place of the
    /// table that it belongs to.
    pub(super) fn find(&self, at: &str) -> Range<usize> {
        let ends = at.rmatch_indices('.').map(|(end, _)| end);
        let ends = std::iter::once(at.len()).chain(ends);
        ends.filter_map(|end| self.0.get(&at[..end])).next().cloned().unwrap_or(0..0)
    }

    /// Whether there is a value of these names.
    pub(super) fn has(&self, at: &str) -> bool {
        self.0.contains_key(at)
    }

    fn add_table(&mut self, prefix: &str, table: &DeTable<'_>, depth: usize) {
        for (name, value) in table {
            self.add(format!("{prefix}{}", name.get_ref()), value, depth);
        }
        // The root of a site stands for its last mount.
        if let Some(root) = table.get("root").filter(|_| prefix.starts_with("site.") && depth == 2) {
            let mounts = table.get("mount").and_then(|mounts| mounts.get_ref().as_array()).map_or(0, |all| all.len());
            self.0.insert(format!("{prefix}mount.{mounts}"), root.span());
        }
    }

    fn add(&mut self, at: String, value: &Spanned<DeValue<'_>>, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value.get_ref() {
            DeValue::Table(table) => self.add_table(&format!("{at}."), table, depth + 1),
            DeValue::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.add(format!("{at}.{index}"), value, depth + 1);
                }
            }
            _ => {}
        }
        self.0.insert(at, value.span());
    }
}

#[cfg(test)]
mod tests {
    use thalweg_serve::MountConfig;

    use super::*;

    /// Checks the faults of a text: the marked words of the file, and a part of the message.
    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let faults = read(text, Path::new("/folder")).err().unwrap_or_default();
        let marked: Vec<_> = faults.iter().map(|fault| &text[fault.span.clone()]).collect();
        assert_eq!(marked, expected.iter().map(|(word, _)| *word).collect::<Vec<_>>(), "{text}: {faults:?}");
        for (fault, (_, part)) in faults.iter().zip(expected) {
            assert!(fault.what.contains(part), "{text}: {}", fault.what);
        }
    }

    #[test]
    fn values_of_the_wrong_form() {
        check("", &[]);
        check("cores = 3", &[("3", "text in quotes")]);
        check("cores = \"x\"", &[("\"x\"", "CPUs")]);
        check("driver = \"fast\"", &[("\"fast\"", "\"uring\"")]);
        check("drain = \"10\"", &[("\"10\"", "unit")]);
        check("drain = 10", &[("10", "unit")]);
        check("listen = [\"127.0.0.1:80\", \"here\"]", &[("\"here\"", "port")]);
        check("listen = [\"unix:\"]", &[("\"unix:\"", "socket")]);
        check(
            "allow = [\"::1\", \"10.0.0.1/8\", \"here\"]",
            &[("\"10.0.0.1/8\"", "10.0.0.0/8"), ("\"here\"", "network")],
        );
        check("denied_clients = \"drop\"", &[("\"drop\"", "\"close\"")]);
        check("[limits]\nrequests_per_client = \"10\"", &[("\"10\"", "\"100/min\"")]);
        check("[limits]\nrequests_per_client = 10", &[("10", "text in quotes")]);
        check("[[site]]\nredirect_status = \"301\"", &[("\"301\"", "whole number")]);
        check("[[site]]\nredirect_status = 70000", &[("70000", "too large")]);
        check("[limits]\nhead_bytes_max = \"16K\"", &[("\"16K\"", "1024")]);
        check("[limits]\nhead_bytes_max = \"5GB\"", &[("\"5GB\"", "too large")]);
        check("[limits]\nconnections_max = -1", &[("-1", "at least 0")]);
        check("[limits]\nconnections_max = 1.5", &[("1.5", "whole number")]);
        check("[bandwidth]\ntotal = \"7bit\"", &[("\"7bit\"", "byte")]);
        check("[bandwidth]\ntotal = \"fast\"", &[("\"fast\"", "link rate")]);
        check("listen = [\"here\", \"127.0.0.1:80\", 7]", &[("\"here\"", "port"), ("7", "text in quotes")]);
        check(
            "[[site]]\nerror_pages = { x = \"/a\", 404 = 1 }",
            &[("\"/a\"", "not a status code"), ("1", "text in quotes")],
        );
        check("[[site]]\nerror_pages = { x = \"/a\" }", &[("\"/a\"", "not a status code")]);
        check("[[site]]\nerror_pages = \"/a\"", &[("\"/a\"", "table")]);
        check("[[site]]\n[[site.rule]]\nlisting = \"yes\"", &[("\"yes\"", "true or false")]);
        for mode in ["\"rw\"", "\"0888\"", "\"66\"", "\"1777\"", "\"00660\"", "0o1777", "0o7"] {
            check(&format!("[unix_socket]\nmode = {mode}"), &[(mode, "octal")]);
        }
        check("[unix_socket]\nmode = 660", &[("660", "text in quotes")]);
        check("limits = 3", &[("3", "table")]);
        check("[site]\nroot = \"/\"", &[("[site]", "[[site]]")]);
    }

    #[test]
    fn permissions_are_octal_in_quotes_or_without() {
        for (written, mode) in [("\"0660\"", 0o660), ("\"600\"", 0o600), ("0o660", 0o660), ("\"0777\"", 0o777)] {
            let text = format!("[unix_socket]\nmode = {written}");
            assert_eq!(read(&text, Path::new("/")).unwrap().0.unix_socket.mode, mode, "{written}");
        }
    }

    #[test]
    fn keys_that_do_not_exist() {
        check("listne = \"x\"", &[("listne", "did you mean `listen`")]);
        check("\"\\u001b[2J\" = 1", &[("\"\\u001b[2J\"", "`\\u{1b}[2J`")]);
        check("[limit]", &[("limit", "did you mean `limits`")]);
        check("[limits]\nheadtime = \"1s\"", &[("headtime", "did you mean `head_time`")]);
        check("[bandwidth]\nzzzzzz = 1", &[("zzzzzz", "known keys are total, per_client, per_connection")]);
        check("[[site]]\n[[site.mount]]\npath = \"/\"\nrot = \"/\"", &[("rot", "did you mean `root`")]);
    }

    #[test]
    fn invalid_toml() {
        check("a = ", &[("", "")]);
        check(
            "cores = 1\na = = b\nlisten = [\nb = ]\n[limits\nidle_tim = \"1s\"",
            &[("=", "extra `=`"), ("=", "in array"), ("", "unclosed table"), ("1", "text in quotes")],
        );
        check("[limits]\n[limits]", &[("limits", "duplicate")]);
        check("a = 1\na = 2", &[("a", "duplicate"), ("a", "unknown key")]);
        // As deep as the parser lets it be.
        let deep = format!("a = {}1{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(read(&deep, Path::new("/")).is_err());
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let text = "listen = \"unix:run/a\"\n[log]\naccess = \"access.log\"\nerror = \"stderr\"\n[[site]]\nroot = \"tree\"\n\
                    [[site.mount]]\npath = \"/abs/\"\nroot = \"/elsewhere\"";
        let server = read(text, Path::new("/folder")).unwrap().0.server;
        assert_eq!(server.listen[0].to_string(), "unix:/folder/run/a");
        assert_eq!(server.log.access.unwrap().to_string(), "/folder/access.log");
        assert_eq!(server.log.error.to_string(), "stderr");
        let mounts = [MountConfig::new("/abs/", "/elsewhere"), MountConfig::new("/", "/folder/tree")];
        assert_eq!(server.sites[0].mounts, mounts);
    }

    #[test]
    fn addresses_may_have_proxy_headers() {
        let text = "listen = [\"[::1]:80\", { address = \"unix:run/a\", proxy_protocol = true }, \
                    { address = \"[::1]:81\" }]\ntrusted_proxies = \"unix\"\nclient_field = \"Forwarded\"\n";
        let server = read(text, Path::new("/folder")).unwrap().0.server;
        let listed: Vec<_> = server.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["[::1]:80", "unix:/folder/run/a", "[::1]:81"]);
        assert_eq!(server.proxy_protocol, server.listen[1..2]);
        check("listen = [{ proxy_protocol = true }]", &[("{ proxy_protocol = true }", "`address` is missing")]);
        check("listen = [{ address = \"[::1]:80\", proxy = true }]", &[("true", "known keys are address")]);
        check("client_field = \"X-Real-IP\"", &[("\"X-Real-IP\"", "Forwarded")]);
    }

    #[test]
    fn contradictions_have_their_place_too() {
        let text = "listen = [\"[::1]:80\", \"[::1]:80\"]\n[[site]]\nroot = \"/\"\n[[site.mount]]\npath = \"/a\"\nroot = \"/\"\n\
                    [[site]]\n[site.error_pages]\n100 = \"/a\"\n";
        let (configuration, places) = read(text, Path::new("/")).unwrap();
        let marked = |at: &str| text[places.find(at)].to_owned();
        for (at, expected) in [
            ("listen.1", "\"[::1]:80\""),
            ("site.0.mount.0.path", "\"/a\""),
            ("site.0.mount.1.path", "\"/\""),
            ("site.1.error_pages.100", "\"/a\""),
            ("site.1.names", "[[site]]"),
            ("site.1.mount", "[[site]]"),
            ("nothing.of.it", ""),
        ] {
            assert_eq!(marked(at), expected, "{at}");
        }
        let found: Vec<_> = configuration.server.check().into_iter().map(|fault| fault.at).collect();
        assert_eq!(
            found,
            ["listen.1", "site.1.names", "site.0.mount.0.path", "site.1.mount", "site.1.error_pages.100"]
        );
    }
}
