//! Opens the output of a command that writes a trace, and writes captures to it.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::CardId;
use hmtt::decode::Item;
use hmtt::table::{Items, LeftOut, TableError, Writer};
use hmtt_paths::StagedFile;

use super::capture_file::{CaptureFile, CaptureItems, Ending, NoCard};
use super::format::Format;
use super::standard_io::{self, is_standard};

/// Suffix of a file that has only the part of a trace that was read before an error.
const PARTIAL: &str = ".partial";

/// Standard output, or a file that has a temporary name until it is complete. A file that is
/// dropped before [`Output::end`] is removed.
pub struct Output {
    /// Printable name of the output.
    pub name: String,
    staged: Option<StagedFile>,
}

impl Output {
    /// Gives the file its name, after everything was written. `read`: the result of reading the
    /// input. If reading failed, `.partial` is appended to the name. If the input has no frame of a
    /// card, the file is removed.
    ///
    /// # Errors
    /// Reading has failed, or the file cannot get its name.
    pub fn end<T>(self, read: Result<T>) -> Result<T> {
        let Some(staged) = self.staged else { return read };
        let name = self.name;
        let cannot_name = || format!("cannot create {name}");
        match &read {
            Ok(_) => staged.publish().with_context(cannot_name)?,
            Err(error) if error.is::<NoCard>() => {}
            Err(_) => match staged.publish_with_suffix(PARTIAL) {
                Ok(_) => report!("hmtt: {name}{PARTIAL} has what could be read"),
                Err(error) => report!("hmtt: warning: cannot create {name}{PARTIAL}: {error}"),
            },
        }
        read
    }
}

/// Opens the output of a trace. No path, or `-`, selects standard output. An existing file is
/// replaced if `force` is set, and is an error otherwise.
pub fn open(
    path: Option<&Path>,
    format: Format,
    force: bool,
) -> Result<(Output, Box<dyn Write + Send>)> {
    let Some(path) = path.filter(|path| !is_standard(path)) else {
        if format == Format::Parquet && io::stdout().is_terminal() {
            bail!("Parquet is not for terminals; name a file");
        }
        let output = Output { name: "standard output".into(), staged: None };
        return Ok((output, Box::new(io::stdout())));
    };
    let (staged, file) = explained(path, StagedFile::create(path, MODE, force))?;
    Ok((Output { name: path.display().to_string(), staged }, Box::new(file)))
}

/// Permissions of outputs, before the umask is applied.
pub const MODE: u32 = 0o666;

/// Creates a file; an existing file is an error unless `force`. Links of other users are not
/// followed.
pub fn create(path: &Path, force: bool) -> Result<File> {
    let created = if force {
        hmtt_paths::create_or_replace(path, MODE)
    } else {
        hmtt_paths::create(path, MODE)
    };
    explained(path, created)
}

fn explained<T>(path: &Path, created: io::Result<T>) -> Result<T> {
    let name = path.display();
    match created {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {
            bail!("{name} is a directory; name a file in it")
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{name} exists; give -f to overwrite it")
        }
        created => created.with_context(|| format!("cannot create {name}")),
    }
}

/// Results of reading and of writing a trace. If reading failed, everything that was read before
/// the failure is written.
pub struct Outcome<T> {
    pub read: Result<T>,
    pub written: Result<LeftOut, TableError>,
}

/// Writes a capture. `chosen`: the only card that is written; `None` for all cards.
pub fn write_capture(
    capture: CaptureFile,
    chosen: Option<CardId>,
    writer: Box<dyn Writer>,
) -> Outcome<Ending> {
    let mut items = Items::new(writer);
    if let Some(card) = chosen {
        items.only(card);
    }
    let mut written = Ok(());
    let is_failed = std::cell::Cell::new(false);
    let read = capture.read(
        |_| !is_failed.get(),
        |batch| {
            let is_wanted = chosen.is_none_or(|chosen| chosen == batch.card);
            if is_wanted && !is_failed.get() {
                written = write(&mut items, &batch);
                is_failed.set(written.is_err());
            }
        },
    );
    Outcome { read, written: written.and_then(|()| items.finish()) }
}

fn write(items: &mut Items<'_>, batch: &CaptureItems<'_>) -> Result<(), TableError> {
    let card = batch.card;
    if let Some(name) = batch.interface.and_then(|interface| interface.name.as_deref()) {
        items.interface(card, name);
    }
    items.accesses(card, batch.accesses)?;
    batch.item.as_ref().map_or(Ok(()), |item: &Item| items.item(card, item))
}

/// Unwraps an I/O error from a table error, so that a broken pipe can be recognised.
pub fn cause(error: TableError) -> anyhow::Error {
    match error {
        TableError::File(error) => error.into(),
        other => other.into(),
    }
}

/// Whether an input and an output are the same file, also through symbolic or hard links.
pub fn is_same_file(from: &Path, to: &Path) -> bool {
    let read = if is_standard(from) {
        standard_io::input().and_then(|input| input.metadata())
    } else {
        from.metadata()
    };
    let identity = |file: Metadata| (file.dev(), file.ino());
    let (read, written) = (read.map(identity), to.metadata().map(identity));
    !is_standard(to) && matches!((read, written), (Ok(read), Ok(written)) if read == written)
}
