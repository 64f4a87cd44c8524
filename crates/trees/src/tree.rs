//! A tree: its files, their shares of requests, and what can be done with them.

use std::ops::ControlFlow;
use std::path::Path;

use crate::content::Contents;
use crate::error::{SettingError, TreeError};
use crate::file::{FileClass, TreeFile};
use crate::layout::{Layout, flat, mirror, spec, webbench};
use crate::name::TreeName;
use crate::verify::{self, Verified};
use crate::write::{self, Progress, Written};

/// The settings of a tree, as far as it has them.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct TreeSettings {
    /// The seed of contents, and of a mirror's names and sizes.
    pub seed: u64,
    /// The target load that the file set is made for: operations per second of SPECweb96,
    /// simultaneous connections of SPECweb99. 100 if there is none.
    pub load: Option<f64>,
    /// Bytes of a mirror; 1 GB if there is none.
    pub size: Option<u64>,
    /// Bytes from which on a mirror's files are holes behind a short random beginning; `None`: none
    /// is.
    pub sparse: Option<u64>,
}

/// A document tree.
#[derive(Clone, Debug)]
pub struct Tree {
    contents: Contents,
    settings: TreeSettings,
    files: Vec<TreeFile>,
    classes: Vec<FileClass>,
}

impl Tree {
    /// The tree of that name.
    ///
    /// # Errors
    /// The tree does not have a setting that is given, or its value is out of bounds.
    pub fn new(name: TreeName, settings: &TreeSettings) -> Result<Self, TreeError> {
        refuse_unknown(name, settings)?;
        let mut settings = *settings;
        let mut load = |default| {
            let load = *settings.load.get_or_insert(default);
            in_bounds("load", load, 1.0, spec::LOAD_MAX).map(|()| load)
        };
        let layout = match name {
            TreeName::AcmeSmall => flat::acme_small(),
            TreeName::AcmeSpec => spec::acme_spec(),
            TreeName::AcmeBig | TreeName::AcmeModem => flat::acme_big(),
            TreeName::Heanet => flat::heanet(),
            TreeName::WebBench => webbench::webbench(),
            TreeName::SpecWeb96 => spec::specweb96(load(spec::OPERATIONS_PER_S_DEFAULT)?),
            TreeName::SpecWeb99 => spec::specweb99(load(spec::CONNECTIONS_DEFAULT)?),
            TreeName::Mirror => {
                let size = *settings.size.get_or_insert(mirror::BYTES_DEFAULT);
                in_bounds("size", size as f64, mirror::BYTES_MIN as f64, mirror::BYTES_MAX as f64)?;
                mirror::mirror(settings.seed, size, settings.sparse)
            }
        };
        Ok(Self::from_layout(name, settings, layout))
    }

    fn from_layout(name: TreeName, settings: TreeSettings, layout: Layout) -> Self {
        let Layout { mut files, classes } = layout;
        let sum: f64 = files.iter().map(|file| file.weight).sum();
        let class = |name| FileClass { name, files: 0, bytes: 0, share: 0.0 };
        let mut classes: Vec<FileClass> = classes.into_iter().map(class).collect();
        for file in &mut files {
            file.weight /= sum;
            let class = &mut classes[file.class];
            class.files += 1;
            class.bytes += file.size;
            class.share += file.weight;
        }
        Self { contents: Contents { name, seed: settings.seed }, settings, files, classes }
    }

    /// The name.
    pub fn name(&self) -> TreeName {
        self.contents.name
    }

    /// The settings, with defaults filled in as far as the tree has them.
    pub fn settings(&self) -> &TreeSettings {
        &self.settings
    }

    /// The files. Their weights add up to 1.
    pub fn files(&self) -> &[TreeFile] {
        &self.files
    }

    /// The classes of files.
    pub fn classes(&self) -> &[FileClass] {
        &self.classes
    }

    /// Bytes of all files, holes among them.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The average size of a file, in bytes, if each counts as often as it is requested.
    pub fn requested_bytes_mean(&self) -> f64 {
        self.files.iter().map(|file| file.size as f64 * file.weight).sum()
    }

    /// Writes the tree to a directory that is empty or does not exist. If it fails, or `progress`
    /// breaks it off, nothing of it is left.
    ///
    /// # Errors
    /// The directory contains something, the file system refuses, or `progress` requests an end.
    pub fn write(
        &self,
        directory: &Path,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Written, TreeError> {
        write::write(self.contents, &self.files, directory, progress)
    }

    /// Compares a directory with the tree.
    ///
    /// # Errors
    /// The directory cannot be read, or `progress` requests an end.
    pub fn verify(
        &self,
        directory: &Path,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Verified, TreeError> {
        verify::verify(self.contents, &self.files, directory, progress)
    }
}

/// Refuses settings that the tree does not have: silence would be taken for their effect.
fn refuse_unknown(tree: TreeName, settings: &TreeSettings) -> Result<(), SettingError> {
    let grows = matches!(tree, TreeName::SpecWeb96 | TreeName::SpecWeb99);
    let is_mirror = tree == TreeName::Mirror;
    let refused = [
        ("load", settings.load.is_some() && !grows, "specweb96 and specweb99"),
        ("size", settings.size.is_some() && !is_mirror, "mirror"),
        ("sparse", settings.sparse.is_some() && !is_mirror, "mirror"),
    ];
    match refused.into_iter().find(|(_, refused, _)| *refused) {
        Some((setting, _, trees)) => Err(SettingError::Unknown { tree, setting, trees }),
        None => Ok(()),
    }
}

fn in_bounds(setting: &'static str, value: f64, low: f64, high: f64) -> Result<(), SettingError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(SettingError::Range { setting, value, low, high }) }
}
