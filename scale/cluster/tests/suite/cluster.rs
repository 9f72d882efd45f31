//! Starts the programs of a cluster, and ends them.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest time of a query, also if an executor or the scheduler is lost. Tasks have a lower
/// priority than what else runs on the machine; without other load no query takes a minute.
pub const QUERY: Duration = Duration::from_secs(180);
/// Name of the file with the messages of a program.
const LOG: &str = "messages.log";
/// Longest time until a program listens.
const START: Duration = Duration::from_secs(30);

/// A program, which is killed when it is dropped.
pub struct Program {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Program {
    /// Starts a program, and waits until it listens.
    pub fn start(program: &str, arguments: &[&str]) -> Program {
        let mut command = Command::new(program);
        command.args(arguments);
        Program::of_command(command)
    }

    /// Starts a command that executes a program, and waits until it listens.
    pub fn of_command(mut command: Command) -> Program {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap();
        // Ended before the first assertion can fail.
        let mut started = Program { child, address: String::new() };
        let line = first_line(output);
        let rest = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}"));
        started.address = rest.split([',', '\n']).next().unwrap().to_owned();
        started
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Ends the program at once, as a power failure would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first line that a program prints.
fn first_line(output: ChildStdout) -> String {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(output).read_line(&mut line);
        let _ = sender.send(line);
    });
    receiver.recv_timeout(START).expect("the program prints where it listens")
}

/// A client, which is killed when it is dropped.
pub struct Client {
    child: Child,
    outputs: Option<[JoinHandle<Vec<u8>>; 2]>,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// Starts a client.
    pub fn start(mut command: Command) -> Client {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = reader(child.stdout.take().unwrap());
        let stderr = reader(child.stderr.take().unwrap());
        Client { child, outputs: Some([stdout, stderr]) }
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Interrupts it, as Ctrl-C does.
    pub fn interrupt(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }

    /// Waits for its end, which must be in time.
    pub fn output(mut self) -> Output {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(begin.elapsed() < QUERY, "a query does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let [stdout, stderr] = self.outputs.take().unwrap().map(|output| output.join().unwrap());
        Output { status, stdout, stderr }
    }
}

fn reader(mut output: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.read_to_end(&mut bytes);
        bytes
    })
}

/// A scheduler and executors, which are ended when they are dropped.
pub struct Cluster {
    /// The scheduler.
    pub scheduler: Program,
    /// The executors.
    pub executors: Vec<Program>,
    temporary: TempDir,
    /// File with the secret.
    secret: Option<PathBuf>,
}

impl Cluster {
    /// Starts a cluster on free ports for a data set. Each executor executes two tasks at the same
    /// time.
    pub fn start(executors: usize, data: &Path) -> Cluster {
        let mut cluster = Cluster::of(start_scheduler("127.0.0.1:0"));
        (0..executors).for_each(|_| cluster.add_executor("2", data, &[]));
        cluster
    }

