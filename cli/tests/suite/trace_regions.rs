//! Tests `hmtt trace run --skip --count`: what is recorded is what `hmtt convert` cuts out of a
//! trace of everything.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hmtt_probe::elf::Image;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::tag::build;
use crate::trace_selected::info;
use crate::{LargeFile, hmtt, scratch, skipped};

const REGIONS: &str = include_str!("trace/regions.c");
const FAR: &str = include_str!("trace/far.c");
const ALONE: &str = include_str!("trace/alone.sh");
const THREADS: &str = include_str!("tag_real/programs/threads.c");
const RECORD_BYTES: usize = 64;

/// A program, and the trace of all that it does with some arguments.
#[derive(Clone)]
struct Sample {
    name: &'static str,
    program: PathBuf,
    words: &'static [&'static str],
    full: PathBuf,
}

/// Runs a program at the same addresses each time.
fn recorded(file: &Path, options: &[&str], program: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("setarch");
    command.args(["-R", env!("CARGO_BIN_EXE_hmtt"), "trace", "run", "--overwrite", "-o"]);
    command.arg(file).args(options).arg("--").arg(program).args(words).output().unwrap()
}

fn converted(file: &Path, to: &str, options: &[&str], output: &Path) -> Option<i32> {
    let paths = [file, output].map(|path| path.to_str().unwrap());
    hmtt(&[&["convert", "-f", "--to", to], options, &paths].concat()).status.code()
}

