//! Compiles Verilog into models, each text once, and keeps the models in a directory, beside the
//! run-time libraries of `compiler`.
//!
//! A model is built in a temporary directory and then renamed, so that a cache shared by parallel
//! runs never holds an incomplete model. The name of a model is a hash of all its inputs.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, io, process};

use hmtt_paths::{Folder, check_owner, check_private};

use super::compiler::Compiler;
use super::{EngineError, clocks, loops};
use crate::schedule::TX_OFFSET_PS;

const HARNESS: &str = include_str!("main.cpp");
/// Name of the directory.
const DIRECTORY: &str = "hmtt-sim";
/// Cargo marks its target directories with this file.
const TARGET_MARK: &str = "CACHEDIR.TAG";
/// Allows one build at a time in this process. Without it all tests of one model would build the
/// model.
static BUILDING: Mutex<()> = Mutex::new(());

/// Returns `hmtt-sim` in the target directory from which the program runs, otherwise in the user's
/// cache directory. Models are executed, so nobody else may be able to put one there. The target
/// directory is not checked, because it also has this program. Otherwise each directory, from the
/// one in `XDG_CACHE_HOME` or `HOME` down to `hmtt-sim`, must belong to the user, the directories
/// below the first one must not be links, and nobody else may be able to write to `hmtt-sim`.
///
/// # Errors
/// The user has no cache directory, it belongs to another user or can be written by others, or it
/// cannot be created.
pub fn default_directory() -> Result<PathBuf, EngineError> {
    let executable = env::current_exe().unwrap_or_default();
    let target = executable.ancestors().skip(1).find(|path| path.join(TARGET_MARK).is_file());
    if let Some(target) = target {
        return Ok(target.join(DIRECTORY));
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let (home, below) = match (absolute("XDG_CACHE_HOME"), absolute("HOME")) {
        (Some(cache), _) => (cache, PathBuf::from(DIRECTORY)),
        (None, Some(home)) => (home, Path::new(".cache").join(DIRECTORY)),
        (None, None) => {
            let failed = EngineError::io("find", Path::new("~/.cache"));
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
    };
    let directory = home.join(&below);
    create_own(&home, &below).map_err(EngineError::io("keep compiled models in", &directory))?;
    Ok(directory)
}

/// Creates the directories `below` in a directory of the user.
fn create_own(home: &Path, below: &Path) -> io::Result<()> {
    let mut directory = Folder::open_to_change(home)?;
    check_owner(&directory.status()?)?;
    for name in below {
        directory.create_folder(name, 0o700)?;
        directory = directory.own_folder(Path::new(name))?;
    }
    check_private(&directory.status()?)
}

/// Returns the compiled model of `verilog`, and builds it if `cache` does not have it. `traced`:
/// the model can write waveforms. `compiling` is called with the model's path before a build.
pub fn model(
    verilog: &str,
    cache: &Path,
    traced: bool,
    compiling: fn(&Path),
) -> Result<PathBuf, EngineError> {
    let (verilog, fifo) = watched(&clocks::unified(verilog));
    let harness =
        HARNESS.replace("@TX_OFFSET_PS@", &TX_OFFSET_PS.to_string()).replace("@FIFO@", &fifo);
    let compiler = Compiler::new(traced)?;
    let mut hasher = DefaultHasher::new();
    (&verilog, &harness, &compiler).hash(&mut hasher);
    loops::ISOLATE.hash(&mut hasher);
    let key = format!("{:016x}", hasher.finish());
    let model = cache.join(&key);
    // A build that panicked in another thread leaves nothing incomplete in the cache, so a poisoned
    // lock is harmless.
    let _building = BUILDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if model.is_file() {
        return Ok(model);
    }
    compiling(&model);
    let directory = cache.join(format!("{key}.{}", process::id()));
    let built = compiler
        .compile(&verilog, &harness, &directory, cache)
        .and_then(|built| fs::rename(&built, &model).map_err(EngineError::io("create", &model)));
    let removed = fs::remove_dir_all(&directory);
    built?;
    removed.map_err(EngineError::io("remove", &directory))?;
    Ok(model)
}

/// Signals of the top module that give the FIFO's fill level: the pointers of its writer and its
/// reader.
const FIFO_POINTERS: [(&str, &str); 2] =
    [("FIFO_COMMITTED", "packet_fifo$write$committed"), ("FIFO_FREED", "packet_fifo$read$freed")];

/// Marks the FIFO's pointers so that the harness can read them, and returns the definitions of
/// their names. Verilog without these signals is not changed. The marks add no logic to the card.
fn watched(verilog: &str) -> (String, String) {
    let mut marked = verilog.to_owned();
    let mut defines = String::new();
    for (name, signal) in FIFO_POINTERS {
        let declared = format!(" {signal};");
        let Some(at) = marked.find(&declared) else { return (verilog.into(), String::new()) };
        let line = &marked[marked[..at].rfind('\n').map_or(0, |newline| newline + 1)..at];
        let high = line.split(['[', ':']).nth(1).and_then(|high| high.trim().parse::<u32>().ok());
        let Some(high) = high else { return (verilog.into(), String::new()) };
        marked.insert_str(at + declared.len() - 1, " /*verilator public_flat_rd*/");
        let member = signal.replace('$', "__024");
        defines += &format!("#define {name} top__DOT__{member}\n");
        if name == "FIFO_FREED" {
            defines += &format!("#define FIFO_MASK {:#x}u\n", (2u64 << high) - 1);
        }
    }
    (marked, defines)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn models_are_kept_only_where_nobody_else_can_put_one() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("a");
        let create = || create_own(home.path(), Path::new("a/b"));
        create().unwrap();
        assert_eq!(cache.join("b").metadata().unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(cache.join("b"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(create().is_err(), "others can write to it");
        fs::remove_dir_all(&cache).unwrap();
        symlink(home.path(), &cache).unwrap();
        assert!(create().is_err(), "a link");
        fs::remove_file(&cache).unwrap();
        if chown(home.path(), Some(65534), None).is_err() {
            println!("skipped: only root can give a directory to another user");
            return;
        }
        assert!(create().is_err(), "a home of another user");
        assert!(!cache.exists());
    }
}
