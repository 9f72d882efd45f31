//! Tests `hmtt tag --blocks` and `--loops` on real programs that are built here: each block runs as
//! often as callgrind counts its first instruction, and the programs behave as without tags.

mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::TagMap;
use serde_json::Value;

use crate::tag::{build, hmtt_tag};
use crate::tag_log::log::Log;
use crate::{callgrind, scratch, wait_for};
use programs::{ENDLESS, NESTED, SHAPES, THROWING, TWO_THREADS};

/// Functions for which callgrind names no file.
const UNSEEN: [&str; 2] = ["_init", "_fini"];

/// A tagged block.
#[derive(Debug)]
struct Block {
    function: String,
    offset: i64,
    address: u64,
    is_loop: bool,
    count: u64,
}

fn blocks(file: &Path) -> Vec<Block> {
    let counts: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let block = |block: &Value| Block {
        function: block["function"].as_str().unwrap().to_owned(),
        offset: block["offset"].as_i64().unwrap(),
        address: {
            let digits = block["code_address"].as_str().unwrap().strip_prefix("0x").unwrap();
            u64::from_str_radix(digits, 16).unwrap()
        },
        is_loop: block["loop"].as_bool().unwrap(),
        count: block["entries"].as_u64().unwrap(),
    };
    counts["blocks"].as_array().unwrap().iter().map(block).collect()
}

/// Runs a program with and without tags and checks that it behaves the same.
fn run_same(program: &Path, words: &[&str]) -> Output {
    let plain = Command::new(program).output().unwrap();
    let words = [&["run"], words, &["--", program.to_str().unwrap()]].concat();
    let tagged = hmtt_tag(&words).output().unwrap();
    let seen = |output: &Output| (output.status.code(), output.stdout.clone());
    assert_eq!(seen(&tagged), seen(&plain), "{}", String::from_utf8_lossy(&tagged.stderr));
    tagged
}

/// As `run_same`, but returns the blocks.
fn run_tagged(name: &str, program: &Path, words: &[&str]) -> Vec<Block> {
    let counts = scratch(&format!("{name}.json"));
    run_same(program, &[&["--initializers", "-o", counts.to_str().unwrap()], words].concat());
    blocks(&counts)
}

/// Returns the number of listed blocks of a program, and those that are not tagged with the reason.
fn listed(program: &Path, words: &[&str]) -> (usize, Vec<String>) {
    let words = [&["list"], words, &[program.to_str().unwrap()]].concat();
    let text = String::from_utf8(hmtt_tag(&words).output().unwrap().stdout).unwrap();
    let not_tagged = text.lines().filter(|line| line.contains(": not tagged: "));
    (text.lines().count(), not_tagged.map(str::to_owned).collect())
}

/// Compares all blocks of a program with callgrind, and prints the share of tagged ones. `own`:
/// compare only these functions.
fn compare(name: &str, program: &Path, own: &[&str]) {
    let include: Vec<&str> = own.iter().flat_map(|name| ["-i", name]).collect();
    let words = [&include[..], &["--blocks", "*"]].concat();
    let tagged = run_tagged(name, program, &words);
    let Some(expected) = callgrind::instructions(name, program, &[]) else { return };
    let seen = tagged.iter().filter(|block| !UNSEEN.contains(&block.function.as_str()));
    for block in seen {
        let expected = expected.get(&block.address).copied().unwrap_or(0);
        assert_eq!(block.count, expected, "{name}: {block:?}");
    }
    let (total, refused) = listed(program, &words);
    let executed = tagged.iter().filter(|block| block.count != 0).count();
    println!("{name}: {} of {total} blocks tagged, {executed} executed", tagged.len());
    // The list is made with exits tagged too, so it may refuse a few more.
    assert!(tagged.len() + refused.len() >= total, "{name}: {refused:?}");
    assert!(tagged.len() * 10 >= total * 7, "{name}: {refused:?}");
    assert!(executed * 4 >= tagged.len(), "{name}");
}

#[test]
fn every_block_runs_as_often_as_callgrind_counts() {
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        for (kind, flags) in [("pie", &[][..]), ("fixed", &["-no-pie"])] {
            let name = format!("tag-blocks{level}-{kind}");
            let Some(program) = build(&name, SHAPES, &[&[level], flags].concat()) else { return };
            compare(&name, &program, &[]);
        }
    }
}