impl Sample {
    /// `None` if there is no compiler, or addresses cannot be the same.
    fn new(name: &'static str, source: &str, words: &'static [&'static str]) -> Option<Self> {
        let flags = ["-nostdlib", "-static", "-no-pie", "-w", "-fno-stack-protector"];
        let program = build(&format!("trace-{name}"), source, &flags)?;
        if !Command::new("setarch").args(["-R", "true"]).status().is_ok_and(|it| it.success()) {
            skipped("setarch -R fails");
            return None;
        }
        let full = scratch(&format!("trace-{name}-full.acc"));
        let run = recorded(&full, &[], &program, words);
        let plain = Command::new(&program).args(words).output().unwrap();
        assert_eq!((run.status.code(), &run.stdout), (Some(0), &plain.stdout), "{run:?}");
        assert_eq!(plain.status.code(), Some(0));
        Some(Sample { name, program, words, full })
    }

    /// Records a region, and checks that it is the same region of the trace of everything. Returns
    /// the file.
    fn check(&self, skip: u64, count: u64, formats: &[&str]) -> PathBuf {
        let Sample { name, program, words, full } = self;
        let file = scratch(&format!("trace-{name}-region.acc"));
        let [first, number] = [skip, count].map(|number| number.to_string());
        let options = ["--skip", &first, "--count", &number];
        let run = recorded(&file, &options, program, words);
        let plain = Command::new(program).args(*words).output().unwrap();
        let what = format!("{name}: {skip}, {count}: {run:?}");
        assert_eq!((run.status.code(), &run.stdout), (Some(0), &plain.stdout), "{what}");
        for to in formats {
            let [whole, cut] =
                ["whole", "cut"].map(|one| LargeFile::new(&format!("trace-{name}-{one}.{to}")));
            assert_eq!(converted(&file, to, &[], &whole), Some(0), "{what}");
            assert_eq!(converted(full, to, &options, &cut), Some(0), "{what}");
            let [whole, cut] = [whole, cut].map(|file| std::fs::read(&*file).unwrap());
            assert!(!cut.is_empty(), "{what}");
            if whole != cut {
                let differs = whole.iter().zip(&cut).position(|(one, other)| one != other);
                panic!("{what}: {to}: {differs:?} of {} and {}", whole.len(), cut.len());
            }
        }
        let info = info(&file);
        let region = &info["region"];
        let members = ["skip", "count", "skipped_instructions", "recorded_instructions"];
        let stated = members.map(|member| region[member].as_u64());
        assert_eq!(stated, [skip, count, skip, count].map(Some), "{what}: {region}");
        file
    }
}

/// The instructions of records of ChampSim.
fn instructions(sample: &Sample) -> Vec<u64> {
    let file = LargeFile::new(&format!("trace-{}-all.cs", sample.name));
    assert_eq!(converted(&sample.full, "champsim", &[], &file), Some(0));
    let bytes = std::fs::read(&*file).unwrap();
    let records = bytes.as_chunks::<RECORD_BYTES>().0.iter();
    records.map(|record| u64::from_le_bytes(*record.first_chunk().unwrap())).collect()
}

#[test]
fn regions_are_those_of_the_trace_of_everything() {
    let has_avx2 = std::fs::read_to_string("/proc/cpuinfo").unwrap().contains(" avx2 ");
    let words: &[&str] = if has_avx2 { &["gathers"] } else { &[] };
    let Some(sample) = Sample::new("regions", REGIONS, words) else { return };
    let pcs = instructions(&sample);
    let image = Image::read(&sample.program).unwrap();
    let places = |name: &str| -> Vec<u64> {
        let is_in = |pc: &u64| image.function_at(*pc).is_some_and(|one| one.name == name);
        let matching = pcs.iter().enumerate().filter(|(_, pc)| is_in(pc));
        matching.map(|(at, _)| at as u64).collect()
    };
    let is_repeated = |pc: u64| {
        let text = image.text.iter().find(|text| (text.start..).contains(&pc));
        let code = text.and_then(|text| text.bytes.get((pc - text.start) as usize..));
        matches!(code, Some([0xf3, 0xa4, ..]))
    };
    let strings: Vec<u64> =
        (0..).zip(&pcs).filter(|(_, pc)| is_repeated(**pc)).map(|(at, _)| at).collect();
    let handled = places("handles");
    // The handler of the fault is behind a copy that was interrupted, which is a record of its own.
    let fault = handled.iter().find(|at| is_repeated(pcs[**at as usize - 1])).unwrap() - 1;
    let mut borders = vec![(0, 1), (0, 700), (1, 1), (40, 3000), (pcs.len() as u64 - 20, 19)];
    let inside = places("sums")[150];
    // Each instruction of blocks, so that borders are at starts, ends and between.
    borders.extend((0..8).map(|more| (inside + more, 1 + more % 3)));
    borders.extend([(strings[0] - 1, 2), (strings[0], 1), (strings[0], 2), (strings[0] + 1, 5)]);
    borders.extend([
        (strings[0] - 2, 2),
        (handled[0] - 1, 2),
        (handled[0], 4),
        (handled[0] - 5, 5),
    ]);
    borders.extend((0..6).map(|more| (fault - 3 + more, 1 + more % 4)));
    if has_avx2 {
        let gathers = places("gathers")[0];
        borders.extend([(gathers + 7, 1), (gathers + 7, 3), (gathers + 3, 5), (gathers + 8, 40)]);
    }
    let lines = |file: &Path| -> String {
        let text = crate::trace::decoded(file);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| format!("{}\n", line.split_once(' ').unwrap().1)).collect()
    };
    let whole = lines(&sample.full);
    for (skip, count) in borders {
        let cut = lines(&sample.check(skip, count, &["champsim", "lackey"]));
        assert!(whole.contains(&cut), "{skip}, {count}: {cut}");
    }
    // All of it, as if nothing was asked for.
    let file = scratch("trace-regions-all.acc");
    let run = recorded(&file, &["--skip", "0"], &sample.program, sample.words);
    assert_eq!((run.status.code(), lines(&file) == whole), (Some(0), true), "{run:?}");
    let [whole_region, full] = [info(&file), info(&sample.full)];
    for member in ["executed_blocks", "accesses", "reads", "writes", "access_bytes", "pages"] {
        assert_eq!(whole_region[member], full[member], "{member}");
    }
}

