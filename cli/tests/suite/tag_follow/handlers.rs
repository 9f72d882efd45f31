//! Tests processes that are forked within a signal handler.

use super::*;

const FORKS: &str = include_str!("forks_where_interrupted.c");
/// Options of each kind of tagging.
const WAYS: [&[&str]; 4] = [
    &["--sink", "count"],
    &["--sink", "count", "--blocks", "loops"],
    &["--sink", "log", "--buffer-kb", "64"],
    &["--sink", "log", "--buffer-kb", "64", "--no-time", "--blocks", "loops"],
];

/// Returns how often a process called two functions, according to its tags.
fn tagged(sink: &str, file: &Path, pid: u64) -> [u64; 2] {
    if sink == "count" {
        let counts = Counts::read(file);
        let (_, _, calls) = counts.processes.iter().find(|(other, ..)| *other == pid).unwrap();
        return ["leaf", "tick"].map(|name| calls[name]);
    }
    let own = PathBuf::from(format!("{}.{pid}", file.display()));
    let own = if own.exists() { own } else { file.to_owned() };
    let log = Log::read(&own);
    assert_eq!(log.lost(), 0, "{}", own.display());
    ["leaf", "tick"].map(|name| log.entries(number(&own, name)).iter().sum())
}

#[test]
fn children_of_a_handler_continue_where_their_parent_was_interrupted() {
    let Some(program) = build("tag-f-interrupted", FORKS, &[]) else { return };
    for options in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        let words = [&["run", "-f", "-o", file.to_str().unwrap()], options, &["--"]].concat();
        let output = hmtt_tag(&words).arg(&program).output().unwrap();
        let (text, error) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{options:?}: {text}{error}");
        let lines = text.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()));
        let lines: Vec<Vec<u64>> = lines.map(Iterator::collect).collect();
        // The first process prints last, because children end before it.
        let [children @ .., first] = &lines[..] else { panic!("{options:?}: {error}") };
        assert_eq!(children.len(), 20, "{options:?}: {text}");
        let within = first[3];
        assert!(within > 10, "{options:?}: {within} were within");
        assert_eq!((first[2], first[4]), (20 * 3, 0), "{options:?}: {text}");
        assert_eq!(tagged(options[1], &file, first[0]), first[1..3], "{options:?}: {text}");
        for child in children {
            let [leaf, tick] = tagged(options[1], &file, child[0]);
            assert_eq!((tick, child[4]), (0, 0), "{options:?}: {text}");
            // The interrupted call may have been entered before the fork.
            assert!((leaf..=leaf + 1).contains(&child[1]), "{options:?}: {leaf}: {text}");
        }
    }
}
