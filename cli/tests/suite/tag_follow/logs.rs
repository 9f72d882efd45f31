//! Tests that each followed process has its own log.

use super::*;

/// Returns a path for a log, and removes logs of processes with the same numbers.
fn fresh(name: &str) -> PathBuf {
    let file = scratch(&format!("{name}.tags"));
    for entry in std::fs::read_dir(file.parent().unwrap()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&format!("{name}.tags.")) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    file
}

/// Runs a program with a log for each process and without tags, and checks that it behaves the
/// same.
fn log(name: &str, more: &[&str], words: &[&str]) -> PathBuf {
    let file = fresh(name);
    let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let options = ["run", "-f", "--sink", "log", "-o", file.to_str().unwrap()];
    let tagged = hmtt_tag(&[&options, more, &["--"], words].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&tagged.stderr);
    assert_eq!(seen(&tagged), seen(&plain), "{text}");
    // Each log but the first is named on standard error.
    for log in logs(&file).iter().filter(|log| **log != file) {
        assert!(text.contains(&format!(": {}\n", log.display())), "{text}");
    }
    file
}

/// Returns the first log and those of other processes.
fn logs(first: &Path) -> Vec<PathBuf> {
    let name = first.file_name().unwrap().to_string_lossy().into_owned();
    let is_log = |path: &PathBuf| {
        let other = path.file_name().unwrap().to_string_lossy();
        other.starts_with(&name) && !other.ends_with(".json")
    };
    let entries = std::fs::read_dir(first.parent().unwrap()).unwrap().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_log).collect();
    paths.sort();
    paths
}

#[test]
fn each_process_has_its_own_log() {
    let Some(program) = build("tag-f-log", NESTED, &[]) else { return };
    for more in [&[][..], &["--no-time", "--buffer-kb", "8", "--buffers", "2"]] {
        let first = log("tag-f-log", more, &[program.to_str().unwrap()]);
        let logs = logs(&first);
        assert_eq!(logs.len(), 31);
        let mut leaves = Vec::new();
        for file in &logs {
            let (log, map) = (Log::read(file), TagMap::load(&TagMap::path_beside(file)).unwrap());
            assert_eq!((log.lost(), log.begun, log.ended), (0, 1, 1));
            assert!(matches!(log.ending, Some(Ending::Exited(_))));
            assert_eq!(map.program, program.canonicalize().unwrap());
            let name = file.to_string_lossy();
            assert!(*file == first || name.ends_with(&format!(".tags.{}", map.pid)), "{name}");
            leaves.push(log.entries(number(file, "leaf"))[0]);
            let report = hmtt_tag(&["report", "--json", &name]).output().unwrap();
            assert!(report.status.success(), "{report:?}");
        }
        leaves.sort_unstable();
        let expected = (0..=4u64).flat_map(|depth| vec![100 + depth; 1 << depth]);
        assert_eq!(leaves, expected.collect::<Vec<u64>>());
    }
}

#[test]
fn a_log_ends_where_the_process_executes_another_program() {
    let Some(program) = build("tag-f-log-becomes", EXECS, &[]) else { return };
    let first = log("tag-f-log-becomes", &["-i", "step"], &[program.to_str().unwrap(), "3"]);
    let mut endings: Vec<(Option<Ending>, u64)> = logs(&first)
        .iter()
        .map(|file| {
            let log = Log::read(file);
            (log.ending, log.entries(number(file, "step")).iter().sum())
        })
        .collect();
    endings.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    let replaced = Some(Ending::Replaced);
    let expected = [(replaced, 3), (replaced, 2), (replaced, 1), (Some(Ending::Exited(4)), 0)];
    assert_eq!(endings, expected);
    let pid = TagMap::load(&TagMap::path_beside(&first)).unwrap().pid;
    let names: Vec<String> = logs(&first).iter().map(|file| file.display().to_string()).collect();
    let base = first.display();
    assert_eq!(
        names,
        ["", ".P", ".P.2", ".P.3"]
            .map(|end| format!("{base}{}", end.replace('P', &pid.to_string())))
    );
}

#[test]
fn a_fork_in_a_handler_that_interrupted_a_tag_is_counted_once() {
    let Some(program) = build("tag-f-handler", FORKS_IN_HANDLER, &[]) else { return };
    let options = ["-i", "step", "-i", "tick", "--buffer-kb", "8"];
    let file = fresh("tag-f-handler");
    let words = [&["run", "-f", "--sink", "log", "-o", file.to_str().unwrap()], &options[..]];
    let output = hmtt_tag(&words.concat()).arg("--").arg(&program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Each process prints its number, its steps and its ticks.
    let mut count = 0;
    for line in text.lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let own = PathBuf::from(format!("{}.{}", file.display(), words[0]));
        let own = if own.exists() { own } else { file.clone() };
        let log = Log::read(&own);
        let entries = |name| log.entries(number(&own, name)).iter().sum::<u64>();
        let (steps, ticks) = (entries("step"), entries("tick"));
        assert_eq!((ticks, log.lost()), (words[2], 0), "{line}");
        // The call during which the process was forked may have been entered before and completed
        // after.
        assert!((steps..=steps + u64::from(own != file)).contains(&words[1]), "{line}: {steps}");
        count += 1;
    }
    assert_eq!(count, 201, "{text}");
}
