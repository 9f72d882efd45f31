//! Tests `hmtt sql`: which program it executes. The program itself is tested in `scale/sql`.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn the_program_in_the_path_gets_all_arguments_and_its_status_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hmtt-sql");
    std::fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["sql", "select 1 as \"a b\"", "--format", "csv", "data"]);
    let output = command.env("PATH", folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(&*text, "select 1 as \"a b\"\n--format\ncsv\ndata\n");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn with_a_cluster_another_program_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["hmtt-sql", "hmtt-sql-cluster"] {
        let program = folder.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\necho {name}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (arguments, expected) in [
        (&["select 1", "--cluster", "host:1", "data"][..], "hmtt-sql-cluster\n"),
        (&["--cluster=host:1", "select 1", "data"], "hmtt-sql-cluster\n"),
        (&["select 1", "--", "--cluster"], "hmtt-sql\n"),
        (&["select '--cluster'", "data"], "hmtt-sql\n"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        let path = std::env::join_paths([folder.path(), std::path::Path::new("/bin")]).unwrap();
        let output = command.arg("sql").args(arguments).env("PATH", path).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{arguments:?}");
    }
}

#[test]
fn without_the_program_it_is_said_how_it_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    let output = command.args(["sql", "select 1"]).env("PATH", folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("hmtt-sql is neither beside hmtt nor in PATH"), "{error}");
    assert!(error.contains("cargo build --release --manifest-path scale/Cargo.toml"), "{error}");
}

#[test]
fn a_data_set_is_copied_by_a_program_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hmtt-push");
    std::fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["dataset", "push", "--verify", "data", "s3://bucket/lab"]);
    let output = command.env("PATH", folder.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--verify\ndata\ns3://bucket/lab\n");
    assert!(output.status.success());
}