#[test]
fn regions_with_superblocks_are_the_same() {
    let Some(sample) = Sample::new("long-regions", REGIONS, &["a", "long"]) else { return };
    for (skip, count) in [(1000, 1_700_001), (150, 1_650_017)] {
        sample.check(skip, count, &["ramulator"]);
    }
}

#[test]
fn what_is_far_away_is_counted_only() {
    let Some(sample) = Sample::new("far", FAR, &[]) else { return };
    // In each iteration of 64 instructions, behind five others, the first one writes behind the one
    // before.
    let (skip, count) = (90_000_000, 64_000);
    let info = info(&sample.check(skip, count, &[]));
    let first = (skip - 5).div_ceil(64);
    let lowest = info["lowest_address"].as_str().unwrap().strip_prefix("0x").unwrap();
    let lowest = u64::from_str_radix(lowest, 16).unwrap();
    assert_eq!(lowest % 4096, first % 4096, "{info}");
    let counts = ["accesses", "writes"].map(|member| info[member].as_u64());
    assert_eq!(counts, [Some(1000); 2], "{info}");
}

#[test]
fn signals_faults_and_calls_far_away_are_counted() {
    let Some(sample) = Sample::new("far-regions", REGIONS, &["a", "very", "long"]) else { return };
    let file = scratch("trace-far-regions-all.acc");
    let max = u64::MAX.to_string();
    recorded(&file, &["--skip", &max], &sample.program, sample.words);
    let total = info(&file)["region"]["skipped_instructions"].as_u64().unwrap();
    // Accesses are recorded from 71 million instructions before the region on.
    assert!(total > 80_000_000, "{total}");
    sample.check(total - 50_000, 10_007, &["champsim"]);
}

#[test]
fn programs_that_end_early_are_incomplete() {
    let Some(sample) = Sample::new("short", REGIONS, &[]) else { return };
    let total = instructions(&sample).len() as u64 - 1;
    let file = scratch("trace-short-region.acc");
    let path = file.to_str().unwrap();
    let max = u64::MAX.to_string();
    let nothing = |skip: &str| {
        format!(
            "no instruction of the region was recorded: the thread has executed {total} instructions, and {skip} were to be skipped"
        )
    };
    let [last, end] = [total - 5, total].map(|number| number.to_string());
    for (options, recorded_count, why) in [
        (&["--skip", &last, "--count", "10"][..], 5, "5 of the 10 instructions".to_owned()),
        (&["--skip", &end, "--count", "10"], 0, nothing(&end)),
        (&["--skip", &end], 0, nothing(&end)),
        (&["--skip", &max, "--count", &max], 0, nothing(&max)),
        (&["--count", "99999999999"], total, format!("{total} of the 99999999999 instructions")),
    ] {
        let run = recorded(&file, options, &sample.program, &[]);
        let error = String::from_utf8_lossy(&run.stderr);
        assert_eq!((run.status.code(), &*run.stdout), (Some(3), &b"done\n"[..]), "{error}");
        assert!(error.contains(&why), "{options:?}: {error}");
        let info = hmtt(&["info", "--json", path]);
        let stated: Value = serde_json::from_slice(&info.stdout).unwrap();
        let region = &stated["region"];
        assert_eq!(region["recorded_instructions"].as_u64(), Some(recorded_count), "{region}");
        let text = String::from_utf8(hmtt(&["info", path]).stdout).unwrap();
        assert_eq!((info.status.code(), text.contains(&why)), (Some(3), true), "{text}");
    }
}

