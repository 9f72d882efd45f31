//! Starts a program as a traced process that is stopped before its first instruction.

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
use super::{Process, PtraceError, Traceable, inherited, obstacle};

/// Exit status of a child that could not execute the program. Nobody reads it.
const NOT_STARTED: i32 = 127;

/// Starts a program, which is searched for as a shell does. This process must have one thread only.
///
/// # Errors
/// [`PtraceError::Launch`] if the program cannot be executed.
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
    // Until the child executes the program, tracers have the same access to the child as to this
    // process.
    let open = Traceable::new();
    // SAFETY: this process has one thread, so that no other thread can hold a lock in the child.
    match unsafe { fork() }.map_err(|error| failed(error.into()))? {
        ForkResult::Child => become_program(&text, go_read, go_write, error_write),
        ForkResult::Parent { child } => {
            drop((go_read, error_write));
            let seized = ptrace::seize(child, OPTIONS);
            drop(open);
            // A child that cannot be traced is resumed, and ends by itself.
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
            let mut process = Process::from_traced(child)?;
            process.accept_inherited_filters();
            Ok(process)
        }
    }
}

/// Waits in the child until it is traced, then executes the program.
fn become_program(text: &[CString], go: OwnedFd, ours: OwnedFd, error: OwnedFd) -> ! {
    drop(ours);
    let mut byte = [0];
    let received = nix::unistd::read(&go, &mut byte);
    let restored = inherited::restore();
    let failed = match (received, byte) {
        (Ok(1), [1]) if restored.is_ok() => execvp(&text[0], text).err().unwrap_or(Errno::EINVAL),
        _ => Errno::EPERM,
    };
    let _ = nix::unistd::write(&error, &(failed as i32).to_ne_bytes());
    // SAFETY: ends the child without running exit handlers of the parent.
    unsafe { libc::_exit(NOT_STARTED) }
}
