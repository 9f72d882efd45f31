//! What `-w` names to how it is written: as a file or files of ours, or as a stream into what is there.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::FilePlan;
use crate::files::{DiskFile, WriteError};

/// The path that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Where a capture goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    StandardOutput,
    /// A named pipe. There is one, and it cannot be read twice: nothing of it is replaced.
    Pipe,
    File,
}

impl Target {
    /// What the path of a plan is. A folder is nothing to write to, and one stream no series.
    pub fn of(plan: &FilePlan) -> Result<Self, WriteError> {
        if plan.path == Path::new(STANDARD_OUTPUT) {
            return Ok(Target::StandardOutput);
        }
        match plan.path.metadata() {
            Ok(there) if there.is_dir() => Err(WriteError::Directory(plan.path.clone())),
            Ok(there) if !there.file_type().is_fifo() => Ok(Target::File),
            Ok(_) if plan.rotation.is_some() => Err(WriteError::Pipe(plan.path.clone())),
            Ok(_) => Ok(Target::Pipe),
            // What is wrong with it shows where it is created.
            Err(_) => Ok(Target::File),
        }
    }

    /// Whether it is written as one stream, under the name it has.
    pub fn is_stream(self) -> bool {
        self != Target::File
    }

    /// Opens what a plan without series names. Opening a pipe waits for its reader.
    pub fn open(plan: &FilePlan) -> Result<DiskFile, WriteError> {
        match Target::of(plan)? {
            Target::StandardOutput => standard_output(),
            Target::Pipe => {
                let pipe = OpenOptions::new().write(true).open(&plan.path);
                let pipe = pipe.map_err(|error| WriteError::Create(plan.path.clone(), error))?;
                Ok(DiskFile::stream(plan.path.clone(), pipe))
            }
            Target::File => DiskFile::create(&plan.path, plan.overwrite),
        }
    }
}

fn standard_output() -> Result<DiskFile, WriteError> {
    let path = PathBuf::from("standard output");
    let own = std::io::stdout().as_fd().try_clone_to_owned();
    let own = own.map_err(|error| WriteError::at(&path, error))?;
    Ok(DiskFile::stream(path, File::from(own)))
}
