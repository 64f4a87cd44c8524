//! Passes over many small files: creating, examining and deleting them, in the orders of bonnie++.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_sys::page_cache::sync_file_system;

use crate::blocks::Passed;
use crate::document::Pass;
use crate::supervision::{Control, Meter, PassError};

/// Random letters of a name at most; bonnie++ has as many.
const LETTERS_MAX: usize = 12;

/// The files of three passes.
#[derive(Debug)]
pub(crate) struct SmallFiles {
    folder: PathBuf,
    names: Vec<String>,
    contents: Vec<u8>,
    random: Pcg64Mcg,
    is_sequential: bool,
}

impl SmallFiles {
    /// Files in a new folder. The names are in order, or in none.
    pub(crate) fn new(folder: &Path, is_sequential: bool, count: u64, size: u64, seed: u64) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ u64::from(is_sequential));
        let names = (0..count).map(|number| name(number, is_sequential, &mut random)).collect();
        let mut contents = vec![0; size as usize];
        random.fill_bytes(&mut contents);
        Ok(Self { folder: folder.to_owned(), names, contents, random, is_sequential })
    }

    /// The passes in their order.
    pub(crate) fn passes(&self) -> [Pass; 3] {
        match self.is_sequential {
            true => [Pass::SequentialCreate, Pass::SequentialStat, Pass::SequentialDelete],
            false => [Pass::RandomCreate, Pass::RandomStat, Pass::RandomDelete],
        }
    }

    /// Creates all files, in the order of their numbers, and has the device take them.
    pub(crate) fn create(&mut self, control: &Control) -> Result<Passed, PassError> {
        let meter = self.each(control, |path, contents| {
            let mut file = File::create_new(path)?;
            if contents.is_empty() { Ok(()) } else { file.write_all(contents) }
        })?;
        sync_file_system(&File::open(&self.folder)?)?;
        Ok(self.passed(&meter, self.contents.len()))
    }

    /// Examines all files, and reads those that have contents.
    pub(crate) fn stat(&mut self, control: &Control) -> Result<Passed, PassError> {
        self.order()?;
        let mut buffer = Vec::new();
        let meter = self.each(control, |path, contents| {
            if fs::metadata(path)?.len() != contents.len() as u64 {
                return Err(io::Error::other(format!("{} has changed its size", path.display())));
            }
            buffer.clear();
            if contents.is_empty() { Ok(()) } else { File::open(path)?.read_to_end(&mut buffer).map(drop) }
        })?;
        Ok(self.passed(&meter, self.contents.len()))
    }

    /// Deletes all files, and has the device take that.
    pub(crate) fn delete(&mut self, control: &Control) -> Result<Passed, PassError> {
        self.order()?;
        let meter = self.each(control, |path, _| fs::remove_file(path))?;
        sync_file_system(&File::open(&self.folder)?)?;
        Ok(self.passed(&meter, 0))
    }

    /// Sorts the names as the folder has them, or at random.
    fn order(&mut self) -> io::Result<()> {
        if !self.is_sequential {
            self.names.shuffle(&mut self.random);
            return Ok(());
        }
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        self.names = fs::read_dir(&self.folder)?.map(name).collect::<io::Result<_>>()?;
        Ok(())
    }

    fn each(&self, control: &Control, mut act: impl FnMut(&Path, &[u8]) -> io::Result<()>) -> Result<Meter, PassError> {
        let mut path = self.folder.join("name");
        let meter = Meter::start();
        for name in &self.names {
            path.set_file_name(name);
            act(&path, &self.contents)?;
            control.advance(1)?;
        }
        Ok(meter)
    }

    /// The pass that ends now, which has moved so many bytes of each file.
    fn passed(&self, meter: &Meter, bytes: usize) -> Passed {
        let operations = self.names.len() as u64;
        Passed { operations, bytes: operations * bytes as u64, usage: meter.usage() }
    }
}

/// A number of seven digits with random letters behind it, or before it.
fn name(number: u64, is_sequential: bool, random: &mut Pcg64Mcg) -> String {
    let length = random.random_range(1..=LETTERS_MAX);
    let letters: String = (0..length).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect();
    if is_sequential { format!("{number:07}{letters}") } else { format!("{letters}{number:07}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_created_examined_and_deleted() {
        for is_sequential in [true, false] {
            let parent = tempfile::tempdir().expect("a temporary folder can be made");
            let folder = parent.path().join("files");
            let mut files = SmallFiles::new(&folder, is_sequential, 50, 3, 1).expect("a folder can be made");
            let count = || fs::read_dir(&folder).expect("it is there").count();
            let control = Control::default();
            let created = files.create(&control).expect("there is room");
            assert_eq!((created.operations, count()), (50, 50));
            assert_eq!(files.stat(&control).expect("they are there").bytes, 150);
            assert_eq!((files.delete(&control).expect("they are there").operations, count()), (50, 0));
        }
    }

    #[test]
    fn names_are_in_order_or_in_none() {
        let names = |is_sequential| -> Vec<String> {
            let mut random = Pcg64Mcg::seed_from_u64(1);
            (0..20).map(|number| name(number, is_sequential, &mut random)).collect()
        };
        assert!(names(true).is_sorted() && !names(false).is_sorted());
    }
}
