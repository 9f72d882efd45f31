//! Tests that a cluster with a secret does nothing for callers without it, and that it has one if
//! others can reach it.

use std::fs::{self, Permissions};
use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hmtt_cluster::Secret;
use hmtt_test_support::files::skipped;
use tempfile::TempDir;
use tonic::Code;

use crate::cluster::{Client, Cluster, Program, failed, start_scheduler};
use crate::queries::embedded;
use crate::raw_calls::{OF_EXECUTOR, OF_SCHEDULER, call};
use crate::report::{hmtt, report};
use crate::samples::{dataset, tag_map};

const SCHEDULER: &str = env!("CARGO_BIN_EXE_hmtt-sql-scheduler");
const EXECUTOR: &str = env!("CARGO_BIN_EXE_hmtt-sql-executor");
/// The secret of the tests, and another one.
const TEXT: &str = "correct horse battery staple";
const OTHER_TEXT: &str = "correct horse battery stable";
const VARIABLE: &str = "HMTT_CLUSTER_SECRET";
/// A query with an exchange of results.
const SQL: &str = "select board, count(*) as n from tags group by board order by board";

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

/// A data set, and files with secrets.
struct Files {
    folder: TempDir,
    data: PathBuf,
    secret: PathBuf,
    other: PathBuf,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let data = dataset(folder.path());
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, format!("{text}\n")).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            path
        };
        let (secret, other) = (file("secret", TEXT), file("other", OTHER_TEXT));
        Files { folder, data, secret, other }
    }

    fn rows(&self) -> String {
        embedded(SQL, &self.data, &tag_map(self.folder.path()))
    }

    /// An executor that listens at an address.
    fn executor(&self, scheduler: &str, listen: &str) -> Command {
        let mut command = Command::new(EXECUTOR);
        command.args(["--scheduler", scheduler, "--listen", listen, "--data"]).arg(&self.data);
        command.arg("--temp-dir").arg(self.folder.path()).env_remove(VARIABLE);
        command
    }
}

fn secret(path: &Path) -> Secret {
    Secret::read(Some(path)).unwrap().unwrap()
}

#[test]
fn every_service_refuses_calls_without_the_secret() {
    let files = Files::new();
    let (cluster, _) = Cluster::with_secret(&files.data, &files.secret);
    let (right, wrong) = (secret(&files.secret), secret(&files.other));
    let services =
        [(&cluster.scheduler.address, OF_SCHEDULER), (&cluster.executors[0].address, OF_EXECUTOR)];
    run(async {
        for (address, paths) in services {
            for path in paths.iter().chain(&["no.Service/NoCall"]) {
                for (caller, reason) in [(None, "has no secret"), (Some(wrong), "another secret")] {
                    let status = call(address, path, caller).await;
                    assert_eq!(status.code(), Code::Unauthenticated, "{path}: {status}");
                    assert!(status.message().contains(reason), "{path}: {status}");
                }
                // With the secret the bytes are decoded, or the service says that it does not have
                // the call.
                let status = call(address, path, Some(right)).await;
                assert_ne!(status.code(), Code::Unauthenticated, "{path}: {status}");
            }
        }
    });
    assert_eq!(cluster.succeed(&["--format", "jsonl", SQL], &files.data), files.rows());
}

#[test]
fn nothing_else_is_served_at_the_ports() {
    let files = Files::new();
    let mut cluster = Cluster::of(start_scheduler("127.0.0.1:0"));
    cluster.add_executor("1", &files.data, &[]);
    for address in [&cluster.scheduler.address, &cluster.executors[0].address] {
        for path in ["/healthz", "/readyz", "/api/state", "/api/executors"] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let mut answer = Vec::new();
            // A connection that is reset has no answer either.
            let _ = stream.write_all(request.as_bytes());
            let _ = stream.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer);
            assert!(!answer.contains("HTTP/1.1 200"), "{path}: {answer}");
        }
    }
}

#[test]
fn queries_with_the_secret_have_rows_and_it_is_in_no_message() {
    let files = Files::new();
    let (mut cluster, log) = Cluster::with_secret(&files.data, &files.secret);
    // Another executor and the client have it from the environment.
    let mut command = files.executor(&cluster.scheduler.address, "127.0.0.1:0");
    cluster.executors.push(Program::of_command({
        command.env(VARIABLE, TEXT);
        command
    }));
    for executor in &cluster.executors {
        cluster.wait_for_message(&format!(" at {}, ", executor.address));
    }
    // With more tasks than an executor executes at the same time, they read results of each other.
    let mut client = Command::new(env!("CARGO_BIN_EXE_hmtt-sql-cluster"));
    client.args(["--cluster", &cluster.scheduler.address, "--format", "jsonl", SQL]);
    client.arg(&files.data).env(VARIABLE, TEXT).env("RUST_LOG", "trace");
    let output = Client::start(client).output();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), files.rows());
    run(async {
        for caller in [None, Some(secret(&files.other))] {
            call(&cluster.scheduler.address, OF_SCHEDULER[0], caller).await;
            call(&cluster.executors[0].address, OF_EXECUTOR[0], caller).await;
        }
    });
    cluster.wait_for_messages("is refused: the caller", 4);
    let log = fs::read_to_string(log).unwrap() + &messages;
    for hidden in [TEXT, OTHER_TEXT, &token(&files.secret), &token(&files.other)] {
        assert!(!log.contains(hidden), "{hidden}");
    }
}

