//! Tests completions with the shells and man pages with man.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{hmtt, scratch, skipped};

/// Whether a program can be run.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn check(shell: &str, option: &str) {
    let output = hmtt(&["completions", shell]);
    assert!(output.status.success());
    let script = String::from_utf8(output.stdout).unwrap();
    for word in ["convert", "decode", "hole", "hmtt6", "skip-damaged", "cluster", "replace"] {
        assert!(script.contains(word), "{shell}: {word}");
    }
    if !is_there(shell) {
        return skipped(format_args!("no {shell}"));
    }
    let path = scratch(&format!("completions.{shell}"));
    fs::write(&path, script).unwrap();
    let checked =
        Command::new(shell).args([OsStr::new(option), path.as_os_str()]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn bash_loads_its_completions() {
    check("bash", "-n");
}

#[test]
fn zsh_loads_its_completions() {
    check("zsh", "-n");
}

#[test]
fn fish_loads_its_completions() {
    check("fish", "--no-execute");
}

#[test]
fn bash_completes_a_subcommand() {
    let script = hmtt(&["completions", "bash"]).stdout;
    let path = scratch("complete.bash");
    fs::write(&path, script).unwrap();
    let ask = format!(
        "source '{}'; COMP_WORDS=(hmtt con); COMP_CWORD=1; _hmtt hmtt con hmtt; \
         echo \"${{COMPREPLY[@]}}\"",
        path.display()
    );
    let Ok(answer) = Command::new("bash").args(["-c", &ask]).output() else {
        return skipped("no bash");
    };
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "convert\n");
}

#[test]
fn programs_that_hmtt_executes_have_man_pages() {
    let folder = tempfile::tempdir().unwrap();
    assert!(hmtt(&["man", folder.path().to_str().unwrap()]).status.success());
    for (page, option) in [("hmtt-sql.1", "skip\\-damaged"), ("hmtt-dataset-push.1", "verify")] {
        let text = fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(option), "{page}: {text}");
    }
}

#[test]
fn the_receiver_has_completions() {
    let output = hmtt(&["completions", "bash", "--of", "hmtt-recv"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("--ring-buffer"));
}

#[test]
fn a_missing_program_has_no_completions() {
    let output = hmtt(&["completions", "bash", "--of", "grep"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.starts_with("hmtt: no program is called grep; there are: hmtt"));
}

#[test]
fn man_pages_have_no_warnings() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man-pages");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir(&folder).unwrap();
    let output = hmtt(&["man", folder.to_str().unwrap()]);
    assert!(output.status.success());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for page in ["hmtt.1", "hmtt-convert.1", "hmtt-recv.1"] {
        assert!(names.iter().any(|name| name == page), "no {page}");
    }
    let is_mandoc = is_there("mandoc");
    if !is_mandoc && !is_there("man") {
        return skipped("neither mandoc nor man");
    }
    for name in names {
        let mut command = Command::new(if is_mandoc { "mandoc" } else { "man" });
        let options: &[&str] = if is_mandoc { &["-T", "lint"] } else { &["--warnings", "-l"] };
        let checked = command
            .args(options)
            .arg(folder.join(&name))
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() && (is_mandoc || printed.is_empty()), "{name}: {printed}");
    }
}
