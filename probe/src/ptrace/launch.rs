//! A command to a process that stands still before its first instruction.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::ptrace;
use nix::unistd::{ForkResult, execvp, fork, pipe2};

use super::stop::wait_for_exec;
use super::wait::OPTIONS;
use super::{Process, PtraceError, inherited, obstacle};

/// Exit status of a child that could not become the program, which nobody sees.
const NOT_STARTED: i32 = 127;

/// Starts a program, found as a shell finds it. To be called while we have one thread.
///
/// # Errors
/// [`PtraceError::Launch`] if there is no such program.
pub fn launch(arguments: &[std::ffi::OsString]) -> Result<Process, PtraceError> {
    let program = arguments.first().map(|name| name.to_string_lossy().into_owned());
    let program = program.unwrap_or_default();
    let failed = |source: io::Error| PtraceError::Launch { program: program.clone(), source };
    let text: Result<Vec<CString>, _> =
        arguments.iter().map(|argument| CString::new(argument.as_bytes())).collect();
    let text = text.map_err(|error| failed(error.into()))?;
    let (go_read, go_write) = pipe2(OFlag::O_CLOEXEC).map_err(|error| failed(error.into()))?;
    let (error_read, error_write) =
        pipe2(OFlag::O_CLOEXEC).map_err(|error| failed(error.into()))?;
    // SAFETY: we have one thread, so the child finds no lock that another one held.
    match unsafe { fork() }.map_err(|error| failed(error.into()))? {
        ForkResult::Child => become_program(&text, go_read, go_write, error_write),
        ForkResult::Parent { child } => {
            drop((go_read, error_write));
            let seized = ptrace::seize(child, OPTIONS);
            // It starts even if it cannot be traced, to end by itself.
            let _ = std::fs::File::from(go_write).write_all(&[u8::from(seized.is_ok())]);
            if let Err(error) = seized {
                let _ = nix::sys::wait::waitpid(child, None);
                return Err(PtraceError::refused(child, error));
            }
            let mut code = [0; 4];
            if std::fs::File::from(error_read).read_exact(&mut code).is_ok() {
                let _ = nix::sys::wait::waitpid(child, None);
                let code = i32::from_ne_bytes(code);
                let error = io::Error::from_raw_os_error(code);
                let hint = obstacle::launch_hint(program.as_ref(), Errno::from_raw(code));
                return Err(failed(match hint {
                    Some(hint) => io::Error::new(error.kind(), format!("{error}: {hint}")),
                    None => error,
                }));
            }
            wait_for_exec(child)?;
            let mut process = Process::of(child)?;
            process.inherits_filters();
            Ok(process)
        }
    }
}

fn become_program(text: &[CString], go: OwnedFd, ours: OwnedFd, error: OwnedFd) -> ! {
    drop(ours);
    let mut byte = [0];
    let told = nix::unistd::read(&go, &mut byte);
    let restored = inherited::restore();
    let failed = match (told, byte) {
        (Ok(1), [1]) if restored.is_ok() => execvp(&text[0], text).err().unwrap_or(Errno::EINVAL),
        _ => Errno::EPERM,
    };
    let _ = nix::unistd::write(&error, &(failed as i32).to_ne_bytes());
    // SAFETY: ends the child without running what the parent has registered.
    unsafe { libc::_exit(NOT_STARTED) }
}
