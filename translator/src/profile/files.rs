//! Keeps the files of a process's code open, so that functions are found in the files that were
//! executed.
//!
//! A file is opened while the process has it mapped. Later, its path may lead to another file, or
//! to none. Processes that have mapped one file share a descriptor. The program is the file with
//! the device and inode of `/proc/PID/exe`.
//!
//! Files that are no ELF files are not kept: a JIT compiler may write and map many, one after the
//! other. Shared memory that belongs to no file has a name like a file's in the memory map, and is
//! left out.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hmtt_probe::ptrace::{
    FileId, Mapping, ReadMemory, mappings, open_mapped, program, program_mapping,
};
use nix::unistd::Pid;

/// Beginnings of the kernel's names of shared memory: memfd_create(2), shared anonymous memory,
/// System V shared memory, and huge pages of shared anonymous memory. The names end like the path
/// of a file that was removed.
const MEMORY: [&[u8]; 4] = [b"/memfd:", b"/dev/zero (", b"/SYSV", b"/anon_hugepage ("];

/// Why a file cannot be opened or read.
pub type Reason = Arc<dyn Error + Send + Sync>;

/// The identity and the path of a file. Two files of one btrfs device may have the same identity.
pub type Key = (FileId, PathBuf);

/// A mapped file, or why it cannot be opened; `None` if it is no ELF file.
pub type Opened = Result<Option<Arc<File>>, Reason>;

/// The key of the file of a mapping; `None` for memory in no file.
pub fn key(mapping: &Mapping) -> Option<Key> {
    let path = mapping.path.as_os_str().as_bytes();
    let is_memory = mapping.is_deleted() && MEMORY.iter().any(|begin| path.starts_with(begin));
    let id = mapping.file.filter(|_| !is_memory)?;
    Some((id, mapping.original_path()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files that processes have mapped, as long as one of the processes needs them. A clone shares the
/// files with its original.
#[derive(Clone, Debug, Default)]
pub struct OpenFiles(Arc<Mutex<HashMap<Key, Weak<File>>>>);

impl OpenFiles {
    /// The file with a key. It is opened if it is not open.
    fn get(&self, key: &Key, open: impl FnOnce() -> Result<File, Reason>) -> Opened {
        let mut files = lock(&self.0);
        if let Some(file) = files.get(key).and_then(Weak::upgrade) {
            return Ok(Some(file));
        }
        let file = open()?;
        if !is_elf(&file) {
            return Ok(None);
        }
        let file = Arc::new(file);
        files.retain(|_, file| file.strong_count() > 0);
        files.insert(key.clone(), Arc::downgrade(&file));
        Ok(Some(file))
    }
}

/// Whether a file is an ELF file, damaged or not.
fn is_elf(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF"
}

/// The files of a process's code. A clone shares the files with its original.
#[derive(Clone, Debug, Default)]
pub struct CodeFiles {
    /// Identity of the program; `None` if it is not known.
    program: Option<FileId>,
    files: Arc<Mutex<HashMap<Key, Opened>>>,
    open: OpenFiles,
}

impl CodeFiles {
    /// The files of a process, none of them open yet. The process must be stopped, so that it
    /// cannot execute another program.
    pub fn new(pid: Pid, open: OpenFiles) -> Self {
        let mapped = mappings(pid).unwrap_or_default();
        let program = program_mapping(pid, &mapped).and_then(|mapping| mapping.file);
        CodeFiles { program, files: Arc::default(), open }
    }

    /// Opens the files of executable mappings. `mapped`: all mappings of the process.
    pub fn add(&self, memory: &impl ReadMemory, mapped: &[Mapping]) {
        let mut files = lock(&self.files);
        for mapping in mapped.iter().filter(|mapping| mapping.executable) {
            if let Some(key) = key(mapping)
                && !files.contains_key(&key)
            {
                let opened = self.open.get(&key, || self.open(memory, mapping, mapped));
                files.insert(key, opened);
            }
        }
    }

    fn open(
        &self,
        memory: &impl ReadMemory,
        mapping: &Mapping,
        mapped: &[Mapping],
    ) -> Result<File, Reason> {
        // The link `/proc/PID/exe` leads to the program without privileges, even if the program was
        // removed.
        if self.is_program(mapping)
            && let Ok((file, _)) = program(memory.pid())
        {
            return Ok(file);
        }
        let read = |at, bytes: &mut [u8]| memory.read(at, bytes).is_ok();
        open_mapped(memory.pid(), mapping, mapped, read).map_err(|error| Arc::new(error) as Reason)
    }

    /// Whether a mapping belongs to the program.
    pub fn is_program(&self, mapping: &Mapping) -> bool {
        mapping.file.is_some() && mapping.file == self.program
    }

    /// The file of a mapping, if it was opened and is an ELF file.
    pub fn file_of(&self, mapping: &Mapping) -> Option<Arc<File>> {
        self.get(&key(mapping)?)?.ok()?
    }

    /// The file with a key, or why it cannot be opened; `None` if no executable memory was mapped
    /// from it.
    pub fn get(&self, key: &Key) -> Option<Opened> {
        lock(&self.files).get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_probe::address::RunAddr;
    use hmtt_probe::ptrace::RunningMemory;

    fn mapping(path: &str) -> Mapping {
        Mapping {
            start: RunAddr(0x1000),
            end: RunAddr(0x2000),
            readable: true,
            writable: false,
            executable: true,
            shared: false,
            offset: 0,
            file: Some(FileId { device: (0, 1), inode: 7 }),
            path: path.into(),
        }
    }

    #[test]
    fn shared_memory_is_in_no_file() {
        for path in [
            "/memfd:jit (deleted)",
            "/dev/zero (deleted)",
            "/SYSV00000000 (deleted)",
            "/anon_hugepage (deleted)",
        ] {
            assert_eq!(key(&mapping(path)), None, "{path}");
        }
        let removed = key(&mapping("/lib/l.so (deleted)"));
        assert!(removed.is_some() && removed == key(&mapping("/lib/l.so")));
        assert_eq!(key(&Mapping { file: None, ..mapping("[vdso]") }), None);
    }

    #[test]
    fn the_mapped_files_of_this_process_are_opened_once() {
        let (pid, open) = (Pid::this(), OpenFiles::default());
        let [files, other] = [(); 2].map(|()| CodeFiles::new(pid, open.clone()));
        let (memory, mapped) = (RunningMemory::open(pid).unwrap(), mappings(pid).unwrap());
        files.add(&memory, &mapped);
        other.add(&memory, &mapped);
        let code = mapped.iter().find(|mapping| mapping.executable && files.is_program(mapping));
        let key = key(code.unwrap()).unwrap();
        assert_eq!(key.1, std::env::current_exe().unwrap());
        let [first, second] =
            [files, other].map(|files| files.get(&key).unwrap().unwrap().unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        drop((first, second));
        assert!(lock(&open.0).values().all(|file| file.strong_count() == 0));
    }
}
