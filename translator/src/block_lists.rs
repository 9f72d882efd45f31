//! Keeps lists of the blocks that programs have executed, by build identifiers, so that the next
//! run translates them before it needs them.
//!
//! A list has addresses only: code always comes from the process. Lists are optional: a list that
//! cannot be read counts as empty, and one that cannot be written is left out.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmtt_files::block_list::{BLOCK_BYTES, HEADER_BYTES, ListedBlock, MOST_BLOCKS, header, parse};
use hmtt_paths::{Folder, check_owner, check_private, is_regular};
use rustix::fs::OFlags;

/// End of the name of a list, and of a list that is being written.
const SUFFIX: &str = ".blocks";
const NEW_SUFFIX: &str = ".blocks.new";
/// Maximum number of lists in a folder. Beyond that, the lists that were written longest ago are
/// removed.
const MOST_LISTS: usize = 1_024;
/// A list that is being written and is older than this was left by an interrupted run.
const WRITING: Duration = Duration::from_secs(3_600);
/// Maximum number of bytes of a build identifier.
const ID_BYTES: usize = 64;
/// Permissions of the folder and of lists: only the user may use them.
const FOLDER_MODE: u32 = 0o700;
const LIST_MODE: u32 = 0o600;

/// A folder of lists. It is opened once: a later change of its path has no effect.
#[derive(Debug)]
pub struct BlockLists {
    folder: Folder,
}

/// What a list is about: the blocks of one file that runs of one program have executed.
#[derive(Clone, Copy, Debug)]
pub struct ListName<'a> {
    /// Build identifier of the program; empty if it has none.
    pub program: &'a [u8],
    /// Build identifier of the file.
    pub file: &'a [u8],
}

impl ListName<'_> {
    /// The name of the list's file without its suffix, such as `01-01ab`: the program, then the
    /// file. `None` if the file has no build identifier, or one of the two is too long.
    fn stem(self) -> Option<String> {
        if self.file.is_empty() || self.file.len().max(self.program.len()) > ID_BYTES {
            return None;
        }
        let hexadecimal =
            |id: &[u8]| -> String { id.iter().map(|byte| format!("{byte:02x}")).collect() };
        Some(format!("{}-{}", hexadecimal(self.program), hexadecimal(self.file)))
    }
}

