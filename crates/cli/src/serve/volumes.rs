//! The volumes of a server's disk cache: opening them at the start, and whether a start could.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thalweg_cache::medium::{Allocation, File, Medium};
use thalweg_cache::{Cache, Settings, Shape};
use thalweg_serve::{ServerConfig, VolumeConfig};
use thalweg_sys::file::may_make;

use super::figures::VolumePlace;
use crate::exit::{Failure, remark};

/// The pauses of a start that finds a volume open elsewhere, 5 s together: a process that looks at
/// it, such as `thalweg cache stat` or `thalweg serve --check`, soon ends, and another server does
/// not.
const LOCK_PAUSE: Duration = Duration::from_millis(100);
const LOCK_PAUSES_MAX: u32 = 50;

/// The store, opened.
pub(super) struct OpenedStore {
    pub cache: Arc<Cache>,
    pub files: Vec<Arc<fs::File>>,
    pub volumes: Vec<VolumePlace>,
}

/// Opens the store that a configuration names, if it has mounts with origins. Volumes that do not
/// exist are made. A successor whose predecessor still has the volumes keeps responses in memory.
///
/// # Errors
/// No volume can be had.
pub(super) fn open_store(config: &ServerConfig, has_predecessor: bool) -> Result<Option<OpenedStore>, Failure> {
    if !config.forwards() {
        return Ok(None);
    }
    let cache = &config.disk_cache;
    if cache.volumes.is_empty() {
        return open_memory(cache.memory).map(Some);
    }
    let mut files = Vec::new();
    let mut media: Vec<Result<Arc<dyn Medium>, thalweg_cache::Error>> = Vec::new();
    // A predecessor has them for as long as it serves.
    let mut pauses = if has_predecessor { 0 } else { LOCK_PAUSES_MAX };
    for volume in &cache.volumes {
        match open_unlocked(|| open_volume(volume), &mut pauses, &std::thread::sleep) {
            Ok(file) => {
                files.extend(file.file().cloned());
                media.push(Ok(Arc::new(file)));
            }
            Err(error) => media.push(Err(error)),
        }
    }
    match Cache::over(media, Settings::default()) {
        Ok(opened) => {
            let mut volumes: Vec<_> = cache.volumes.iter().map(|volume| VolumePlace::of(&volume.path)).collect();
            for (at, error) in opened.refused() {
                let path = cache.volumes[*at].path.display();
                volumes[*at].refused = Some(error.to_string());
                remark(&format!("the volume {path} is left out: {error}; `thalweg cache verify {path}` tells more"));
            }
            Ok(Some(OpenedStore { cache: Arc::new(opened), files, volumes }))
        }
        Err(error) if has_predecessor => {
            remark(&format!(
                "the volumes of the disk cache cannot be opened yet ({error}); responses of origins are kept in memory \
                 until a restart"
            ));
            open_memory(cache.memory).map(Some)
        }
        Err(error) => Err(Failure::unreachable(format!(
            "cannot open the disk cache: {error}; `thalweg cache create` makes a volume, and only one server can use it"
        ))),
    }
}

/// Why a start could open no volume of a configuration; `None` if it can open one, or make it. One
/// that another server has open is free at another time.
pub(super) fn unusable_volume(config: &ServerConfig) -> Option<Failure> {
    let volumes = &config.disk_cache.volumes;
    let mut faults = volumes.iter().map(|VolumeConfig { path, size }| match size {
        Some(_) if !path.exists() => may_make(path).err().map(|error| format!("{}: {error}", path.display())),
        _ => match Cache::open_read_only(path, Settings::default()) {
            Ok(_) => None,
            Err(thalweg_cache::Error::Open { error, .. }) if error.kind() == io::ErrorKind::ResourceBusy => None,
            Err(error) => Some(error.to_string()),
        },
    });
    // A start leaves out those that it cannot open.
    let first = faults.next()?;
    let all = std::iter::once(first).chain(faults).collect::<Option<Vec<_>>>().filter(|_| config.forwards())?;
    Some(Failure::unreachable(format!(
        "cannot open the disk cache: {}; `thalweg cache create` makes a volume",
        all.join("; ")
    )))
}

/// Opens a volume. While another process has it open, it is tried again after a pause, as often as
/// is left for all volumes.
fn open_unlocked<T>(
    open: impl Fn() -> Result<T, thalweg_cache::Error>,
    pauses: &mut u32,
    pause: &dyn Fn(Duration),
) -> Result<T, thalweg_cache::Error> {
    loop {
        match open() {
            Err(thalweg_cache::Error::Open { error, .. })
                if error.kind() == io::ErrorKind::ResourceBusy && *pauses > 0 =>
            {
                *pauses -= 1;
                pause(LOCK_PAUSE);
            }
            opened => return opened,
        }
    }
}

fn open_volume(volume: &VolumeConfig) -> Result<File, thalweg_cache::Error> {
    let VolumeConfig { path, size } = volume;
    if let Some(size) = size.filter(|_| !path.exists()) {
        Cache::create(path, size, Allocation::Sparse, Shape::default())?;
    }
    File::open(path).map_err(|error| thalweg_cache::Error::Open { path: path.clone(), error })
}

/// A store in memory, which ends with the process.
pub(super) fn open_memory(size: u64) -> Result<OpenedStore, Failure> {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let made =
        tempfile::Builder::new().prefix("thalweg-").tempdir_in(&folder).map_err(thalweg_error).and_then(|made| {
            // The folder is removed at once; the open file keeps the volume's bytes.
            let volume = VolumeConfig { path: made.path().join("volume"), size: Some(size) };
            let file = open_volume(&volume)?;
            let files: Vec<_> = file.file().cloned().into_iter().collect();
            let cache = Cache::over(vec![Ok(Arc::new(file))], Settings::default())?;
            let volumes = vec![VolumePlace::of(Path::new("memory"))];
            Ok(OpenedStore { cache: Arc::new(cache), files, volumes })
        });
    made.map_err(|error| {
        Failure::unreachable(format!("cannot keep responses in memory beneath {}: {error}", folder.display()))
    })
}

fn thalweg_error(error: io::Error) -> thalweg_cache::Error {
    thalweg_cache::Error::Open { path: PathBuf::new(), error }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_start_waits_for_a_check_that_looks_at_its_volume() {
        let folder = tempfile::TempDir::new().unwrap();
        let volume = VolumeConfig { path: folder.path().join("volume"), size: Some(64 << 20) };
        drop(open_volume(&volume).unwrap());
        let looks = || Some(Cache::open_read_only(&volume.path, Settings::default()).unwrap());
        let (checking, waited) = (RefCell::new(looks()), RefCell::new(0));
        let pause = |_: Duration| {
            *waited.borrow_mut() += 1;
            if *waited.borrow() == 3 {
                checking.take();
            }
        };
        let mut pauses = 5;
        drop(open_unlocked(|| open_volume(&volume), &mut pauses, &pause).unwrap());
        assert_eq!((pauses, *waited.borrow()), (2, 3));
        // One that stays is another server.
        checking.replace(looks());
        let refused = open_unlocked(|| open_volume(&volume), &mut pauses, &pause).map(drop);
        assert!(
            matches!(refused, Err(thalweg_cache::Error::Open { error, .. }) if error.kind() == io::ErrorKind::ResourceBusy)
        );
        assert_eq!((pauses, *waited.borrow()), (0, 5));
    }
}