#[test]
fn blocks_of_static_programs_run_as_often_as_callgrind_counts() {
    let Some(program) = build("tag-blocks-static", SHAPES, &["-static"]) else { return };
    // The C library selects other functions under callgrind.
    compare("tag-blocks-static", &program, &["glob=shape_*", "main"]);
}

#[test]
fn blocks_of_functions_that_throw_and_catch_run_as_often_as_callgrind_counts() {
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        let name = format!("tag-blocks-throws{level}");
        let Some(program) = build(&name, THROWING, &[level]) else { return };
        compare(&name, &program, &[]);
    }
}

#[test]
fn a_static_program_with_all_its_blocks_tagged_behaves_the_same() {
    let Some(program) = build("tag-blocks-all", SHAPES, &["-static"]) else { return };
    let tagged = run_tagged("tag-blocks-all", &program, &["--blocks", "*"]);
    assert!(tagged.len() > 5000, "{}", tagged.len());
    let executed = tagged.iter().filter(|block| block.count != 0).count();
    println!("{} blocks tagged, {executed} executed", tagged.len());
}

#[test]
fn the_head_of_a_loop_counts_its_iterations() {
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        let name = format!("tag-loops{level}");
        // Loops are compiled as they are written.
        let plain = ["-fno-tree-vectorize", "-fno-unroll-loops", "-fno-tree-loop-distribution"];
        let Some(program) = build(&name, NESTED, &[&[level], &plain[..]].concat()) else { return };
        let words = ["-i", "nested", "-i", "chain", "--loops", "*"];
        let loops = run_tagged(&name, &program, &words);
        let Some(expected) = callgrind::instructions(&name, &program, &[]) else { return };
        let loop_counts = |function: &str| -> Vec<u64> {
            let matching = loops.iter().filter(|block| block.function == function);
            let mut counts: Vec<u64> = matching.map(|block| block.count).collect();
            counts.sort_unstable();
            counts
        };
        assert!(loops.iter().all(|block| block.is_loop));
        for block in &loops {
            assert_eq!(block.count, expected[&block.address], "{name}: {block:?}");
        }
        // A loop with its condition at the end runs its head once per iteration. A loop with its
        // condition at the head evaluates it once more.
        let [outer, inner] = loop_counts("nested")[..] else { panic!("{name}: {loops:?}") };
        assert!([30, 31].contains(&outer), "{name}: {outer}");
        assert!([30 * 20, 30 * 21].contains(&inner), "{name}: {inner}");
        let [turns] = loop_counts("chain")[..] else { panic!("{name}: {loops:?}") };
        assert!([1000, 1001].contains(&turns), "{name}: {turns}");
    }
}

#[test]
fn blocks_that_cannot_be_tagged_are_listed_with_the_reason() {
    let Some(program) = build("tag-blocks-listed", SHAPES, &["-O2"]) else { return };
    let (total, refused) = listed(&program, &["--blocks", "shape_offsets"]);
    assert!(total > 3 && refused.len() == total, "{refused:?}");
    let reasons =
        ["is computed, and its targets are not known", "computes an address from its address"];
    let has_reason = |line: &String| reasons.iter().any(|reason| line.contains(reason));
    assert!(refused.iter().all(has_reason), "{refused:?}");
    let (total, refused) = listed(&program, &["--loops", "shape_irreducible"]);
    assert!(total == 1 && refused[0].contains("not a natural loop"), "{refused:?}");
    let counts = scratch("tag-blocks-listed.json");
    let words = ["--blocks", "shape_offsets", "-o", counts.to_str().unwrap()];
    let text = String::from_utf8(run_same(&program, &words).stderr).unwrap();
    assert!(text.contains("blocks are not tagged; hmtt tag list prints the reasons"), "{text}");
    assert!(blocks(&counts).is_empty());
}

#[test]
fn the_json_list_has_the_same_blocks() {
    let Some(program) = build("tag-blocks-json", SHAPES, &["-O2"]) else { return };
    let (total, refused) = listed(&program, &["--blocks", "shape_offsets"]);
    let words = ["list", "--json", "--blocks", "shape_offsets", program.to_str().unwrap()];
    let output = hmtt_tag(&words).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let blocks = json["blocks"].as_array().unwrap();
    let bad = blocks.iter().filter(|block| !block["refused"].is_null()).count();
    assert_eq!((blocks.len(), bad), (total, refused.len()));
}

