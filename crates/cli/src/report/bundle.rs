//! Bundles: the results of a report with everything that an independent party needs to check and
//! repeat them, in one archive or folder.
//!
//! A manifest names each file with its SHA-256, and a bundle that does not agree with it is
//! refused. Documents are kept as the text that they were read from, so that a report made of the
//! bundle is the report that lies in it, byte for byte.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thalweg_report::file::write_whole;

use super::input_run::{InputRun, page};
use crate::exit::Failure;
use crate::format;

const SCHEMA: &str = "thalweg.bundle/1";
const MANIFEST: &str = "manifest.json";
const REPORT: &str = "report.html";
const ATTACHMENTS: &str = "attachments";

/// Most memory that a bundle may take when it is read.
const BYTES_MAX: u64 = 2 << 30;

/// Files by path.
type Files = BTreeMap<String, Vec<u8>>;

/// The ways in which a bundle is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Zstd,
    Gzip,
    Folder,
}

impl Packing {
    fn of(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        match () {
            () if name.ends_with(".tar.zst") => Self::Zstd,
            () if name.ends_with(".tar.gz") || name.ends_with(".tgz") => Self::Gzip,
            () => Self::Folder,
        }
    }
}

/// Whether a path is that of a bundle and not of a result in JSON.
pub(super) fn is_bundle(path: &Path) -> bool {
    path.is_dir() || (path.is_file() && Packing::of(path) != Packing::Folder)
}

/// Writes a bundle.
///
/// # Errors
/// An attached file cannot be read, or the bundle cannot be written.
pub(super) fn write(path: &Path, inputs: &[InputRun], attached: &[PathBuf]) -> Result<(), Failure> {
    let mut files = Files::new();
    let mut runs = Vec::new();
    for (position, input) in inputs.iter().enumerate() {
        let folder = format!("runs/{:02}-{}", position + 1, file_name(&input.document.id));
        let result = format!("{folder}/result.json");
        runs.push(json!({ "file": result, "id": input.document.id, "label": input.label }));
        files.insert(result, input.text.clone().into_bytes());
        files.insert(format!("{folder}/histograms.hlog"), format::hdr_log(&input.document).into_bytes());
    }
    for file in attached {
        let content = fs::read(file)
            .map_err(|error| Failure::usage(format!("cannot read the attachment {}: {error}", file.display())))?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if files.insert(format!("{ATTACHMENTS}/{name}"), content).is_some() {
            return Err(Failure::usage(format!("two attachments are named {name}; rename one of them")));
        }
    }
    files.insert(REPORT.to_owned(), page(inputs).into_bytes());
    files.insert("README.txt".to_owned(), readme(inputs).into_bytes());
    files.insert(MANIFEST.to_owned(), manifest(&runs, &files));
    pack(path, &files)
        .map_err(|error| Failure::unreachable(format!("cannot write the bundle {}: {error}", path.display())))
}

fn manifest(runs: &[Value], files: &Files) -> Vec<u8> {
    let entries: Vec<Value> = files
        .iter()
        .map(|(path, content)| json!({ "path": path, "bytes": content.len(), "sha256": sha256_hex(content) }))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    let manifest = json!({ "schema": SCHEMA, "version": version, "runs": runs, "files": entries });
    let mut text = serde_json::to_vec_pretty(&manifest).expect("a manifest is made of strings and numbers");
    text.push(b'\n');
    text
}

fn readme(inputs: &[InputRun]) -> String {
    let mut text = format!(
        "Results of Thalweg {}, with what is needed to check and repeat them.\n\n\
         report.html            the report; \"thalweg report BUNDLE --out FILE.html\" makes the same bytes of this bundle\n\
         runs/*/result.json     the result: plan and its hash, seed, command line, version and build, host, kernel settings,\n\
         \u{20}                      limits, network interfaces, every trial with its histograms (schema: \"thalweg schema\")\n\
         runs/*/histograms.hlog response times of each interval, for HdrHistogram's tools\n\
         attachments/           files that were added, such as the server's configuration\n\
         manifest.json          each file with its SHA-256\n\nCommands:\n",
        env!("CARGO_PKG_VERSION")
    );
    for input in inputs {
        let document = &input.document;
        let server = document.trials.iter().rev().find_map(|trial| trial.sample.as_ref()).map(|sample| &sample.server);
        let server = server
            .filter(|server| !server.is_empty())
            .map_or_else(String::new, |server| format!("  (server: {server})"));
        text.push_str(&format!("{}  {}{server}\n", document.id, document.plan.command.join(" ")));
    }
    text
}

