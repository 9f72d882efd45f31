//! Compiles Verilog and the harness into a program: Verilator writes C++, which Verilator's
//! makefile compiles.
//!
//! Most of the time would go into code that is the same for every model. So the objects of
//! Verilator's run-time library are kept in the cache, once for each set of flags. And the files
//! that Verilator writes are joined into two before they are compiled, because each of them
//! includes headers that take half a second.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use super::{EngineError, loops};

/// Flags of Verilator. Warnings about widths and combinational loops are off: rust-hdl checks both
/// itself.
const FLAGS: [&str; 16] = [
    "--cc",
    "--exe",
    "-O3",
    "-Wno-WIDTH",
    "-Wno-UNOPTFLAT",
    "--top-module",
    "top",
    "--prefix",
    "Vtop",
    "--Mdir",
    "obj",
    "--x-assign",
    "fast",
    "--noassert",
    "-CFLAGS",
    // The harness defines its own vl_fatal.
    "-march=native -DVL_USER_FATAL",
];
/// Arguments of `make`. The variables replace Verilator's lists of the files that it has written.
const MAKE: [&str; 10] = [
    "-f",
    "Vtop.mk",
    "-j",
    "2",
    // Verilator's makefile appends its own -Os to -CFLAGS. -O3 made the model 6 % slower.
    "OPT_FAST=-O2",
    "VM_PARALLEL_BUILDS=1",
    "VM_CLASSES_FAST=fast",
    "VM_CLASSES_SLOW=slow",
    "VM_SUPPORT_FAST=",
    "VM_SUPPORT_SLOW=",
];
/// Parts of the names of files whose code does not run at each clock.
const SLOW: [&str; 4] = ["__Slow", "__ConstPool", "__Syms", "__Dpi"];
/// Start of the names of the run-time library's objects.
const LIBRARY: &str = "verilated";
/// Maximum length in bytes of the end of a log that is shown.
const LOG_SHOWN: usize = 4000;

/// Verilator and its flags. Its hash covers all inputs of a model except the Verilog and the
/// harness.
#[derive(Hash)]
pub struct Compiler {
    /// The output of `verilator --version`.
    version: Vec<u8>,
    /// Whether models can write waveforms.
    traced: bool,
    flags: ([&'static str; FLAGS.len()], [&'static str; MAKE.len()]),
}

impl Compiler {
    /// Finds Verilator. `traced`: the models can write waveforms.
    pub fn new(traced: bool) -> Result<Compiler, EngineError> {
        let output = Command::new("verilator").arg("--version").output();
        let version = output.map_err(EngineError::from_verilator)?.stdout;
        Ok(Compiler { version, traced, flags: (FLAGS, MAKE) })
    }

    /// Compiles a model in `directory`, which it creates, and returns the program's path. `cache`:
    /// keeps the objects of the run-time library.
    pub fn compile(
        &self,
        verilog: &str,
        harness: &str,
        directory: &Path,
        cache: &Path,
    ) -> Result<PathBuf, EngineError> {
        fs::create_dir_all(directory).map_err(EngineError::io("create", directory))?;
        let verilog = loops::without_loops(verilog, directory)?;
        write(&directory.join("top.v"), &verilog)?;
        write(&directory.join("main.cpp"), harness)?;
        let mut verilator = Command::new("verilator");
        verilator.args(FLAGS).args(self.traced.then_some("--trace")).args(["top.v", "main.cpp"]);
        let output = verilator.current_dir(directory).output();
        checked(output.map_err(EngineError::from_verilator)?)?;

        let objects = directory.join("obj");
        join_sources(&objects)?;
        let library = cache.join(format!("{:016x}.library", self.hash()));
        let has_library =
            copy_library(&library, &objects).map_err(EngineError::io("copy", &library))?;
        let output = Command::new("make").args(MAKE).current_dir(&objects).output();
        checked(output.map_err(EngineError::io("run", Path::new("make")))?)?;
        if !has_library {
            let kept = directory.join("library");
            copy_library(&objects, &kept).map_err(EngineError::io("copy", &objects))?;
            // Another process may have kept the same objects in the meantime. Then this copy is
            // removed with `directory`.
            let _ = fs::rename(&kept, &library);
        }
        Ok(objects.join("Vtop"))
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }
}

/// Writes `fast.cpp` and `slow.cpp`, which include all C++ that Verilator has written in
/// `directory`.
fn join_sources(directory: &Path) -> Result<(), EngineError> {
    let names = names(directory).map_err(EngineError::io("read", directory))?;
    let sources = names.iter().filter(|name| name.ends_with(".cpp"));
    let (slow, fast): (Vec<&String>, Vec<&String>) =
        sources.partition(|name| SLOW.iter().any(|part| name.contains(part)));
    for (joined, sources) in [("fast.cpp", fast), ("slow.cpp", slow)] {
        let text: String = sources.iter().map(|name| format!("#include \"{name}\"\n")).collect();
        write(&directory.join(joined), &text)?;
    }
    Ok(())
}

/// Copies the objects of the run-time library, and returns whether the directory `from` exists. The
/// copies are newer than the sources of the objects, so `make` does not build them again.
fn copy_library(from: &Path, to: &Path) -> io::Result<bool> {
    let names = match names(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        names => names?,
    };
    fs::create_dir_all(to)?;
    let objects = names.iter().filter(|name| name.starts_with(LIBRARY) && name.ends_with(".o"));
    for name in objects {
        fs::copy(from.join(name), to.join(name))?;
    }
    Ok(true)
}

/// Returns the names of the files in a directory that are UTF-8, as all of Verilator's are, in
/// order.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

fn write(path: &Path, text: &str) -> Result<(), EngineError> {
    fs::write(path, text).map_err(EngineError::io("write", path))
}

/// Turns a failure into an error with the end of the log.
fn checked(output: Output) -> Result<(), EngineError> {
    if output.status.success() {
        return Ok(());
    }
    let log = [output.stdout, output.stderr].concat();
    let shown = &log[log.len().saturating_sub(LOG_SHOWN)..];
    Err(EngineError::Build { log: String::from_utf8_lossy(shown).into_owned() })
}