#[test]
fn blocks_are_listed_with_their_source_lines() {
    let Some(program) = build("tag-blocks-lines", NESTED, &["-O0", "-g"]) else { return };
    let words = ["list", "--loops", "chain", program.to_str().unwrap()];
    let text = String::from_utf8(hmtt_tag(&words).output().unwrap().stdout).unwrap();
    let line = 1 + NESTED.lines().position(|line| line.contains("N int chain")).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(" loop (") && text.contains(&format!("tag-blocks-lines.c:{line})")));
}

#[test]
fn a_table_names_blocks_by_function_and_offset() {
    let Some(program) = build("tag-blocks-table", NESTED, &["-O0"]) else { return };
    let output = run_same(&program, &["-i", "chain", "--blocks", "chain"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.lines().any(|line| line.trim_start().starts_with("1 chain+0")), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("1001 chain+")), "{text}");
}

#[test]
fn two_threads_in_one_loop_lose_no_iteration() {
    let Some(program) = build("tag-blocks-threads", TWO_THREADS, &["-O1"]) else { return };
    let words = ["-i", "turn", "--blocks", "turn"];
    let tagged = run_tagged("tag-blocks-threads", &program, &words);
    let turns = tagged.iter().find(|block| block.is_loop).unwrap();
    assert_eq!(turns.count, 2 * 3_000_000, "{tagged:?}");
    let first = tagged.iter().find(|block| block.offset == 0).unwrap();
    assert_eq!(first.count, 2);
}

fn log_blocks(name: &str, program: &Path, words: &[&str]) -> (Log, TagMap) {
    let file = scratch(&format!("{name}.tags"));
    run_same(
        program,
        &[&["--sink", "log", "--overwrite", "-o", file.to_str().unwrap()], words].concat(),
    );
    (Log::read(&file), TagMap::load(&TagMap::path_beside(&file)).unwrap())
}

#[test]
fn a_log_has_blocks_between_the_entry_and_the_exit_of_their_function() {
    let Some(program) = build("tag-blocks-log", SHAPES, &["-O1"]) else { return };
    let only = ["-i", "glob=shape_*", "-i", "main", "--blocks", "*"];
    let counted = run_tagged("tag-blocks-log", &program, &only);
    for more in [&[][..], &["--no-time", "--buffer-kb", "8", "--buffers", "2"]] {
        let (log, map) = log_blocks("tag-blocks-log", &program, &[&only, more].concat());
        let functions: BTreeMap<FunctionId, FunctionId> =
            map.blocks.iter().map(|block| (block.number, block.function_number)).collect();
        let starts: BTreeSet<FunctionId> = map
            .blocks
            .iter()
            .filter(|block| {
                map.functions.iter().any(|function| function.code_address == block.code_address)
            })
            .map(|block| block.number)
            .collect();
        assert_eq!(log.lost(), 0);
        let events = log.threads.values().next().unwrap();
        let mut frames: Vec<(FunctionId, u32)> = Vec::new();
        let mut counts = BTreeMap::<FunctionId, u64>::new();
        let mut is_new = false;
        for event in events {
            // Frames that a jump left have no exit.
            frames.retain(|(_, sp)| *sp >= event.sp || frames_grow_down(*sp, event.sp));
            match functions.get(&event.number) {
                Some(function) => {
                    assert_eq!(frames.last().map(|(number, _)| number), Some(function));
                    assert!(!is_new || starts.contains(&event.number), "{event:?}");
                    *counts.entry(event.number).or_default() += 1;
                }
                None if event.is_exit => {
                    assert_eq!(frames.pop(), Some((event.number, event.sp)));
                }
                None => frames.push((event.number, event.sp)),
            }
            is_new = !functions.contains_key(&event.number) && !event.is_exit;
        }
        assert_eq!(frames, []);
        // Blocks have the same counts wherever the library was loaded.
        let main = map.functions.iter().find(|function| function.name == "main").unwrap();
        let here = counted.iter().find(|one| one.function == "main" && one.offset == 0).unwrap();
        let bias = main.code_address - here.address;
        for block in &counted {
            let number = map.blocks.iter().find(|one| one.code_address == block.address + bias);
            let logged = counts.get(&number.unwrap().number).copied().unwrap_or(0);
            assert_eq!(logged, block.count, "{block:?}");
        }
    }
}