/// The token that is sent for a secret.
fn token(path: &Path) -> String {
    let agent = secret(path).agent();
    agent.rsplit_once('/').unwrap().1.to_owned()
}

#[test]
fn reports_with_the_secret_are_those_of_one_machine() {
    let Some(hmtt) = hmtt() else {
        return skipped("target/debug/hmtt is not built; `make test` builds it");
    };
    let files = Files::new();
    let (cluster, _) = Cluster::with_secret(&files.data, &files.secret);
    let secret = files.secret.to_str().unwrap();
    let arguments = ["--cluster", &cluster.scheduler.address, "--secret-file", secret];
    let (of_cluster, _) = report(&hmtt, &arguments, &files.data, &[]);
    let (alone, _) = report(&hmtt, &[], &files.data, &[]);
    assert_eq!(of_cluster, alone);
}

#[test]
fn clients_without_the_secret_are_told() {
    let files = Files::new();
    let (cluster, _) = Cluster::with_secret(&files.data, &files.secret);
    let programs: [(&str, &[&str]); 2] = [
        (env!("CARGO_BIN_EXE_hmtt-sql-cluster"), &[SQL]),
        (env!("CARGO_BIN_EXE_hmtt-report-cluster"), &[]),
    ];
    for (program, arguments) in programs {
        let query = |set: &dyn Fn(&mut Command)| {
            let mut command = Command::new(program);
            command.args(["--cluster", &cluster.scheduler.address]).args(arguments);
            command.arg(&files.data).env_remove(VARIABLE);
            set(&mut command);
            let output = Client::start(command).output();
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{complaint}");
            complaint
        };
        let without = query(&|_| {});
        assert!(without.contains("the caller has no secret"), "{without}");
        assert!(without.contains("--secret-file"), "{without}");
        let wrong = query(&|command| {
            command.arg("--secret-file").arg(&files.other);
        });
        assert!(wrong.contains("another secret"), "{wrong}");
        assert!(!wrong.contains(OTHER_TEXT), "{wrong}");
        let short = query(&|command| {
            command.env(VARIABLE, "short");
        });
        assert!(short.contains("HMTT_CLUSTER_SECRET: a secret has 16"), "{short}");
    }
}

#[test]
fn executors_with_another_secret_do_not_join() {
    let files = Files::new();
    let (cluster, _) = Cluster::with_secret(&files.data, &files.secret);
    let bare = start_scheduler("127.0.0.1:0");
    for (scheduler, file, reason) in [
        (&cluster.scheduler, Some(&files.other), "another secret"),
        (&cluster.scheduler, None, "has no secret"),
        (&bare, Some(&files.secret), "was started without one"),
    ] {
        let mut command = files.executor(&scheduler.address, "127.0.0.1:0");
        if let Some(file) = file {
            command.arg("--secret-file").arg(file);
        }
        let output = Client::start(command).output();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(reason), "{complaint}");
    }
}

#[test]
fn addresses_that_others_reach_need_a_secret() {
    let files = Files::new();
    let scheduler = |listen: &str| {
        let mut command = Command::new(SCHEDULER);
        command.args(["--listen", listen]).env_remove(VARIABLE);
        command
    };
    // Nothing is opened: this machine does not have 192.0.2.1, which would be another error.
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:50050"] {
        for command in [scheduler(listen), files.executor("127.0.0.1:9", listen)] {
            let complaint = failed(&Client::start(command).output());
            assert!(complaint.contains("without a secret"), "{complaint}");
            assert!(complaint.contains("--secret-file"), "{complaint}");
            assert!(complaint.contains("/dev/urandom"), "{complaint}");
        }
    }
    let mut command = scheduler("0.0.0.0:0");
    command.arg("--secret-file").arg(&files.secret);
    assert!(Program::of_command(command).address.starts_with("0.0.0.0:"));
}

#[test]
fn secrets_that_others_can_read_are_refused() {
    let files = Files::new();
    for mode in [0o604, 0o644, 0o622] {
        fs::set_permissions(&files.secret, Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(SCHEDULER);
        command.args(["--listen", "127.0.0.1:0", "--secret-file"]).arg(&files.secret);
        let mut executor = files.executor("127.0.0.1:9", "127.0.0.1:0");
        executor.arg("--secret-file").arg(&files.secret);
        for command in [command, executor] {
            let complaint = failed(&Client::start(command).output());
            assert!(complaint.contains("other users can read or change"), "{complaint}");
            assert!(complaint.contains("chmod 600"), "{complaint}");
            assert!(!complaint.contains(TEXT), "{complaint}");
        }
    }
}