impl BlockLists {
    /// Opens a folder of lists that the user has named. It is created if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be created or opened, is a link, belongs to another user, or can be
    /// written by others.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let name = folder.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let around = folder.parent().unwrap_or(Path::new(""));
        let around = Folder::create_to_change(around, FOLDER_MODE)?;
        let folder = enter(&around, name)?;
        check_private(&folder.status()?).map_err(|_| {
            let why = "it belongs to another user, or others can write to it";
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        })?;
        Ok(BlockLists { folder })
    }

    /// Opens a folder of lists below a folder of the user, such as `.cache/hmtt/blocks` in the home
    /// directory. Each folder is created if it does not exist. All must be the user's own.
    /// Otherwise a process of root, run with the home directory of another user, would create
    /// folders that this user cannot remove, at places that this user chooses.
    ///
    /// # Errors
    /// One of the folders belongs to another user, is a link, or cannot be created or opened; or
    /// others can write to the last one.
    pub fn open_below(home: &Path, path: &Path) -> io::Result<Self> {
        let mut folder = Folder::open_to_change(home)?;
        check_owner(&folder.status()?)?;
        for name in path {
            folder = enter(&folder, name)?;
        }
        check_private(&folder.status()?)?;
        Ok(BlockLists { folder })
    }

    /// Reads a list. It is empty if there is no list, or if it cannot be used.
    pub fn read(&self, name: ListName<'_>) -> Vec<ListedBlock> {
        let bytes = name.stem().and_then(|stem| self.read_own(&(stem + SUFFIX)).ok());
        bytes.and_then(|bytes| Some(parse(&bytes)?.collect())).unwrap_or_default()
    }

    /// Reads a file of this user, which is no larger than a list can be.
    fn read_own(&self, name: &str) -> io::Result<Vec<u8>> {
        const LARGEST: u64 = (HEADER_BYTES + BLOCK_BYTES * MOST_BLOCKS) as u64;
        let file = self.folder.own_file(name.as_ref(), OFlags::RDONLY)?;
        let status = file.metadata()?;
        if status.len() > LARGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = Vec::with_capacity(status.len() as usize);
        file.take(LARGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces a list with the first [`MOST_BLOCKS`] of some blocks. Does nothing if the list has
    /// no usable name. The first write of a list also removes old lists.
    ///
    /// # Errors
    /// The list cannot be written, or an old one cannot be removed.
    pub fn write(&self, name: ListName<'_>, blocks: &[ListedBlock]) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let Some(stem) = name.stem() else { return Ok(()) };
        let blocks = &blocks[..blocks.len().min(MOST_BLOCKS)];
        let mut bytes = header(blocks.len() as u32).to_vec();
        blocks.iter().for_each(|block| bytes.extend(block.to_bytes()));
        // No other process chooses this name, even one in another container with the same process
        // number.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let new = format!("{stem}.{}.{time}.{number}{NEW_SUFFIX}", std::process::id());
        let list = stem + SUFFIX;
        let (new, list) = (OsStr::new(&new), OsStr::new(&list));
        let is_first = self.folder.status_of(list)?.is_none();
        let mut file = self.folder.create_file(new, LIST_MODE)?;
        let rename = || self.folder.rename(new, &self.folder, list);
        file.write_all(&bytes).and_then(|()| rename()).inspect_err(|_| {
            let _ = self.folder.remove_file(new);
        })?;
        if is_first { self.remove_old() } else { Ok(()) }
    }

    /// Removes the oldest lists if there are too many, and unfinished lists that interrupted runs
    /// have left. Other files stay.
    fn remove_old(&self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut lists = Vec::new();
        for name in self.folder.names()? {
            let Some(name) = name.to_str() else { continue };
            let Some(status) = self.folder.status_of(name.as_ref())?.filter(is_regular) else {
                continue;
            };
            let written = Duration::from_secs(status.st_mtime.max(0) as u64);
            if is_list(name, SUFFIX) {
                lists.push((written, name.to_owned()));
            } else if is_list(name, NEW_SUFFIX) && written + WRITING < now {
                self.folder.remove_file(name.as_ref())?;
            }
        }
        lists.sort();
        let surplus = lists.len().saturating_sub(MOST_LISTS);
        let remove = |(_, name): &(Duration, String)| self.folder.remove_file(name.as_ref());
        lists[..surplus].iter().try_for_each(remove)
    }
}

/// Opens a folder of the user, which is created if it does not exist.
fn enter(around: &Folder, name: &OsStr) -> io::Result<Folder> {
    around.create_folder(name, FOLDER_MODE)?;
    around.own_folder(Path::new(name))
}

/// Whether a file's name is that of a list with this suffix: hexadecimal build identifiers, and
/// further numbers while it is being written.
fn is_list(name: &str, suffix: &str) -> bool {
    let stem = name.strip_suffix(suffix).unwrap_or_default();
    let is_known = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'.');
    stem.contains('-') && stem.bytes().all(is_known)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn listed(offset: u64) -> ListedBlock {
        ListedBlock { offset, direct: true, indirect: offset.is_multiple_of(2) }
    }

    fn name<'a>(program: &'a [u8], file: &'a [u8]) -> ListName<'a> {
        ListName { program, file }
    }

    #[test]
    fn lists_are_kept_by_build_identifiers() {
        let folder = tempfile::tempdir().unwrap();
        let lists = BlockLists::open(&folder.path().join("a/b")).unwrap();
        let blocks = [listed(4), listed(7)];
        lists.write(name(&[1], &[1, 0xab]), &blocks).unwrap();
        lists.write(name(&[1], &[0xac]), &blocks[1..]).unwrap();
        lists.write(name(&[1], &[0xac]), &blocks[..1]).unwrap();
        assert_eq!(lists.read(name(&[1], &[1, 0xab])), blocks);
        assert_eq!(lists.read(name(&[1], &[0xac])), blocks[..1]);
        for (program, file) in [(&[1][..], &[1][..]), (&[2], &[0xac]), (&[], &[0xac]), (&[1], &[])]
        {
            assert_eq!(lists.read(name(program, file)), []);
        }
        let names = folder.path().join("a/b").read_dir().unwrap().count();
        assert_eq!(names, 2);
        let path = folder.path().join("a/b/01-01ab.blocks");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_list_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let lists = BlockLists::open(folder.path().join("lists").as_path()).unwrap();
        let path = |name: &str| folder.path().join("lists").join(name);
        std::fs::write(path("-01.blocks"), "no list").unwrap();
        let mut list = header(1).to_vec();
        list.extend(listed(4).to_bytes());
        std::fs::write(folder.path().join("list"), &list).unwrap();
        symlink(folder.path().join("list"), path("-02.blocks")).unwrap();
        nix::unistd::mkfifo(&path("-03.blocks"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(path("-04.blocks"), &list).unwrap();
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path("-04.blocks"), private).unwrap();
        let lengths: Vec<usize> = (1..=4).map(|id| lists.read(name(&[], &[id])).len()).collect();
        assert_eq!(lengths, [0, 0, 0, 1]);
    }

    #[test]
    fn other_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lists");
        std::fs::create_dir(&path).unwrap();
        symlink(&path, folder.path().join("link")).unwrap();
        assert!(BlockLists::open(&folder.path().join("link")).is_err());
        assert!(BlockLists::open(&path).is_ok());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(BlockLists::open(&path).is_err());
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(BlockLists::open(&folder.path().join("file")).is_err());
    }

    #[test]
    fn only_old_lists_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let lists = BlockLists::open(folder.path()).unwrap();
        let others = ["a picture", "notes.blocks", "beef.blocks", "1-2.blocks.new", "00-01.txt"];
        for other in others {
            std::fs::write(folder.path().join(other), "").unwrap();
        }
        let old = folder.path().join("0-1.7.8.9.blocks.new");
        File::create(&old).unwrap().set_modified(UNIX_EPOCH + WRITING).unwrap();
        for id in 0..MOST_LISTS as u16 + 3 {
            lists.write(name(&[7], &id.to_be_bytes()), &[listed(1)]).unwrap();
        }
        let left = folder.path().read_dir().unwrap().count();
        assert_eq!(left, MOST_LISTS + others.len());
        assert!(others.iter().all(|other| folder.path().join(other).exists()));
        let last = (MOST_LISTS as u16 + 2).to_be_bytes();
        assert_eq!(lists.read(name(&[7], &last)).len(), 1);
    }

    #[test]
    fn folders_below_a_home_are_own_and_no_links() {
        let home = tempfile::tempdir().unwrap();
        let open = || BlockLists::open_below(home.path(), Path::new(".cache/hmtt"));
        open().unwrap();
        let cache = home.path().join(".cache");
        assert_eq!(cache.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::remove_dir_all(&cache).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), &cache).unwrap();
        assert!(open().is_err());
        assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0);
        std::fs::remove_file(&cache).unwrap();
        if std::os::unix::fs::chown(home.path(), Some(65534), None).is_err() {
            println!("skipped: only root can give a folder to another user");
            return;
        }
        assert!(open().is_err());
        assert!(!cache.exists());
    }
}
