//! Builds simulators from their sources, and runs them with the command lines that are stated. An
//! environment variable names the folder of each source; without it, the test is reported as
//! skipped.

use std::process::Command;

use super::simulators::{COUNT, number_behind, paragraph};
use super::*;
use crate::skipped;

/// The folder that an environment variable names.
fn source(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        skipped(format_args!("{variable} does not name the source of a simulator"));
    }
    folder
}

/// A folder for a build, which does not exist.
fn build_folder(name: &str) -> PathBuf {
    let folder = scratch(&format!("{name}.file")).with_extension("build");
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Runs a command to its end. Returns what it prints.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Builds DRAMsim3. Its thermal model needs a library of its own, and is left out.
fn build_dramsim3(source: &Path) -> PathBuf {
    let files = std::fs::read_dir(source.join("src")).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        name.ends_with(".cc") && !name.contains("thermal")
    });
    let program = scratch("dramsim3main");
    let mut compiler = Command::new("g++");
    compiler.args(["-O1", "-w", "-std=c++11", "-DFMT_HEADER_ONLY=1", "-o"]).arg(&program);
    for folder in ["src", "ext/headers", "ext/fmt/include"] {
        compiler.arg("-I").arg(source.join(folder));
    }
    assert!(compiler.args(files).status().unwrap().success());
    program
}

