//! Makes a network namespace for each executor, joined by a bridge, and counts what their
//! interfaces send.
//!
//! ```text
//! bridge 10.77.0.1 (scheduler, client) -- port0 == eth0 10.77.0.10 in executor0
//!                                      -- port1 == eth0 10.77.0.11 in executor1
//! ```
//!
//! All of it is in the network namespace of this process, and ends with it.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Address of scheduler and client.
pub const SCHEDULER: &str = "10.77.0.1";
const BRIDGE: &str = "bridge0";

/// Address of an executor.
pub fn address(executor: usize) -> String {
    format!("10.77.0.{}", 10 + executor)
}

/// Name of the namespace of an executor.
pub fn namespace(executor: usize) -> String {
    format!("executor{executor}")
}

/// Makes the bridge and the namespaces.
pub fn make(executors: usize) -> Result<()> {
    // `ip netns` writes names to /run, which here is that of this mount namespace alone.
    run("mount", "-t tmpfs none /run")?;
    run("ip", "link set lo up")?;
    run("ip", &format!("link add {BRIDGE} type bridge"))?;
    run("ip", &format!("address add {SCHEDULER}/24 dev {BRIDGE}"))?;
    run("ip", &format!("link set {BRIDGE} up"))?;
    for executor in 0..executors {
        let (name, address) = (namespace(executor), address(executor));
        run("ip", &format!("netns add {name}"))?;
        run("ip", &format!("link add port{executor} type veth peer name eth0 netns {name}"))?;
        run("ip", &format!("link set port{executor} master {BRIDGE} up"))?;
        run("ip", &format!("-n {name} address add {address}/24 dev eth0"))?;
        run("ip", &format!("-n {name} link set eth0 up"))?;
        run("ip", &format!("-n {name} link set lo up"))?;
    }
    Ok(())
}

fn run(program: &str, arguments: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments.split(' '));
    let output = command.output().with_context(|| program.to_owned())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments}: {}", complaint.trim_end());
    Ok(())
}

/// Bytes that interfaces have counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes {
    /// From executors to executors.
    pub exchanged: u64,
    /// Between client and scheduler, which are in the same namespace.
    pub planned: u64,
    /// Between executors on one side, scheduler and client on the other.
    pub assigned: u64,
}

impl Bytes {
    /// What has been counted until now.
    pub fn now() -> Result<Bytes> {
        let table = std::fs::read_to_string("/proc/self/net/dev")?;
        let (mut ports, mut bridge, mut bytes) = (0, 0, Bytes::default());
        for (name, counters) in table.lines().filter_map(|line| line.split_once(':')) {
            let counters: Vec<&str> = counters.split_whitespace().collect();
            // Each side has eight counters. The first one counts bytes.
            let (received, sent): (u64, u64) = (counters[0].parse()?, counters[8].parse()?);
            match name.trim() {
                BRIDGE => {
                    bridge = received;
                    bytes.assigned = received + sent;
                }
                "lo" => bytes.planned = received,
                name if name.starts_with("port") => ports += received,
                _ => {}
            }
        }
        // What came from the ports, without what the bridge's own interface received.
        bytes.exchanged = ports.saturating_sub(bridge);
        Ok(bytes)
    }

    /// What was counted after `before`.
    pub fn since(self, before: Bytes) -> Bytes {
        Bytes {
            exchanged: self.exchanged.saturating_sub(before.exchanged),
            planned: self.planned.saturating_sub(before.planned),
            assigned: self.assigned.saturating_sub(before.assigned),
        }
    }
}