    /// Starts two executors, each for a task at a time, and a scheduler that logs which tasks it
    /// assigns.
    pub fn of_single_tasks(data: &Path) -> Cluster {
        let temporary = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(temporary.path().join(LOG)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sql-scheduler"));
        command.args(["--listen", "127.0.0.1:0"]).env("RUST_LOG", "warn,hmtt_cluster=debug");
        command.stderr(log);
        let scheduler = Program::of_command(command);
        let mut cluster = Cluster { scheduler, executors: Vec::new(), temporary, secret: None };
        (0..2).for_each(|_| cluster.add_executor("1", data, &[]));
        cluster
    }

    /// Starts a cluster with an executor whose messages are in [`Cluster::messages`].
    pub fn with_messages(data: &Path, temporary: TempDir) -> Cluster {
        let scheduler = start_scheduler("127.0.0.1:0");
        let mut cluster = Cluster { scheduler, executors: Vec::new(), temporary, secret: None };
        let mut command = cluster.executor("2", data);
        command.stderr(std::fs::File::create(cluster.temporary.path().join(LOG)).unwrap());
        cluster.executors.push(Program::of_command(command));
        cluster
    }

    /// Starts a cluster with an executor that have a secret. The result has the file in which both
    /// log all that they can.
    pub fn with_secret(data: &Path, secret: &Path) -> (Cluster, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join(LOG);
        let file = std::fs::File::create(&path).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sql-scheduler"));
        command.args(["--listen", "127.0.0.1:0", "--secret-file"]).arg(secret);
        command.env("RUST_LOG", "trace").stderr(file.try_clone().unwrap());
        let (scheduler, secret) = (Program::of_command(command), Some(secret.to_owned()));
        let mut cluster = Cluster { scheduler, executors: Vec::new(), temporary, secret };
        let mut command = cluster.executor("2", data);
        command.env("RUST_LOG", "trace").stderr(file);
        cluster.executors.push(Program::of_command(command));
        (cluster, path)
    }

    /// Waits until a message of the program that writes messages has a text.
    pub fn wait_for_message(&self, text: &str) {
        self.wait_for_messages(text, 1);
    }

    /// Waits until messages of that program have a text so many times.
    pub fn wait_for_messages(&self, text: &str, count: usize) {
        let begin = Instant::now();
        loop {
            let log = std::fs::read_to_string(self.temporary.path().join(LOG)).unwrap();
            if log.matches(text).count() >= count {
                return;
            }
            assert!(begin.elapsed() < QUERY, "{text:?} is awaited in vain: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Folder of intermediate results and messages.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Starts an executor on free ports. `threads`: tasks that it executes at the same time.
    /// `data`: what it reads.
    pub fn add_executor(&mut self, threads: &str, data: &Path, environment: &[(&str, String)]) {
        let mut command = self.executor(threads, data);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        self.executors.push(Program::of_command(command));
    }

    /// The command of an executor.
    fn executor(&self, threads: &str, data: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sql-executor"));
        command.args(["--scheduler", &self.scheduler.address, "--listen", "127.0.0.1:0"]);
        command.args(["--threads", threads, "--temp-dir"]).arg(self.temporary.path());
        command.arg("--data").arg(data);
        if let Some(secret) = &self.secret {
            command.arg("--secret-file").arg(secret);
        }
        command
    }

    /// A cluster without executors.
    pub fn of(scheduler: Program) -> Cluster {
        let temporary = tempfile::tempdir().unwrap();
        Cluster { scheduler, executors: Vec::new(), temporary, secret: None }
    }

    /// Waits until an executor has got a task of a stage; its place in `executors`. For
    /// [`Cluster::of_single_tasks`].
    pub fn wait_for_task(&self, stage: usize) -> usize {
        let begin = Instant::now();
        let assigned = format!("stage {stage} of ");
        loop {
            let log = std::fs::read_to_string(self.temporary.path().join(LOG)).unwrap();
            let task = log
                .lines()
                .find_map(|line| line.split_once(&assigned)?.1.split_once(" a task of "));
            if let Some((_, id)) = task {
                let is_named = |executor: &Program| {
                    log.contains(&format!("executor {id} at {},", executor.address))
                };
                return self.executors.iter().position(is_named).unwrap_or_else(|| panic!("{log}"));
            }
            assert!(begin.elapsed() < QUERY, "a task of stage {stage} is awaited in vain: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until an executor has files of results, or until none has.
    pub fn wait_for_results(&self, are_there: bool) {
        let begin = Instant::now();
        while has_results(self.temporary.path()) != are_there {
            assert!(begin.elapsed() < QUERY, "results: {are_there} is awaited in vain");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A command that queries a data set with this cluster.
    pub fn command(&self, arguments: &[&str], source: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sql-cluster"));
        command.args(["--cluster", &self.scheduler.address, "--tasks", "4"]).args(arguments);
        if let Some(secret) = &self.secret {
            command.arg("--secret-file").arg(secret);
        }
        command.arg(source);
        command
    }

    /// Runs a query.
    pub fn run(&self, arguments: &[&str], source: &Path) -> Output {
        Client::start(self.command(arguments, source)).output()
    }

    /// What a query prints. It must succeed.
    pub fn succeed(&self, arguments: &[&str], source: &Path) -> String {
        succeeded(&self.run(arguments, source))
    }
}

/// Whether a folder has a file of results.
fn has_results(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => has_results(&entry.path()),
        Ok(_) => entry.path().extension().is_some_and(|end| end == "arrow"),
        Err(_) => false,
    })
}

/// Starts a scheduler.
pub fn start_scheduler(listen: &str) -> Program {
    Program::start(env!("CARGO_BIN_EXE_hmtt-sql-scheduler"), &["--listen", listen])
}

/// What a successful run has printed.
pub fn succeeded(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a failed run has reported. It must have exit status 1 and print no rows.
pub fn failed(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(output.stdout.is_empty(), "{complaint}");
    complaint
}
