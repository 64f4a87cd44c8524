//! The stored runs: one SQLite file with the document of every command that measured.
//!
//! A run is entered when it begins and its trials as they end, so that a run that was killed leaves
//! what it had measured. At its end the whole document takes their place. Documents are kept as
//! compressed JSON beside the few columns that lists need; what is in them is not this crate's
//! concern.
//!
//! Several processes may write at once: SQLite's write-ahead log orders them. A file from a newer
//! version is left alone.
#![forbid(unsafe_code)]

mod error;
mod process;
mod run;

pub use error::StoreError;
pub use run::{FinishedRun, NewRun, RunRecord, State, StoredDocument};

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};

use crate::process::Process;

/// The version of the tables that this crate writes.
const VERSION: i64 = 1;

/// How long a process waits for another one that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two attempts to change the file to a write-ahead log.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

const SCHEMA: &str = "
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    started TEXT NOT NULL,
    target TEXT NOT NULL,
    label TEXT,
    note TEXT,
    state TEXT NOT NULL,
    verdict TEXT,
    capacity REAL,
    answer TEXT,
    process TEXT,
    document BLOB NOT NULL
) STRICT;
CREATE INDEX runs_by_start ON runs (started, id);
CREATE TABLE trials (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    trial BLOB NOT NULL,
    PRIMARY KEY (run, position)
) STRICT;
";

const COLUMNS: &str = "id, kind, started, target, label, note, state, verdict, capacity, answer, process, \
                       length(document) + (SELECT coalesce(sum(length(trial)), 0) FROM trials WHERE run = id)";

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// Which runs a list has.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those of this kind.
    pub kind: Option<String>,
    /// Only those with this label.
    pub label: Option<String>,
    /// At most so many, the latest.
    pub limit: Option<usize>,
}

/// The path of the store: `$XDG_DATA_HOME/thalweg/runs.sqlite`, by default
/// `~/.local/share/thalweg/runs.sqlite`.
///
/// # Errors
/// Neither variable is set.
pub fn default_path() -> Result<PathBuf, StoreError> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    Ok(data.ok_or(StoreError::NoHome)?.join("thalweg/runs.sqlite"))
}