#[test]
fn dramsim3_does_all_requests() {
    let Some(source) = source("HMTT_DRAMSIM3") else { return };
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let program = build_dramsim3(&source);
    let configuration = std::fs::read_to_string(source.join("configs/DDR4_8Gb_x8_3200.ini"));
    let configuration =
        configuration.unwrap().replace("[system]", "[system]\nunified_queue = true");
    let path = scratch("dramsim3.ini");
    std::fs::write(&path, configuration).unwrap();
    for options in [&COUNT[..], &[&COUNT[..], &["--cache", "l1=4K,1,64,lru"]].concat()] {
        let (output, error) = converted(file, "dramsim3", options);
        let text = paragraph(&error);
        let folder = scratch("dramsim3-results");
        std::fs::create_dir_all(&folder).unwrap();
        let mut simulator = Command::new(&program);
        simulator.arg(&path).arg("-c").arg(number_behind(text, " -c ").to_string());
        simulator.arg("-t").arg(&*output).arg("-o").arg(&folder);
        assert!(simulator.status().unwrap().success());
        let results = std::fs::read_to_string(folder.join("dramsim3.txt")).unwrap();
        let result = |name: &str| {
            let line = results.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(result("num_reads_done"), number_behind(text, "has counted "));
        assert_eq!(result("num_writes_done"), number_behind(text, " reads and "));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// Builds Ramulator 2.0 in a folder of its own. The libraries that its CMake file would fetch are
/// taken from its folder `ext` if they are there. Its own optimisation takes more than ten minutes.
fn build_ramulator(source: &Path) -> PathBuf {
    let folder = build_folder("ramulator2");
    std::fs::create_dir_all(&folder).unwrap();
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(&folder).arg("-DCMAKE_BUILD_TYPE=Release");
    configure.arg("-DCMAKE_CXX_FLAGS_RELEASE=-O1");
    if source.join("ext/yaml-cpp").is_dir() {
        configure.arg("-DFETCHCONTENT_FULLY_DISCONNECTED=ON");
    }
    run(&mut configure);
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&folder).args(["--parallel", "2", "--target", "ramulator-exe"]);
    run(&mut build);
    folder.join("ramulator2")
}

/// A configuration of Ramulator 2.0 for a file.
fn ramulator_configuration(file: &str) -> String {
    format!(
        "Frontend: {{impl: LoadStoreTrace, path: {file}, clock_ratio: 1}}\n\
         MemorySystem:\n  impl: GenericDRAM\n  clock_ratio: 1\n  \
         DRAM: {{impl: DDR4, org: {{preset: DDR4_8Gb_x8, channel: 1, rank: 2}}, timing: {{preset: DDR4_2400R}}}}\n  \
         Controller: {{impl: Generic, Scheduler: {{impl: FRFCFS}}, RefreshManager: {{impl: AllBank}}, \
         RowPolicy: {{impl: ClosedRowPolicy, cap: 4}}, plugins: []}}\n  \
         AddrMapper: {{impl: RoBaRaCoCh}}\n"
    )
}

#[test]
fn ramulator_does_all_requests() {
    let Some(source) = source("HMTT_RAMULATOR") else { return };
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let program = build_ramulator(&source);
    let (output, error) = converted(file, "ramulator", &COUNT);
    let text = paragraph(&error);
    let configuration = scratch("ramulator2.yaml");
    let file = output.to_str().unwrap();
    std::fs::write(&configuration, ramulator_configuration(file)).unwrap();
    let printed = run(Command::new(program).arg("-f").arg(&*configuration));
    let (reads, writes) = (number_behind(text, "requests: "), number_behind(text, " reads and "));
    assert_eq!(number_behind(&printed, "total_num_read_requests: "), reads);
    assert_eq!(number_behind(&printed, "total_num_write_requests: "), writes);
}

/// Most instructions that ChampSim's default processor retires in a cycle.
const RETIRE_WIDTH: u64 = 5;

/// Builds ChampSim as its default configuration is, in a copy of its source, because it writes into
/// that. Without the libraries that vcpkg installs there, those of the system are used.
fn build_champsim(source: &Path) -> PathBuf {
    let folder = build_folder("champsim");
    run(Command::new("cp").arg("-a").arg(source).arg(&folder));
    let libraries = folder.join("vcpkg_installed");
    if !libraries.is_dir() {
        let [include, lib] = ["include", "lib"].map(|name| libraries.join("system").join(name));
        std::fs::create_dir_all(&include).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        for name in ["CLI", "fmt", "nlohmann"] {
            std::os::unix::fs::symlink(Path::new("/usr/include").join(name), include.join(name))
                .unwrap();
        }
        // CLI11 of Debian has headers only.
        run(Command::new("ar").arg("rcs").arg(lib.join("libCLI11.a")));
    }
    run(Command::new("./config.sh").arg("champsim_config.json").current_dir(&folder));
    run(Command::new("make").args(["-j2", "CXXFLAGS=-O1"]).current_dir(&folder));
    folder.join("bin/champsim")
}

#[test]
fn champsim_executes_all_instructions() {
    let Some(source) = source("HMTT_CHAMPSIM") else { return };
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let program = build_champsim(&source);
    let (output, error) = converted(file, "champsim", &COUNT);
    let text = paragraph(&error);
    let instructions = number_behind(text, "--simulation-instructions ");
    let mut simulator = Command::new(&program);
    simulator.args(["--warmup-instructions", "0", "--simulation-instructions"]);
    let printed = run(simulator.arg(instructions.to_string()).arg(&*output));
    let executed = number_behind(&printed, "Simulation complete CPU 0 instructions: ");
    assert!((instructions..instructions + RETIRE_WIDTH).contains(&executed), "{executed}");
}

/// Builds the simulator of libCacheSim, which needs GLib and zstd.
fn build_cachesim(source: &Path) -> PathBuf {
    let folder = build_folder("libcachesim");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(&folder).arg("-DCMAKE_BUILD_TYPE=Release");
    run(&mut configure);
    let mut build = Command::new("cmake");
    run(build.arg("--build").arg(&folder).args(["--parallel", "2", "--target", "cachesim"]));
    folder.join("bin/cachesim")
}

#[test]
fn libcachesim_has_the_miss_ratios_of_mrc() {
    let Some(source) = source("HMTT_LIBCACHESIM") else { return };
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let program = build_cachesim(&source);
    let (output, error) = converted(file, "libcachesim", &COUNT);
    let text = paragraph(&error);
    let requests = number_behind(text, "requests: ") + number_behind(text, " reads and ");
    let mrc = hmtt(&["mrc", "--json", "--sizes", "4K,16K,1M", output.to_str().unwrap()]);
    let mrc: serde_json::Value = serde_json::from_slice(&mrc.stdout).unwrap();
    let ratios = mrc["mrc"]["sizes"].as_array().unwrap().iter();
    let expected = ratios.map(|size| {
        let ratio = size["miss_ratio"].as_f64().unwrap();
        format!("{requests} req, miss ratio {ratio:.4},")
    });
    let mut simulator = Command::new(program);
    // It writes its results into a folder of the working directory, too.
    simulator.current_dir(scratch("libcachesim.file").parent().unwrap()).arg(&*output);
    let printed = run(simulator.args(["oracleGeneral", "lru", "4KB,16KB,1MB"]));
    let results = printed.lines().filter_map(|line| line.find(" req, ").map(|at| (line, at)));
    let counted = results.map(|(line, at)| {
        let count = line[..at].rfind(' ').unwrap() + 1;
        line[count..].split(" byte").next().unwrap().to_owned()
    });
    assert_eq!(counted.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