/// Reads a bundle and checks it against its manifest.
///
/// # Errors
/// It cannot be read, or its files are not those of its manifest.
pub(super) fn read(path: &Path) -> Result<Vec<InputRun>, Failure> {
    let wrong = |what: String| Failure::usage(format!("cannot use the bundle {}: {what}", path.display()));
    let mut files = unpack(path).map_err(|error| wrong(error.to_string()))?;
    let manifest = files.remove(MANIFEST).ok_or_else(|| wrong(format!("it has no {MANIFEST}")))?;
    let manifest: Value =
        serde_json::from_slice(&manifest).map_err(|error| wrong(format!("its {MANIFEST} is damaged: {error}")))?;
    if manifest["schema"] != SCHEMA {
        return Err(wrong(format!("its schema is {}, expected {SCHEMA:?}", manifest["schema"])));
    }
    verify(&manifest, &files).map_err(wrong)?;
    let runs = manifest["runs"].as_array().cloned().unwrap_or_default();
    let input = |run: Value| {
        let file = run["file"].as_str().unwrap_or_default();
        let text = files.get(file).and_then(|content| String::from_utf8(content.clone()).ok());
        let text = text.ok_or_else(|| wrong(format!("its {MANIFEST} names the run {file:?}, which is not there")))?;
        InputRun::parse(&format!("{file} in {}", path.display()), run["label"].as_str().map(str::to_owned), text)
    };
    let inputs: Vec<InputRun> = runs.into_iter().map(input).collect::<Result<_, _>>()?;
    if inputs.is_empty() { Err(wrong("it has no runs".to_owned())) } else { Ok(inputs) }
}

/// Compares files with the manifest.
fn verify(manifest: &Value, files: &Files) -> Result<(), String> {
    let entries = manifest["files"].as_array().ok_or_else(|| format!("its {MANIFEST} lists no files"))?;
    for entry in entries {
        let path = entry["path"].as_str().unwrap_or_default();
        let content = files.get(path).ok_or_else(|| format!("{path} is missing"))?;
        let (found, expected) = (sha256_hex(content), entry["sha256"].as_str().unwrap_or_default());
        if found != expected {
            return Err(format!("{path} was changed: its SHA-256 is {found}, the manifest says {expected}"));
        }
    }
    let is_listed = |path: &&String| entries.iter().any(|entry| entry["path"].as_str() == Some(path));
    match files.keys().find(|path| !is_listed(path)) {
        Some(path) => Err(format!("{path} is not in its {MANIFEST}")),
        None => Ok(()),
    }
}

fn pack(path: &Path, files: &Files) -> io::Result<()> {
    match Packing::of(path) {
        Packing::Folder => {
            // A folder with other files in it would not agree with its manifest.
            fs::create_dir(path)?;
            for (name, content) in files {
                let file = path.join(name);
                fs::create_dir_all(file.parent().unwrap_or(path))?;
                fs::write(file, content)?;
            }
            Ok(())
        }
        Packing::Gzip => {
            let encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            write_whole(path, &archive(files, encoder)?.finish()?)
        }
        Packing::Zstd => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            write_whole(path, &ruzstd::encoding::compress_to_vec(archive(files, Vec::new())?.as_slice(), level))
        }
    }
}

/// An archive without times and owners: the same files make the same bytes.
fn archive<W: io::Write>(files: &Files, to: W) -> io::Result<W> {
    let mut archive = tar::Builder::new(to);
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, path, content.as_slice())?;
    }
    archive.into_inner()
}

fn unpack(path: &Path) -> io::Result<Files> {
    match Packing::of(path) {
        Packing::Folder => folder(path),
        Packing::Gzip => entries(GzDecoder::new(File::open(path)?)),
        Packing::Zstd => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(File::open(path)?)
                .map_err(|_| io::Error::other("it is not compressed with zstd, or it is damaged"))?;
            entries(decoder)
        }
    }
}

/// The files of an archive. Nothing is written: paths are names only.
fn entries(from: impl Read) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in tar::Archive::new(from.take(BYTES_MAX)).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(path, content);
    }
    Ok(files)
}

fn folder(root: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                files.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

/// A document's id as the name of a folder: ids of other programs may have any character.
fn file_name(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    id.chars().take(80).map(plain).collect()
}

fn sha256_hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
