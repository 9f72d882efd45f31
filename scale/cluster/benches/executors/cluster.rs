//! Starts a scheduler and executors in their namespaces, and executes queries with them or with the
//! embedded engine.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::limits::{client_group, command, executor_group};
use crate::network::{self, Bytes, SCHEDULER};
use crate::processes::{Times, seconds};

/// Longest time until all executors have joined.
const START: Duration = Duration::from_secs(60);
const PORT: &str = "50050";
/// The secret of all programs, which other machines do not reach.
const SECRET: (&str, &str) = ("HMTT_CLUSTER_SECRET", "the secret of a measurement");

/// What a query took.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Time from start to end of the client, in seconds.
    pub wall: f64,
    /// Processor time of executors, or of the embedded engine.
    pub executors_cpu: f64,
    /// Processor time of client and scheduler.
    pub client_cpu: f64,
    /// Bytes that were sent.
    pub bytes: Bytes,
    /// The rows, as JSON lines.
    pub rows: String,
}

/// A scheduler with executors, or the embedded engine.
pub struct Cluster {
    programs: PathBuf,
    groups: PathBuf,
    /// The scheduler first. Empty: the embedded engine. All end with this process.
    processes: Vec<Child>,
}

impl Cluster {
    /// Starts it. No executors: the embedded engine. `data`: what executors read.
    pub fn start(
        executors: usize,
        groups: &Path,
        temporary: &Path,
        data: &[PathBuf],
    ) -> Result<Cluster> {
        let programs = Path::new(env!("CARGO_BIN_EXE_hmtt-sql-scheduler"));
        let programs = programs.parent().context("a folder")?.to_owned();
        let mut cluster = Cluster { programs, groups: groups.to_owned(), processes: Vec::new() };
        if executors == 0 {
            return Ok(cluster);
        }
        network::make(executors)?;
        let log = temporary.join("scheduler.log");
        let mut scheduler = command(&client_group(groups), &cluster.program("hmtt-sql-scheduler")?);
        scheduler.args(["--listen", &format!("{SCHEDULER}:{PORT}")]).env(SECRET.0, SECRET.1);
        scheduler.env("RUST_LOG", "warn,ballista_scheduler::display=off,hmtt_cluster=debug");
        scheduler.stderr(File::create(&log)?);
        cluster.listen(scheduler)?;
        for executor in 0..executors {
            let folder = temporary.join(executor.to_string());
            std::fs::create_dir_all(&folder)?;
            let mut program = command(&executor_group(groups, executor), Path::new("ip"));
            program.args(["netns", "exec", &network::namespace(executor)]);
            program.arg(cluster.program("hmtt-sql-executor")?);
            program.args(["--scheduler", &format!("{SCHEDULER}:{PORT}")]);
            program.args(["--listen", &format!("{}:50051", network::address(executor))]);
            program.args(["--threads", "1", "--temp-dir"]).arg(folder);
            for data in data {
                program.arg("--data").arg(data);
            }
            // At the end the scheduler can be gone first.
            program.env(
                "RUST_LOG",
                "warn,hmtt_cluster::executor=off,ballista_core::execution_plans::sort_shuffle=off",
            );
            program.env(SECRET.0, SECRET.1);
            cluster.listen(program)?;
        }
        wait_for_executors(&log, executors)?;
        Ok(cluster)
    }

    /// Number of executors; 0: the embedded engine.
    pub fn executors(&self) -> usize {
        self.processes.len().saturating_sub(1)
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.programs.join(name);
        ensure!(path.exists(), "{}: missing; `make bench-cluster` builds it", path.display());
        Ok(path)
    }

    /// Starts a program, and waits until it listens.
    fn listen(&mut self, mut command: Command) -> Result<()> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line.starts_with("listening on "), "{command:?}: {line:?}");
        self.processes.push(child);
        Ok(())
    }

    /// Processor seconds of executors (or the embedded engine), and of client and scheduler.
    fn processor_times(&self) -> Result<(f64, f64)> {
        let clients = seconds("self", Times::Children)?;
        let child_seconds = |child: &Child| seconds(&child.id().to_string(), Times::Own);
        let Some((scheduler, executors)) = self.processes.split_first() else {
            return Ok((clients, 0.0));
        };
        let executors = executors.iter().map(child_seconds).sum::<Result<f64>>()?;
        Ok((executors, clients + child_seconds(scheduler)?))
    }

    fn client(&self) -> Result<Command> {
        if self.processes.is_empty() {
            let mut embedded =
                command(&executor_group(&self.groups, 0), &self.program("hmtt-sql")?);
            embedded.args(["--threads", "1"]);
            return Ok(embedded);
        }
        let program = self.program("hmtt-sql-cluster")?;
        let mut client = command(&client_group(&self.groups), &program);
        client.args(["--cluster", &format!("{SCHEDULER}:{PORT}")]).env(SECRET.0, SECRET.1);
        Ok(client)
    }

    /// Executes a query.
    pub fn query(&self, sql: &str, data: &Path) -> Result<Taken> {
        let mut client = self.client()?;
        // Queries can begin with a comment, `--`.
        client.args(["--format", "jsonl", "--", sql]).arg(data);
        let (executors, clients) = self.processor_times()?;
        let (bytes, begin) = (Bytes::now()?, Instant::now());
        let output = client.output()?;
        let wall = begin.elapsed().as_secs_f64();
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{sql}: {complaint}");
        let (executors_after, clients_after) = self.processor_times()?;
        Ok(Taken {
            wall,
            executors_cpu: executors_after - executors,
            client_cpu: clients_after - clients,
            bytes: Bytes::now()?.since(bytes),
            rows: String::from_utf8(output.stdout)?,
        })
    }
}

/// Waits until the scheduler's log states that all executors have joined.
fn wait_for_executors(log: &Path, executors: usize) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < START {
        let text = std::fs::read_to_string(log)?;
        let joined = |line: &&str| line.contains("] executor ") && line.ends_with(" slots");
        if text.lines().filter(joined).count() == executors {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("not all of {executors} executors join within {} s", START.as_secs())
}
