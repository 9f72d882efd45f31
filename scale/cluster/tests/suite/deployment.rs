//! Checks the examples of docs/cluster with the parsers of their formats, where these are
//! installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_test_support::files::skipped;

fn examples(extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == extension)).collect();
    assert!(!paths.is_empty(), "{extension}");
    paths
}

/// Whether a command succeeds, and what it reports.
fn check(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn systemd_accepts_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return skipped("no systemd-analyze");
    }
    let folder = tempfile::tempdir().unwrap();
    let verify = |path: &Path| check(Command::new("systemd-analyze").arg("verify").arg(path));
    for path in examples("service") {
        let unit = std::fs::read_to_string(&path).unwrap();
        // The programs that are executed must be there.
        let programs = Path::new(env!("CARGO_BIN_EXE_hmtt-sql-executor")).parent().unwrap();
        let installed = unit.replace("/usr/local/bin", programs.to_str().unwrap());
        assert_ne!(unit, installed);
        let copy = folder.path().join(path.file_name().unwrap());
        std::fs::write(&copy, &installed).unwrap();
        let (is_right, complaint) = verify(&copy);
        assert!(is_right && !complaint.contains(copy.to_str().unwrap()), "{complaint}");
        std::fs::write(&copy, installed.replace("ExecStart=", "Execstart=")).unwrap();
        assert!(!verify(&copy).0, "a wrong unit is found");
    }
}

#[test]
fn the_example_for_kubernetes_is_yaml_with_our_programs() {
    let script = "import sys, yaml\n\
        documents = list(yaml.safe_load_all(open(sys.argv[1])))\n\
        assert all(d['apiVersion'] and d['kind'] and d['metadata']['name'] for d in documents)\n\
        for d in documents:\n \
         if d['kind'] == 'Deployment':\n  \
          for c in d['spec']['template']['spec']['containers']: print(' '.join(c['command']))\n";
    if !check(Command::new("python3").args(["-c", "import yaml"])).0 {
        return skipped("no yaml for Python");
    }
    for path in examples("yaml") {
        let output = Command::new("python3").args(["-c", script]).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let commands = String::from_utf8(output.stdout).unwrap();
        let programs = [
            ("hmtt-sql-scheduler", env!("CARGO_BIN_EXE_hmtt-sql-scheduler")),
            ("hmtt-sql-executor", env!("CARGO_BIN_EXE_hmtt-sql-executor")),
        ];
        assert_eq!(commands.lines().count(), programs.len());
        for line in commands.lines() {
            let (name, arguments) = line.split_once(' ').unwrap();
            let (_, program) = programs.iter().find(|(known, _)| *known == name).unwrap();
            // `--help` at the end: the options are known, and nothing is started.
            let arguments = arguments.split(' ').chain(["--help"]);
            let (is_right, complaint) = check(Command::new(program).args(arguments));
            assert!(is_right, "{line}: {complaint}");
        }
    }
}
