//! The one way to write a file: a reader, or a crash, sees the old content or the new one and never a part.
//!
//! What is written goes to a new file of a random name beside the old one, is synced, and takes its place in one step. A
//! symbolic link stays and its target is replaced; a device or a pipe is written to as it is. A temporary file is locked by
//! its writer, so that one whose lock is free was left behind by a run that died, and is removed.
//!
//! ```
//! use std::io::Write;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("labels.csv");
//! let mut file = anabranch_io::output::NewFile::create(&path)?;
//! writeln!(file, "row,label")?;
//! file.finish()?; // dropped without this, the file is as it was
//! # Ok::<(), std::io::Error>(())
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

/// Links that are followed one after another before they are called a circle, as the kernel does.
const MOST_LINKS: usize = 40;

/// Digits of the random part of a temporary name.
const DIGITS: usize = 16;

/// Names that are tried before something else must be wrong.
const TRIES: usize = 16;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 256 << 10;

/// Writes `bytes` to `path` in one step.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// A file that is being written and takes its place when it is finished.
#[derive(Debug)]
pub struct NewFile {
    writer: BufWriter<File>,
    place: Place,
}

/// Where the bytes are, and where they belong.
#[derive(Debug)]
enum Place {
    /// Under a temporary name, to be renamed.
    Beside { temporary: PathBuf, target: PathBuf },
    /// In the device or pipe itself.
    Direct,
}

impl NewFile {
    /// Starts to write what will be `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let target = resolve(path)?;
        let there = fs::metadata(&target).ok();
        let (file, place) = match &there {
            Some(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Some(there) if !there.is_file() => (File::options().write(true).open(&target)?, Place::Direct),
            _ => {
                remove_stale(&target);
                let (file, temporary) = create_beside(&target)?;
                (file, Place::Beside { temporary, target })
            }
        };
        let new = Self { writer: BufWriter::with_capacity(BUFFER, file), place };
        // Whoever could read the old file can read the new one.
        if let (Some(there), Place::Beside { .. }) = (there, &new.place) {
            new.writer.get_ref().set_permissions(there.permissions())?;
        }
        Ok(new)
    }

    /// Whether what was written can be written over: not in a device or pipe.
    pub(crate) fn goes_back(&self) -> bool {
        matches!(self.place, Place::Beside { .. })
    }

    /// Writes over the first bytes. Nothing is written behind the last after that.
    pub(crate) fn write_over_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.rewind()?;
        self.writer.write_all(bytes)
    }

    /// Puts the file in its place.
    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()?;
        let Place::Beside { temporary, target } = &self.place else { return Ok(()) };
        self.writer.get_ref().sync_all()?;
        fs::rename(temporary, target)?;
        sync_folder(target);
        self.place = Place::Direct;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Place::Beside { temporary, .. } = &self.place {
            // Whatever kept it from being finished is told there; what is left may not even exist.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A file that others may follow while it grows. What it replaces is gone at once.
pub fn growing_file(path: &Path) -> io::Result<File> {
    File::create(path)
}

/// True when `path` is a file, or will be one: something that can be read again and replaced.
pub fn is_file(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |there| there.is_file())
}

/// The place that a chain of links leads to, whether or not there is something.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = folder_of(&path).join(link),
            // No link, or nothing at all.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links one after another"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn file_name(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))
}

/// A new file of a name that nobody has, locked.
fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let name = file_name(target)?;
    for attempt in 0..TRIES {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        let random = RandomState::new().hash_one(attempt);
        temporary.push(format!(".{random:0DIGITS$x}.tmp"));
        let path = target.with_file_name(temporary);
        let file = match File::options().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other?,
        };
        // Some file systems have no locks: there nothing is ever found stale.
        if matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)) || !path.exists() {
            // Somebody who looked for stale files was quicker.
            continue;
        }
        return Ok((file, path));
    }
    Err(io::Error::other("no temporary name is free"))
}

/// Removes what runs that died left behind of this file. That it cannot be removed keeps nobody from writing.
fn remove_stale(target: &Path) {
    let (Ok(name), Ok(folder)) = (file_name(target), fs::read_dir(folder_of(target))) else { return };
    for entry in folder.flatten().filter(|entry| is_temporary_of(&entry.file_name(), name)) {
        let Ok(file) = File::options().write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_temporary_of(candidate: &OsStr, name: &OsStr) -> bool {
    let random = candidate
        .as_encoded_bytes()
        .strip_prefix(b".")
        .and_then(|rest| rest.strip_prefix(name.as_encoded_bytes()))
        .and_then(|rest| rest.strip_prefix(b"."))
        .and_then(|rest| rest.strip_suffix(b".tmp"));
    random.is_some_and(|random| random.len() == DIGITS && random.iter().all(u8::is_ascii_hexdigit))
}

/// The rename itself has happened, and not every system lets a folder be opened.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder_of(path)) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn replacing_leaves_nothing_but_the_new_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        replace_file(&path, b"old").unwrap();
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["model"]);
    }

    #[test]
    fn a_folder_that_does_not_exist_is_an_error_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(replace_file(&folder.path().join("no/model"), b"x").is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_file_that_is_not_finished_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        replace_file(&path, b"old").unwrap();
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["model"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_target_is_replaced_also_when_it_is_not_there_yet() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        let link = folder.path().join("newest");
        symlink("between", &link).unwrap();
        symlink("elsewhere/model", folder.path().join("between")).unwrap();
        for content in [b"one", b"two"] {
            replace_file(&link, content).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read(folder.path().join("elsewhere/model")).unwrap(), content);
        }
        symlink("round", folder.path().join("round")).unwrap();
        let error = replace_file(&folder.path().join("round"), b"x").unwrap_err();
        assert_eq!(error.to_string(), "too many symbolic links one after another");
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to_and_stays_a_device() {
        use std::os::unix::fs::FileTypeExt;
        let null = Path::new("/dev/null");
        replace_file(null, b"nothing").unwrap();
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(null, &link).unwrap();
        replace_file(&link, b"nothing").unwrap();
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
        assert!(!is_file(null) && is_file(&folder.path().join("new")));
    }

    #[test]
    fn what_dead_runs_left_is_removed_and_what_live_ones_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let dead = folder.path().join(".model.0123456789abcdef.tmp");
        let others =
            [".model.tmp", ".model.123.tmp", ".other.0123456789abcdef.tmp", "model.0123456789abcdef.tmp"];
        fs::write(&dead, b"half").unwrap();
        others.iter().for_each(|name| fs::write(folder.path().join(name), b"").unwrap());
        let mut live = NewFile::create(&path).unwrap();
        replace_file(&path, b"first").unwrap();
        assert!(!dead.exists());
        others.iter().for_each(|name| assert!(folder.path().join(name).exists(), "{name}"));
        live.write_all(b"second").unwrap();
        live.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()).len(), others.len() + 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_has_the_permissions_of_the_old_one() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        replace_file(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