#[test]
fn of_several_threads_the_first_one_counts() {
    let Some(program) = build("trace-region-threads", THREADS, &["-w", "-no-pie"]) else { return };
    let file = scratch("trace-region-threads.acc");
    let path = file.to_str().unwrap();
    let words = ["--skip", "1000", "--count", "5000", "--", program.to_str().unwrap()];
    let plain = Command::new(&program).output().unwrap();
    let run = hmtt(&[&["trace", "run", "--overwrite", "-o", path], &words[..]].concat());
    assert_eq!((run.status.code(), run.stdout), (plain.status.code(), plain.stdout));
    let info = info(&file);
    let threads = info["threads"].as_array().unwrap();
    assert_eq!((threads.len(), &threads[0]["thread"]), (1, &info["region"]["thread"]));
    assert_eq!(info["region"]["recorded_instructions"], 5000);
    let output = LargeFile::new("trace-region-threads.cs");
    assert_eq!(converted(&file, "champsim", &[], &output), Some(0));
    assert_eq!(std::fs::metadata(&*output).unwrap().len(), 5000 * RECORD_BYTES as u64);
}

/// A shell that ends when its tracer has left it and a line was read, with some status.
fn alone(end: &str) -> (Child, PathBuf) {
    let file = scratch(&format!("trace-region-{end}.acc"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--overwrite", "--skip", "500", "--count", "999", "-o"]);
    command.arg(&file).args(["--", "sh", "-c", ALONE, "sh", end]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (command.spawn().unwrap(), file)
}

fn next_line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line
}

#[test]
fn behind_the_region_the_program_runs_alone() {
    for (end, code, signal) in
        [("exits", Some(7), None), ("executes", Some(9), None), ("ends", None, Some(15))]
    {
        let (mut child, file) = alone(end);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(next_line(&mut lines), "alone\n");
        // The file is complete before the program ends.
        let is_complete = || {
            std::thread::sleep(Duration::from_millis(50));
            hmtt(&["info", file.to_str().unwrap()]).status.success()
        };
        assert!((0..1200).any(|_| is_complete()));
        assert_eq!(info(&file)["region"]["recorded_instructions"], 999);
        child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        assert_eq!(next_line(&mut lines), "read go on\n");
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.status.signal()), (code, signal), "{output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("warning"), "{error}");
    }
}

#[test]
fn a_signal_behind_the_region_ends_the_command_only() {
    let (mut child, _) = alone("signal");
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    assert_eq!(next_line(&mut lines), "alone\n");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    input.write_all(b"go on\n").unwrap();
    assert_eq!(next_line(&mut lines), "read go on\n");
}

#[test]
fn some_accesses_of_a_region_can_be_chosen() {
    let Some(sample) = Sample::new("chosen-regions", REGIONS, &[]) else { return };
    let file = scratch("trace-chosen-region.acc");
    let region = ["--skip", "20000", "--count", "3333"];
    let counts = |options: &[&str]| {
        let run = recorded(&file, &[&region[..], options].concat(), &sample.program, &[]);
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        let info = info(&file);
        assert_eq!(info["region"]["recorded_instructions"], 3333);
        ["executed_blocks", "reads", "writes"].map(|member| info[member].as_u64().unwrap())
    };
    let [blocks, reads, writes] = counts(&[]);
    assert_eq!(counts(&["--reads"]), [blocks, reads, 0]);
    assert_eq!(counts(&["--writes", "--no-superblocks"]), [blocks, 0, writes]);
    let [same, some, none] = counts(&["-i", "sums", "--reads"]);
    assert_eq!((same, none), (blocks, 0));
    assert!(0 < some && some <= reads);
    assert_eq!(counts(&["--omega", "1%"])[0], blocks);
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let file = scratch("trace-region-refused.acc");
    let path = file.to_str().unwrap();
    for (options, why) in [
        (&["--full", "drop"][..], "leave out --full drop"),
        (&["--sample", "1ms/1ms"], "--sample"),
        (&["--budget", "50%"], "--budget"),
        (&["--count", "0"], "--count"),
        (&["--count", "18446744073709551616"], "--count"),
    ] {
        let words = [&["trace", "run", "-o", path, "--skip", "5"], options, &["true"]].concat();
        let run = hmtt(&words);
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && error.contains(why), "{options:?}: {error}");
        assert!(!file.exists());
    }
}
