//! Builds and runs the programs under test.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Path of a program. The programs are built on first use, with the cargo and the profile of the
/// running test.
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("a test knows its own path");
        let mut folder = test.parent().expect("in a folder").to_path_buf();
        if folder.ends_with("deps") {
            folder.pop();
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--bins"]);
        if folder.ends_with("release") {
            cargo.args(["--release", "-p", "hmtt-sim", "-p", "hmtt-host", "-p", "hmtt-cli"]);
        } else {
            // A test among the built targets makes cargo choose the same features as `cargo test
            // --workspace`. With other features, everything would be compiled once more.
            cargo.args(["--workspace", "--test", "structure"]);
        }
        let target = folder.parent().expect("target/PROFILE");
        cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().expect("cargo runs").success(), "the programs build");
        folder
    });
    folder.join(name)
}

/// Runs a program to its end.
pub fn run(name: &str, arguments: &[&str]) -> Output {
    let path = program(name);
    Command::new(&path)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program that must succeed. Returns its standard output.
pub fn succeed(name: &str, arguments: &[&str]) -> String {
    let output = run(name, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("programs print text")
}

/// Formats the output of a command, and its exit code, as one text for comparison.
///
/// # Panics
/// If the output is not text, or the command was killed.
pub fn transcript(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let separator = if stderr.is_empty() { "" } else { "--- standard error\n" };
    format!("{stdout}{separator}{stderr}--- exit code {}\n", output.status.code().unwrap())
}

/// Reports that a test was skipped. Writes to standard error directly, which the test harness does
/// not capture.
pub fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "skipped: {test}: {reason}");
}

/// Whether a tool is installed: whether `TOOL --version` succeeds.
pub fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}
