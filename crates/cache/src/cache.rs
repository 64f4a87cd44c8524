//! Several volumes as one cache. A key's volume follows by rendezvous hashing, weighted by size; a
//! volume that fails is taken out, and its keys fall to the others.
//!
//! A volume that was away may have missed purges. So the volumes number the changes of their set,
//! and one that comes back with an older number is emptied.

use crate::{
    error::Error,
    geometry::{Geometry, Membership, Shape},
    key::{Key, Part, mixed},
    medium::{Allocation, File, Medium},
    pieces::Pieces,
    record::Description,
    statistics::Statistics,
    volume::{Fragment, Looked, Purge, Settings, Stored, StoredHead, Verification, Volume},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// An open cache.
pub struct Cache {
    volumes: Vec<Volume>,
    /// Volumes that could not be opened, by their place in the list, and why.
    refused: Vec<(usize, Error)>,
    /// The set as the volumes that are left have it.
    set: Mutex<Membership>,
}

impl Cache {
    /// Makes a file of this size with an empty volume in it.
    pub fn create(path: &Path, size: u64, allocation: Allocation, shape: Shape) -> Result<(), Error> {
        // A wrong setting leaves no file behind.
        Geometry::plan(size, shape, 0)?;
        let file = File::create(path, size, allocation);
        let file = file.map_err(|error| Error::Open { path: path.to_owned(), error })?;
        Volume::create(&file, shape)
    }

    /// Makes an empty volume on an existing block device or file, whatever is on it.
    pub fn format(path: &Path, shape: Shape) -> Result<(), Error> {
        let file = File::open(path).map_err(|error| Error::Open { path: path.to_owned(), error })?;
        Volume::create(&file, shape)
    }

    /// Opens a cache on these files or devices. Those that fail are left out; see
    /// [`refused`](Self::refused).
    pub fn open(paths: &[PathBuf], settings: Settings) -> Result<Self, Error> {
        let media = paths.iter().map(|path| {
            let opened = File::open(path).map_err(|error| Error::Open { path: path.clone(), error })?;
            Ok(Arc::new(opened) as Arc<dyn Medium>)
        });
        Self::over(media.collect(), settings)
    }

    /// Opens a cache only if these are all of its volumes: a maintenance command must not change
    /// the set.
    pub fn open_whole(paths: &[PathBuf], settings: Settings) -> Result<Self, Error> {
        let mut media: Vec<Result<Arc<dyn Medium>, Error>> = Vec::new();
        let mut sets = Vec::new();
        for path in paths {
            let file = File::open(path).map_err(|error| Error::Open { path: path.clone(), error })?;
            sets.push(Geometry::read(&file)?.set);
            media.push(Ok(Arc::new(file)));
        }
        let Some(set) = sets.first() else { return Err(Error::NoVolume) };
        if sets.iter().any(|other| other != set) || sets.len() as u64 != set.volumes {
            return Err(Error::Incomplete { given: sets.len(), volumes: set.volumes });
        }
        Self::over(media, settings)
    }

    /// Opens one volume for reading alone, beside other readers.
    pub fn open_read_only(path: &Path, settings: Settings) -> Result<Self, Error> {
        let file = File::open_read_only(path).map_err(|error| Error::Open { path: path.to_owned(), error })?;
        let volume = Volume::open(Arc::new(file), settings)?;
        let set = Mutex::new(volume.membership());
        Ok(Self { volumes: vec![volume], refused: Vec::new(), set })
    }

    /// Opens a cache on these media.
    pub fn over(media: Vec<Result<Arc<dyn Medium>, Error>>, settings: Settings) -> Result<Self, Error> {
        let mut refused = Vec::new();
        let mut found = Vec::new();
        for (at, medium) in media.into_iter().enumerate() {
            let read = medium.and_then(|medium| Ok((Geometry::read(&*medium)?, medium)));
            match read {
                Ok((geometry, medium)) => found.push((at, geometry, medium)),
                Err(error) => refused.push((at, error)),
            }
        }
        let sets = found.iter().map(|(_, geometry, _)| geometry.set);
        let Some(newest) = sets.max_by_key(|set| set.change) else { return Err(only(refused)) };
        let mut volumes = Vec::new();
        let mut same = true;
        for (at, geometry, medium) in found {
            let current = (geometry.set.id, geometry.set.change) == (newest.id, newest.change);
            same &= current;
            let opened = match current {
                true => Volume::open_known(medium, geometry, settings),
                false => Volume::open_emptied(medium, geometry, settings),
            };
            match opened {
                Ok(volume) => volumes.push(volume),
                Err(error) => refused.push((at, error)),
            }
        }
        if volumes.is_empty() {
            return Err(only(refused));
        }
        let same = same && volumes.len() as u64 == newest.volumes;
        let cache = Self { volumes, refused, set: Mutex::new(newest) };
        if !same {
            cache.renew(&mut cache.set());
        }
        Ok(cache)
    }

    /// The volumes that could not be opened: their place in the list, and the reason.
    pub fn refused(&self) -> &[(usize, Error)] {
        &self.refused
    }

    /// The open volumes.
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// Looks a part of an object up.
    pub fn lookup(&self, key: Key, part: Part) -> Result<Option<Fragment>, Error> {
        match self.volume_of(key) {
            Some(volume) => volume.lookup(key, part),
            None => Err(Error::NoVolume),
        }
    }

    /// Looks a part of an object up, unless that may wait for the disk.
    pub fn lookup_now(&self, key: Key, part: Part) -> Result<Looked, Error> {
        match self.volume_of(key) {
            Some(volume) => volume.lookup_now(key, part),
            None => Err(Error::NoVolume),
        }
    }

    /// Counts a hit of a part of an object that was answered without the store, so that it stays
    /// with the others that are asked for.
    pub fn touch(&self, key: Key, part: Part) {
        if let Some(volume) = self.volume_of(key) {
            volume.touch(key, part);
        }
    }

    /// Appends a part of an object.
    pub fn append(&self, key: Key, part: Part, description: Description, body: impl Into<Pieces>) -> Result<(), Error> {
        let volume = self.volume_of(key).ok_or(Error::NoVolume)?;
        let appended = volume.append(key, part, description, body);
        if appended.is_err() {
            self.take_out_lost();
        }
        appended
    }

    /// Appends a part of an object if that needs no wait, and says whether it did.
    pub fn append_now(&self, key: Key, part: Part, description: Description, body: &Pieces) -> Result<bool, Error> {
        self.volume_of(key).ok_or(Error::NoVolume)?.append_now(key, part, description, body)
    }

    /// Purges all parts of an object.
    pub fn remove(&self, key: Key) -> Result<(), Error> {
        self.purge(&[Purge::Key(key)])
    }

    /// Purges objects and groups, on all volumes: one that is not a key's now may be after a
    /// failure. With `Ok`, the purge is in force also after a crash.
    pub fn purge(&self, purges: &[Purge]) -> Result<(), Error> {
        let mut failed = None;
        for volume in &self.volumes {
            if let Err(error) = volume.purge(purges)
                && !volume.is_lost()
            {
                failed = Some(error);
            }
        }
        if self.take_out_lost() == 0 {
            return Err(Error::NoVolume);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Makes everything durable that was appended so far, without a checkpoint.
    pub fn flush(&self) -> Result<(), Error> {
        self.on_each(Volume::flush_all)
    }

    /// Makes a checkpoint on each volume; the next start has nothing to scan.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.on_each(Volume::checkpoint)
    }

    /// Makes a checkpoint on each volume where one is due: for a thread of the caller. Those of
    /// [`Maintenance`](crate::Maintenance) are woken when it is.
    pub fn maintain(&self) -> Result<(), Error> {
        self.on_each(|volume| volume.maintain().map(drop))
    }

    pub(crate) fn maintain_volume(&self, at: usize) -> Result<bool, Error> {
        let maintained = self.volumes[at].maintain();
        if maintained.is_err() {
            self.take_out_lost();
        }
        maintained
    }

    /// The sum over all volumes.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.volumes.iter().for_each(|volume| sum.add(&volume.statistics()));
        sum.lost_volumes += self.refused.len() as u64;
        sum
    }

    /// Reads everything, and takes out what is damaged.
    pub fn verify(&self) -> Verification {
        let mut sum = Verification::default();
        self.volumes.iter().for_each(|volume| sum.add(&volume.verify()));
        sum
    }

    /// Tells of every stored fragment, in the order of the media.
    pub fn list(&self, each: &mut dyn FnMut(Stored)) -> Verification {
        let mut sum = Verification::default();
        self.volumes.iter().for_each(|volume| sum.add(&volume.list(each)));
        sum
    }

    /// Tells of the head of every stored object, with its name; of those twice that the store moves
    /// meanwhile. Look-ups wait for no more than a part of the directory. `each` must be quick.
    pub fn list_heads(&self, each: &mut dyn FnMut(StoredHead<'_>)) -> Verification {
        let mut sum = Verification::default();
        self.volumes.iter().for_each(|volume| sum.add(&volume.list_heads(each)));
        sum
    }

    fn on_each(&self, operation: impl Fn(&Volume) -> Result<(), Error>) -> Result<(), Error> {
        let mut failed = None;
        for volume in self.volumes.iter().filter(|volume| !volume.is_lost()) {
            if let Err(error) = operation(volume) {
                failed = Some(error);
            }
        }
        self.take_out_lost();
        failed.map_or(Ok(()), Err)
    }

    /// The volume with the highest score for a key; of those that are left.
    fn volume_of(&self, key: Key) -> Option<&Volume> {
        let left = self.volumes.iter().filter(|volume| !volume.is_lost());
        left.max_by(|a, b| score(a, key).total_cmp(&score(b, key)))
    }

    fn set(&self) -> std::sync::MutexGuard<'_, Membership> {
        self.set.lock().expect("no thread panics over the set")
    }

    /// Makes the volumes that are left know that others are lost; how many are left.
    fn take_out_lost(&self) -> usize {
        let mut set = self.set();
        let left = self.left();
        if left != 0 && left as u64 != set.volumes {
            self.renew(&mut set);
        }
        self.left()
    }

    fn left(&self) -> usize {
        self.volumes.iter().filter(|volume| !volume.is_lost()).count()
    }

    /// Numbers a change of the set, on all volumes that are left. One that does not take it will be
    /// emptied at its next opening, which is what its failures are worth.
    fn renew(&self, set: &mut Membership) {
        let volumes = self.left() as u64;
        *set = Membership { id: set.id, change: set.change + 1, volumes };
        for volume in self.volumes.iter().filter(|volume| !volume.is_lost()) {
            // The error was counted against the volume.
            let _ = volume.join(*set);
        }
    }
}

/// The reason of the only volume that was refused, or that there is none at all.
fn only(mut refused: Vec<(usize, Error)>) -> Error {
    match refused.len() {
        1 => refused.remove(0).1,
        _ => Error::NoVolume,
    }
}

/// Rendezvous hashing with weights: the volume with the highest score has the key, and it has it
/// with a probability in proportion to its size.
fn score(volume: &Volume, key: Key) -> f64 {
    let (low, high) = key.halves();
    let hash = mixed(mixed(volume.seat() ^ low).wrapping_add(high));
    // From 0 to 1, without either end.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -(volume.size() as f64) / uniform.ln()
}
