//! Starts this program again in namespaces of its own, and ends it.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use crate::EXECUTORS;
use crate::data::Data;
use crate::limits::Limits;

/// Environment variable with what is measured, inside the namespaces.
pub const JOB: &str = "HMTT_BENCH_CLUSTER";
/// Exit status after a signal.
pub const INTERRUPTED: u8 = 130;
/// Beginning of the name of the folder of a run.
const PREFIX: &str = "run-";
const POLL: Duration = Duration::from_millis(20);

/// What exists outside the namespaces. Removed when it is dropped.
pub struct Outside {
    limits: Limits,
    temporary: TempDir,
    is_interrupted: Arc<AtomicBool>,
}

/// The program in its namespaces, which is ended when this is dropped.
struct Inside(Child);

impl Drop for Inside {
    fn drop(&mut self) {
        // The program ends with `unshare`, and all others with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Outside {
    /// `folder`: where intermediate results are written.
    pub fn new(folder: &Path) -> Result<Outside> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        watch_signals(is_interrupted.clone())?;
        let limits = Limits::new(EXECUTORS.into_iter().max().unwrap_or(1))?;
        let temporary = temporary(folder)?;
        Ok(Outside { limits, temporary, is_interrupted })
    }

    /// Measures all queries with some executors; `None` after a signal.
    pub fn measure(&self, executors: usize, data: &Data) -> Result<Option<Value>> {
        let job = json!({
            "executors": executors,
            "groups": self.limits.base(),
            "temporary": self.temporary.path(),
            "large": data.large,
            "parts": data.parts,
        });
        let mut inside = Inside(start(&job)?);
        let mut output = inside.0.stdout.take().context("no output")?;
        let output = std::thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).map(|_| text)
        });
        let status = loop {
            if self.is_interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match inside.0.try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(POLL),
            }
        };
        ensure!(status.success(), "with {executors} executors: {status}");
        let text = output.join().ok().context("no output")??;
        Ok(Some(serde_json::from_str(&text)?))
    }
}

fn start(job: &Value) -> Result<Child> {
    // Its standard input ends when this program does.
    Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(std::env::current_exe()?)
        .env(JOB, job.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("unshare")
}

/// Creates a folder for a run, and removes those of runs that were killed.
fn temporary(folder: &Path) -> Result<TempDir> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(tempfile::Builder::new().prefix(PREFIX).tempdir_in(folder)?)
}

/// Notes the first signal that ends programs.
fn watch_signals(is_interrupted: Arc<AtomicBool>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _entered = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
    };
    let [interrupt, terminate, hangup] = signals;
    let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        is_interrupted.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// A path in the description of what is measured.
pub fn path(job: &Value, name: &str) -> Result<PathBuf> {
    let text = job[name].as_str().with_context(|| format!("no {name} in {job}"))?;
    Ok(PathBuf::from(text))
}

/// The description of what is measured.
pub fn job(text: &OsStr) -> Result<Value> {
    Ok(serde_json::from_str(text.to_str().context("not UTF-8")?)?)
}
