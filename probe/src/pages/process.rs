//! Identifies processes, and describes their mappings.

use std::fs;

use hmtt_files::page_map::{Mapping, Process};
use nix::unistd::Pid;

use crate::ptrace;

/// The processes of this machine, including threads of the kernel.
///
/// # Errors
/// `/proc` cannot be read.
pub fn all_processes() -> std::io::Result<Vec<Pid>> {
    let entries = fs::read_dir("/proc")?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut pids: Vec<Pid> = numbers.map(Pid::from_raw).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// Identifies a process; `None` if there is no such process.
pub fn identity(pid: Pid) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let exe = fs::read_link(format!("/proc/{}/exe", ptrace::live_thread(pid))).unwrap_or_default();
    Some(Process {
        pid: pid.as_raw() as u32,
        start_ticks: start_ticks(&stat)?,
        comm: String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned(),
        exe: exe.to_string_lossy().into_owned(),
    })
}

/// The field `starttime` of `/proc/PID/stat` (proc(5)). The name before it may contain any
/// characters.
fn start_ticks(stat: &[u8]) -> Option<u64> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields =
        stat[name_end + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    // The field behind the name is the third one.
    std::str::from_utf8(fields.nth(22 - 3)?).ok()?.parse().ok()
}

/// Converts a mapping into the form that a map has.
pub fn described(mapping: &ptrace::Mapping) -> Mapping {
    let flags = [mapping.readable, mapping.writable, mapping.executable, mapping.shared];
    let permissions = flags.iter().zip(0..).map(|(flag, bit)| u8::from(*flag) << bit).sum();
    let (device, inode) = mapping.file.map_or(((0, 0), 0), |file| (file.device, file.inode));
    Mapping {
        start: mapping.start.0,
        end: mapping.end.0,
        permissions,
        offset: mapping.offset,
        device,
        inode,
        name: mapping.path.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_move_the_start_time() {
        let stat = b"7 (a) 1 (b c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9\n";
        assert_eq!(start_ticks(stat), Some(4711));
        assert_eq!(start_ticks(b"7 (a"), None);
    }

    #[test]
    fn this_process_is_identified() {
        let own = identity(Pid::this()).unwrap();
        assert_eq!(own.pid, std::process::id());
        assert_eq!(std::path::Path::new(&own.exe), std::env::current_exe().unwrap());
        assert!(own.start_ticks > 0 && all_processes().unwrap().contains(&Pid::this()));
    }
}
