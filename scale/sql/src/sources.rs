//! Opens the sources of a query: data sets, on disks and in object stores, and captures.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hmtt::pcapng::is_capture;
use hmtt_dataset::{CaptureHash, Dataset, DatasetError, default_run};

use crate::remote::{Location, RemoteDataset, RemoteError, is_url};

/// The reason why a source could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The path cannot be read.
    #[error("{}: cannot open", .0.display())]
    Open(PathBuf, #[source] io::Error),
    /// The file is no capture.
    #[error("{}: neither a data set (a folder) nor a capture (pcapng or pcap)", .0.display())]
    Kind(PathBuf),
    /// The data set cannot be opened.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A data set in an object store cannot be opened.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// A capture that is queried.
#[derive(Debug)]
pub struct Capture {
    /// Path of the capture.
    pub path: PathBuf,
    /// Name of its run.
    pub run: String,
    /// Size of the capture in bytes.
    pub bytes: u64,
    hash: OnceLock<String>,
}

impl Capture {
    /// The hash of the capture, as text. The first call reads the whole file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn hash(&self) -> Result<&str, DatasetError> {
        if let Some(hash) = self.hash.get() {
            return Ok(hash);
        }
        let hash = CaptureHash::of_file(&self.path)?.to_string();
        Ok(self.hash.get_or_init(|| hash))
    }
}

/// Data sets and captures, whose rows are queried as if they were in one data set.
#[derive(Debug, Default)]
pub struct Sources {
    /// Data sets.
    pub(crate) datasets: Vec<Dataset>,
    /// Data sets in object stores.
    pub(crate) remotes: Vec<RemoteDataset>,
    /// Captures.
    pub(crate) captures: Vec<Arc<Capture>>,
}

impl Sources {
    /// Opens folders and URLs as data sets and files as captures.
    ///
    /// # Errors
    /// A path is neither, or cannot be read.
    pub async fn open(paths: &[PathBuf]) -> Result<Self, SourceError> {
        let mut sources = Sources::default();
        for path in paths {
            if is_url(path) {
                let location = Location::new(&path.to_string_lossy())?;
                sources.remotes.push(RemoteDataset::open(location).await?);
                continue;
            }
            let about = path.metadata().map_err(|error| SourceError::Open(path.clone(), error))?;
            if about.is_dir() {
                sources.datasets.push(Dataset::open(path)?);
            } else {
                sources.captures.push(Arc::new(open_capture(path, about.len())?));
            }
        }
        Ok(sources)
    }

    /// The captures among the sources.
    pub fn captures(&self) -> impl Iterator<Item = &Path> {
        self.captures.iter().map(|capture| &*capture.path)
    }
}

fn open_capture(path: &Path, bytes: u64) -> Result<Capture, SourceError> {
    let failed = |error| SourceError::Open(path.to_owned(), error);
    let mut first = [0; 4];
    let mut file = File::open(path).map_err(failed)?;
    match file.read_exact(&mut first) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        read => read.map_err(failed)?,
    }
    if !is_capture(first) {
        return Err(SourceError::Kind(path.to_owned()));
    }
    let run = default_run(path);
    Ok(Capture { path: path.to_owned(), run, bytes, hash: OnceLock::new() })
}