impl Store {
    /// Opens the store for writing, and creates it with its folder if it does not exist.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let fail = |error| StoreError::of(path, error);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| StoreError::folder(folder, error))?;
        }
        let mut connection = Connection::open(path).map_err(fail)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
        // Before anything is written: a newer file is left as it is.
        check_version(&connection, path)?;
        enter_log_mode(&connection).map_err(fail)?;
        // A commit survives the end of the process; a loss of power may cost the last ones.
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(fail)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(fail)?;
        // Another process may have created the tables in the meantime.
        if version(&transaction).map_err(fail)? == 0 {
            transaction.execute_batch(SCHEMA).map_err(fail)?;
            transaction.pragma_update(None, "user_version", VERSION).map_err(fail)?;
        }
        transaction.commit().map_err(fail)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Opens an existing store for reading; `None` if there is none. A store on a read-only medium
    /// can be read.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, StoreError> {
        let fail = |error| StoreError::of(path, error);
        if !path.try_exists().map_err(|error| StoreError::folder(path, error))? {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(fail)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
        if version(&connection).is_err() {
            // The log of a store in a folder without write permission cannot be opened; the file
            // itself can.
            let uri =
                format!("file:{}?immutable=1", path.display().to_string().replace('?', "%3f").replace('#', "%23"));
            connection = Connection::open_with_flags(uri, flags).map_err(fail)?;
        }
        check_version(&connection, path)?;
        Ok(Some(Self { connection, path: path.to_owned() }))
    }

    /// The place of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Enters a run that begins in this process. Its document has no trials yet.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn begin(&self, run: &NewRun<'_>, document: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO runs (id, kind, started, target, label, note, state, process, document) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, ?8)";
        let process = Process::current().map(|process| process.to_string());
        let document = compressed(document);
        let values = params![run.id, run.kind, run.started, run.target, run.label, run.note, process, document];
        self.write(|connection| connection.execute(sql, values).map(drop))
    }

    /// Appends a trial of a run that has begun.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn add_trial(&self, id: &str, trial: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO trials (run, position, trial) \
                   VALUES (?1, (SELECT count(*) FROM trials WHERE run = ?1), ?2)";
        self.write(|connection| connection.execute(sql, params![id, compressed(trial)]).map(drop))
    }

    /// Enters a run with its whole document, or puts that in the place of what is there of it.
    ///
    /// # Errors
    /// See [`StoreError`]; the run is then as it was before.
    pub fn finish(&mut self, run: &NewRun<'_>, end: &FinishedRun<'_>, document: &str) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO runs \
                   (id, kind, started, target, label, note, state, verdict, capacity, answer, document) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let state = if end.interrupted { State::Interrupted } else { State::Complete };
        let document = compressed(document);
        let path = self.path.clone();
        let fail = |error| StoreError::of(&path, error);
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(fail)?;
        transaction.execute("DELETE FROM trials WHERE run = ?1", [run.id]).map_err(fail)?;
        let run_values = params![
            run.id,
            run.kind,
            run.started,
            run.target,
            run.label,
            run.note,
            state.name(),
            end.verdict,
            end.capacity,
            end.answer,
            document
        ];
        transaction.execute(sql, run_values).map_err(fail)?;
        transaction.commit().map_err(fail)
    }

    /// The runs, the latest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn list(&self, filter: &Filter) -> Result<Vec<RunRecord>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR label = ?2) \
             ORDER BY started DESC, id DESC LIMIT ?3"
        );
        let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        self.read(|connection| {
            let mut statement = connection.prepare(&sql)?;
            statement.query_map(params![filter.kind, filter.label, limit], record)?.collect()
        })
    }

    /// The run of a name: its id, a prefix that no other run's id has, `last`, or `last~N` for the
    /// one N before it.
    ///
    /// # Errors
    /// No run or more than one has this name.
    pub fn find(&self, name: &str) -> Result<RunRecord, StoreError> {
        if let Some(back) = position_from_last(name) {
            let sql = format!("SELECT {COLUMNS} FROM runs ORDER BY started DESC, id DESC LIMIT 1 OFFSET ?1");
            let found = self.read(|connection| connection.query_row(&sql, [back], record).optional())?;
            return found.ok_or_else(|| StoreError::Unknown { name: name.to_owned(), path: self.path.clone() });
        }
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 9");
        let mut found: Vec<RunRecord> = self.read(|connection| {
            let mut statement = connection.prepare(&sql)?;
            statement.query_map([name], record)?.collect()
        })?;
        match found.iter().position(|run| run.id == name) {
            Some(exact) => Ok(found.swap_remove(exact)),
            None if found.len() == 1 && !name.is_empty() => Ok(found.remove(0)),
            None if found.is_empty() || name.is_empty() => {
                Err(StoreError::Unknown { name: name.to_owned(), path: self.path.clone() })
            }
            None => {
                let ids = found.into_iter().map(|run| run.id).collect();
                Err(StoreError::Ambiguous { name: name.to_owned(), ids })
            }
        }
    }

    /// The document of a run, or the parts that there are of it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn document(&self, id: &str) -> Result<StoredDocument, StoreError> {
        let damaged = || StoreError::Damaged { path: self.path.clone(), what: format!("the document of run {id}") };
        let (document, trials) = self.read(|connection| {
            let document: Vec<u8> =
                connection.query_row("SELECT document FROM runs WHERE id = ?1", [id], |row| row.get(0))?;
            let mut statement = connection.prepare("SELECT trial FROM trials WHERE run = ?1 ORDER BY position")?;
            let trials: rusqlite::Result<Vec<Vec<u8>>> = statement.query_map([id], |row| row.get(0))?.collect();
            Ok((document, trials?))
        })?;
        let text = |bytes: &Vec<u8>| expanded(bytes).ok_or_else(damaged);
        Ok(StoredDocument { document: text(&document)?, trials: trials.iter().map(text).collect::<Result<_, _>>()? })
    }

    /// Removes a run that has begun and has neither a trial nor an end.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_empty(&self, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM runs WHERE id = ?1 AND state = 'running' \
                   AND NOT EXISTS (SELECT * FROM trials WHERE run = ?1)";
        self.write(|connection| connection.execute(sql, [id]).map(drop))
    }

    /// Removes a run.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete(&self, id: &str) -> Result<(), StoreError> {
        self.write(|connection| connection.execute("DELETE FROM runs WHERE id = ?1", [id]).map(drop))
    }

    /// Removes the runs that began before `started` (RFC 3339, UTC) and says how many. A run that
    /// is under way is kept.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_before(&self, started: &str) -> Result<usize, StoreError> {
        let old: Vec<RunRecord> = self.list(&Filter::default())?;
        let old = old.into_iter().filter(|run| run.started.as_str() < started && run.state != State::Running);
        let ids: Vec<String> = old.map(|run| run.id).collect();
        ids.iter().try_for_each(|id| self.delete(id))?;
        Ok(ids.len())
    }

    /// Gives the room of removed runs back to the file system.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn compact(&self) -> Result<(), StoreError> {
        self.write(|connection| connection.execute_batch("VACUUM"))
    }

    fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        query(&self.connection).map_err(|error| StoreError::of(&self.path, error))
    }

    fn write(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), StoreError> {
        self.read(change)
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Changes the file to a write-ahead log, for which the connection must have it to itself.
///
/// Two connections that change it at once hold a read lock each and wait for the other's: SQLite
/// fails one of them at once, without its busy timeout (sqlite.org, "Write-Ahead Logging", section
/// "Sometimes queries return SQLITE_BUSY in WAL mode"; `sqlite3_busy_handler`).
fn enter_log_mode(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && Instant::now() < deadline => thread::sleep(BUSY_PAUSE),
            entered => return entered,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn check_version(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found = version(connection).map_err(|error| StoreError::of(path, error))?;
    if found > VERSION { Err(StoreError::Newer { path: path.to_owned(), found, known: VERSION }) } else { Ok(()) }
}

fn record(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    let state: String = row.get(6)?;
    let process: Option<String> = row.get(10)?;
    let bytes: i64 = row.get(11)?;
    let is_alive = || process.as_deref().and_then(Process::parse).is_some_and(|process| process.is_alive());
    Ok(RunRecord {
        id: row.get(0)?,
        kind: row.get(1)?,
        started: row.get(2)?,
        target: row.get(3)?,
        label: row.get(4)?,
        note: row.get(5)?,
        state: match state.as_str() {
            "complete" => State::Complete,
            "running" if is_alive() => State::Running,
            _ => State::Interrupted,
        },
        verdict: row.get(7)?,
        capacity: row.get(8)?,
        answer: row.get(9)?,
        bytes: bytes as u64,
    })
}

/// How far before the last run a name points: 0 for `last`, N for `last~N`.
fn position_from_last(name: &str) -> Option<i64> {
    match name.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok().filter(|back| *back >= 0),
    }
}

fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory can be written to");
    encoder.finish().expect("memory can be written to")
}

fn expanded(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    ZlibDecoder::new(bytes).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests;