/// Whether one stack pointer is below another; stacks do not wrap here.
fn frames_grow_down(frame_sp: u32, event_sp: u32) -> bool {
    frame_sp > event_sp
}

#[test]
fn a_report_of_a_log_counts_blocks() {
    let Some(program) = build("tag-blocks-report", NESTED, &["-O0"]) else { return };
    let only = ["-i", "chain", "--blocks", "chain"];
    let (_, map) = log_blocks("tag-blocks-report", &program, &only);
    let file: PathBuf = scratch("tag-blocks-report-copy.tags");
    drop(map);
    run_same(
        &program,
        &[&["--sink", "log", "--overwrite", "-o", file.to_str().unwrap()][..], &only].concat(),
    );
    let words = ["report", "--json", file.to_str().unwrap()];
    let report: Value = serde_json::from_slice(&hmtt_tag(&words).output().unwrap().stdout).unwrap();
    let blocks = report["blocks"].as_array().unwrap();
    assert!(blocks.iter().any(|block| block["entries"] == 1001 && block["function"] == "chain"));
    let function = &report["functions"][0];
    assert_eq!((&function["name"], &function["calls"]), (&"chain".into(), &1.into()), "{report}");
}

#[test]
fn the_card_sink_writes_each_block_to_its_own_address() {
    let Some(program) = build("tag-blocks-card", NESTED, &["-O1"]) else { return };
    let (window, file) = (scratch("tag-blocks-card.window"), scratch("tag-blocks-card.tags"));
    std::fs::write(&window, vec![0; 1 << 16]).unwrap();
    let place = window.to_str().unwrap();
    let words =
        ["--sink", "card", "--window", place, "--window-base", "0x380000000", "--overwrite", "-o"];
    let only = ["-i", "nested", "--blocks", "nested"];
    let counted = run_tagged("tag-blocks-card", &program, &only);
    run_same(&program, &[&words, &[file.to_str().unwrap()][..], &only].concat());
    let map = TagMap::load(&TagMap::path_beside(&file)).unwrap();
    let bytes = std::fs::read(&window).unwrap();
    let bias = map.functions[0].code_address - counted[0].address;
    assert!(map.blocks.len() > 3 && map.blocks.len() == counted.len());
    for (block, counted) in map.blocks.iter().zip(&counted) {
        let at = 64 * 2 * block.number.index();
        let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(block.code_address, counted.address + bias);
        assert_eq!(word, if counted.count == 0 { 0 } else { 1 + 2 * block.number.0 });
    }
}

/// Returns the executable mappings of a program's file as they are in memory.
fn text_of(pid: u32, program: &Path) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let program = program.canonicalize().unwrap();
    let is_text =
        |line: &&str| line.contains(" r-xp ") && line.ends_with(program.to_str().unwrap());
    let line = maps.lines().find(is_text).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|one| u64::from_str_radix(one, 16).unwrap());
    let mut bytes = vec![0; (end - start) as usize];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    memory.read_exact_at(&mut bytes, start).unwrap();
    bytes
}

#[test]
fn no_tags_of_blocks_remain_after_detaching() {
    let Some(program) = build("tag-blocks-endless", ENDLESS, &["-O2"]) else { return };
    let mut child = Command::new(&program);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let (pid, before) = (child.id(), text_of(child.id(), &program));
    for round in 0..5 {
        let counts = scratch(&format!("tag-blocks-endless-{round}.json"));
        let words = ["attach", "--blocks", "*", "-o", counts.to_str().unwrap(), &pid.to_string()];
        let mut tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&mut tag, "the program has tags", || text_of(pid, &program) != before);
        // SAFETY: sends a signal to our own child.
        assert_eq!(unsafe { libc::kill(tag.id() as i32, libc::SIGINT) }, 0);
        let tag = tag.wait_with_output().unwrap();
        assert!(tag.status.success(), "{}", String::from_utf8_lossy(&tag.stderr));
        assert!(text_of(pid, &program) == before);
        // The program is in a loop that was moved to a stub completely, and does not leave it.
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(!maps.contains("hmtt-tag"), "{maps}");
    }
    drop(child.stdin.take());
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text, "0\n");
}
