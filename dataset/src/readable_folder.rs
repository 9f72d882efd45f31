//! Opens files that other processes name, below one folder.
//!
//! The user who starts the program names the folder. Links of that path are followed. The other
//! processes name files below the folder. Links of these names are not followed.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use hmtt_paths::Folder;

/// A folder with files that other processes name and this program opens.
///
/// The folder is opened anew for each file, because it may be mounted later, or again.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let place = tempfile::tempdir()?;
/// use hmtt_dataset::ReadableFolder;
///
/// # let folder = place.path();
/// std::fs::write(folder.join("a"), "text")?;
/// let readable = ReadableFolder::new(folder)?;
/// let within = readable.within(&folder.join("a")).unwrap();
/// readable.file(&within)?;
/// assert_eq!(readable.within(&folder.join("../a")), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReadableFolder {
    path: PathBuf,
}

impl ReadableFolder {
    /// Names a folder, which need not exist yet.
    ///
    /// # Errors
    /// The path is relative, and the working directory is not known.
    pub fn new(path: &Path) -> io::Result<Self> {
        // The path has no `.` components, and no `/` at its end.
        Ok(ReadableFolder { path: std::path::absolute(path)?.components().collect() })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the part of an absolute path that comes after the folder. `None`: the path is not
    /// below the folder, or it has `..`. The path may begin with the folder's path as it was given,
    /// or with its path without links. For example, `a/b` of `/data/a/b` in the folder `/data`.
    pub fn within(&self, path: &Path) -> Option<PathBuf> {
        let is_of_names = path
            .components()
            .all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
        if !is_of_names {
            return None;
        }
        let below = |folder: &Path| path.strip_prefix(folder).ok().map(Path::to_owned);
        below(&self.path).or_else(|| below(&self.path.canonicalize().ok()?))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// The file does not exist, it may not be read, or the path has a link.
    pub fn file(&self, within: &Path) -> io::Result<File> {
        Folder::open(&self.path)?.file(within)
    }

    /// Checks that a folder exists, and that its path has no link.
    ///
    /// # Errors
    /// The folder does not exist, it may not be searched, or the path has a link.
    pub fn check_folder(&self, within: &Path) -> io::Result<()> {
        let folder = Folder::open(&self.path)?;
        if within.as_os_str().is_empty() {
            return Ok(());
        }
        folder.folder(within).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_outside_and_behind_links_are_not_opened() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
        for folder in [&inside, &outside] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("file"), "").unwrap();
        }
        symlink(&outside, inside.join("link")).unwrap();
        symlink("../outside/file", inside.join("linked")).unwrap();
        symlink(&inside, place.path().join("alias")).unwrap();
        let folder = ReadableFolder::new(&inside).unwrap();
        for path in ["outside/file", "inside/../outside/file", "alias/file", "insider", ""] {
            assert_eq!(folder.within(&place.path().join(path)), None, "{path}");
        }
        assert_eq!(folder.within(Path::new("file")), None);
        for path in ["link/file", "linked"] {
            let within = folder.within(&inside.join(path)).unwrap();
            assert!(folder.file(&within).is_err(), "{path}");
        }
        assert!(folder.check_folder(Path::new("link")).is_err());
        assert!(folder.check_folder(Path::new("")).is_ok());
        assert!(folder.file(Path::new("file")).is_ok());
        // Links of the folder's own path are followed. Paths may name the folder with and without
        // them.
        let alias = ReadableFolder::new(&place.path().join("alias")).unwrap();
        for path in [place.path().join("alias/file"), inside.canonicalize().unwrap().join("file")] {
            assert!(alias.file(&alias.within(&path).unwrap()).is_ok());
        }
    }
}
