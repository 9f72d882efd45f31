//! Tests Debian's stripped programs whose libraries do most of the work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_probe::elf::Image;

use crate::tag::{calls, hmtt_tag};
use crate::{callgrind, scratch, skipped};

/// Returns the paths of a program and of a library that it uses.
fn files(program: &str, library: &str) -> Option<(PathBuf, PathBuf)> {
    let program = Path::new("/usr/bin").join(program);
    let used = match Command::new("ldd").arg(&program).output() {
        Ok(used) if program.exists() => used,
        _ => {
            skipped(format!("no {}, or no ldd", program.display()));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&used.stdout).into_owned();
    let Some(line) = text.lines().find(|line| line.trim_start().starts_with(library)) else {
        skipped(format!("{} does not use {library}", program.display()));
        return None;
    };
    let path = line.split_whitespace().nth(2).unwrap();
    Some((program.canonicalize().unwrap(), Path::new(path).canonicalize().unwrap()))
}

/// Checks that the library's named functions have the counts of callgrind, and that the program
/// behaves as without tags.
fn check(program: &str, library: &str, words: &[&str], least: usize) {
    let Some((path, file)) = files(program, library) else { return };
    let counts = scratch(&format!("real-{program}.json"));
    let rule = format!("library={library}*");
    let options =
        ["run", "--initializers", "-i", &rule, "--overwrite", "-o", counts.to_str().unwrap(), "--"];
    let tagged = hmtt_tag(&options).arg(&path).args(words).output().unwrap();
    let plain = Command::new(&path).args(words).output().unwrap();
    let complaint = String::from_utf8_lossy(&tagged.stderr);
    assert_eq!(tagged.status.code(), plain.status.code(), "{complaint}");
    assert!(tagged.stdout == plain.stdout && !plain.stdout.is_empty(), "{complaint}");
    let name = format!("real-{program}");
    let Some(seen) = callgrind::calls_of_library(&name, &path, words, &file) else { return };
    let image = Image::read(&file).unwrap();
    let expected = callgrind::by_name(&image, &seen);
    let call_counts: BTreeMap<String, u64> = calls(&counts);
    let named =
        image.functions.iter().filter(|function| !function.symbols.is_empty() && !function.ifunc);
    let named: Vec<&String> = named.map(|one| &one.name).collect();
    let wrong: Vec<_> = named
        .iter()
        .map(|name| (name, expected[*name], call_counts.get(*name).copied().unwrap_or(0)))
        .filter(|(_, expected, found)| expected != found)
        .collect();
    assert!(wrong.is_empty(), "{program}: function, expected, counted: {wrong:?}");
    let called = named.iter().filter(|name| expected[**name] != 0).count();
    assert!(called >= least, "{program}: {called} functions were called");
}

#[test]
fn counts_of_xz_equal_those_of_callgrind() {
    let input = scratch("real-xz.txt");
    let text: Vec<u8> = (0..200_000u64).map(|n| (n * n * 7 + n / 3) as u8 % 97).collect();
    std::fs::write(&input, text).unwrap();
    check("xz", "liblzma.so", &["-k", "-c", "-1", "-T1", input.to_str().unwrap()], 5);
}

#[test]
fn counts_of_sqlite3_equal_those_of_callgrind() {
    let query = "create table t(a integer primary key, b text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) \
        insert into t select i, printf('%d %s', i, hex(i % 97)) from n; \
        create index x on t(b); delete from t where a % 3 = 0; \
        select count(*), sum(length(b)), max(b) from t where b like '%3%';";
    check("sqlite3", "libsqlite3.so", &["-batch", ":memory:", query], 20);
}
