//! Has Verilog compiled into a model, once for each text, and keeps the models in a directory, beside the run-time
//! libraries of `compiler`.
//!
//! A model is built in a temporary directory and then renamed, so that a cache shared by parallel runs never holds an
//! incomplete model. The name of a model is a hash of all its inputs.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, process};

use super::compiler::Compiler;
use super::{EngineError, clocks, loops};
use crate::schedule::TX_OFFSET_PS;

const HARNESS: &str = include_str!("main.cpp");
/// Cargo marks its target directories with this file.
const TARGET_MARK: &str = "CACHEDIR.TAG";
/// Allows one build at a time in this process. Without it all tests of one model would build the model.
static BUILDING: Mutex<()> = Mutex::new(());

/// Returns `hmtt-sim` in the target directory from which the program runs, otherwise in the user's cache directory.
pub fn default_directory() -> PathBuf {
    let executable = env::current_exe().unwrap_or_default();
    let target = executable.ancestors().skip(1).find(|path| path.join(TARGET_MARK).is_file());
    let base = target.map(Path::to_owned).unwrap_or_else(|| {
        env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
            .unwrap_or_else(env::temp_dir)
    });
    base.join("hmtt-sim")
}

/// Returns the compiled model of `verilog`, and builds it if `cache` does not have it. `traced`: the model can write
/// waveforms. `compiling` is called with the model's path before a build.
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
    // A build that panicked in another thread leaves nothing incomplete in the cache, so a poisoned lock is harmless.
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

/// Signals of the top module that give the FIFO's fill level: the pointers of its writer and its reader.
const FIFO_POINTERS: [(&str, &str); 2] =
    [("FIFO_COMMITTED", "packet_fifo$write$committed"), ("FIFO_FREED", "packet_fifo$read$freed")];

/// Makes the FIFO's pointers readable by the harness, and returns the definitions of their names. Verilog without these
/// signals is not changed. The marks add no logic to the card.
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
