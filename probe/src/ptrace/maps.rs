//! `/proc/PID/maps` to mappings (proc(5)).

use std::io::ErrorKind;
use std::path::PathBuf;

use nix::unistd::Pid;

use super::PtraceError;

/// Some of a process's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind it.
    pub end: u64,
    /// Whether the process can write to it.
    pub writable: bool,
    /// Whether instructions in it can be executed.
    pub executable: bool,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file, or what the kernel calls it; empty if there is none.
    pub path: PathBuf,
}

/// What a process has mapped, by address.
pub fn mappings(pid: Pid) -> Result<Vec<Mapping>, PtraceError> {
    let failed = |source| PtraceError::System { pid, operation: "read what it has mapped", source };
    let text = match std::fs::read(format!("/proc/{pid}/maps")) {
        // One that is no more has none.
        Ok(text) if text.is_empty() => return Err(PtraceError::Ended(pid)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(PtraceError::Ended(pid)),
        text => text.map_err(failed)?,
    };
    Ok(String::from_utf8_lossy(&text).lines().filter_map(mapping).collect())
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let permissions = fields.next()?.as_bytes();
    let offset = number(fields.next()?)?;
    let path = fields.nth(2).unwrap_or_default().trim_start();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        offset,
        path: path.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_mapping() {
        let line = "7f01-7f02 r-xp 00001000 fe:01 42                         /usr/lib/a b.so";
        let expected = Mapping {
            start: 0x7f01,
            end: 0x7f02,
            writable: false,
            executable: true,
            offset: 0x1000,
            path: "/usr/lib/a b.so".into(),
        };
        assert_eq!(mapping(line), Some(expected));
        assert_eq!(mapping("7f01-7f02 rw-p 0 0:0 0").unwrap().path, PathBuf::new());
        assert_eq!(mapping("nonsense"), None);
    }

    #[test]
    fn our_own_program_is_mapped() {
        let here = a_line_is_a_mapping as *const () as u64;
        let mappings = mappings(Pid::this()).unwrap();
        let found = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&here));
        let found = found.unwrap();
        assert!(found.executable);
        assert_eq!(found.path, std::env::current_exe().unwrap());
    }
}
