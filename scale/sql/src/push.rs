//! Copies the parts of a data set to an object store.
//!
//! Each part is one object. The store shows an object when all its bytes have arrived, so a part
//! appears whole or not at all, as on a disk. Parts that describe other parts come last. Existing
//! objects are not changed: an interrupted copy is completed by the next one. A part's name begins
//! with the hash of its capture, so parts of equal name and size have equal bytes;
//! [`Options::verifies`] also compares the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use futures::StreamExt;
use hmtt_dataset::{Dataset, DatasetError, Partition};
use object_store::buffered::BufWriter;
use object_store::{Attribute, Attributes, ObjectStoreExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::remote::{self, Location, RemoteError, RemotePart};

/// Bytes from which an object is sent in pieces, and size of a piece: the smallest that S3 accepts.
const PIECE_BYTES: usize = 5 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Name of the hash of a part's bytes among the metadata of its object.
const HASH: &str = "blake3";
/// How often the list of parts is made at most. It is made again if a part on the list was merged.
const LISTS: usize = 5;
/// Start of the names of merged parts.
const MERGED: &str = "merged-";

/// The reason why a data set was not copied.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The data set cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A part cannot be read.
    #[error("{}: cannot read", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The object store refuses, or does not answer.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// An object cannot be written.
    #[error("{0}: cannot write: {1}")]
    Object(String, String),
    /// An object is not equal to the part of the same name.
    #[error("{name}: has {what}, not the part's; remove it, and copy again")]
    Differs {
        /// The object.
        name: String,
        /// The difference.
        what: String,
    },
    /// Parts were merged here after they had been copied.
    #[error(
        "{0}: its parts were merged here after they had been copied; --replace removes those that are there and not \
         here, if no other data set is copied there"
    )]
    Merged(String),
    /// HTTP cannot write an object as a whole.
    #[error("{0}: copy to s3://, gs:// or az://; HTTP servers are only read")]
    ReadOnly(String),
    /// Other processes keep merging parts.
    #[error("{}: parts were merged while they were copied; try again", .0.display())]
    Busy(PathBuf),
}

/// How a data set is copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether the bytes of all objects are compared with the bytes of the parts.
    pub verifies: bool,
    /// Whether objects in partitions with merged parts are removed, if the data set does not have
    /// them.
    pub replaces: bool,
}

/// Counts of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Number of parts that were copied.
    pub parts: u64,
    /// Bytes of the copied parts.
    pub bytes: u64,
    /// Parts that the store already had.
    pub present: u64,
    /// Objects that were removed.
    pub removed: u64,
    /// Parts whose bytes were compared.
    pub verified: u64,
}

/// Copies a data set.
///
/// # Errors
/// A part cannot be read, or the store refuses or does not answer. Objects that were copied before
/// the error remain.
pub async fn push(dataset: &Dataset, to: &Location, options: Options) -> Result<Pushed, PushError> {
    if to.is_read_only() {
        return Err(PushError::ReadOnly(to.url.clone()));
    }
    let mut pushed = Pushed::default();
    for _ in 0..LISTS {
        match push_listed(dataset, to, options, &mut pushed).await {
            // The part was merged after the list was made.
            Err(PushError::File(_, error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(pushed),
        }
    }
    Err(PushError::Busy(dataset.root().to_owned()))
}

/// Copies the parts that the data set has now, and checks them.
async fn push_listed(
    dataset: &Dataset,
    to: &Location,
    options: Options,
    pushed: &mut Pushed,
) -> Result<(), PushError> {
    let parts = dataset.parts()?;
    let there = to.list().await?;
    let superseded = superseded(&parts, &there);
    if let (Some(part), false) = (superseded.first(), options.replaces) {
        let folder = part.path.parent().unwrap_or(&part.path);
        return Err(PushError::Merged(to.name(folder)));
    }
    let sizes: BTreeMap<&Path, u64> =
        there.iter().map(|part| (&*part.path, part.meta.size)).collect();
    pushed.present = 0;
    for (_, path) in &parts {
        match sizes.get(&**path) {
            None => {
                pushed.bytes += copy(dataset, path, to).await?;
                pushed.parts += 1;
            }
            Some(size) => {
                same_size(dataset, path, *size, to)?;
                pushed.present += 1;
            }
        }
    }
    for part in superseded {
        let removed = to.store.delete(&part.meta.location).await;
        removed.map_err(|error| RemoteError::store(to.name(&part.path), &error))?;
        pushed.removed += 1;
    }
    check(dataset, &parts, to, options, pushed).await
}

/// Returns the objects whose rows are now in merged parts: in each partition with a merged part,
/// all objects that the data set does not have.
fn superseded(parts: &[(Partition, PathBuf)], there: &[RemotePart]) -> Vec<RemotePart> {
    let names: BTreeSet<&Path> = there.iter().map(|part| &*part.path).collect();
    let is_merged = |path: &Path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(MERGED))
    };
    let merged: BTreeSet<&Partition> =
        parts.iter().filter(|(_, path)| is_merged(path)).map(|(partition, _)| partition).collect();
    let here: BTreeSet<&Path> = parts.iter().map(|(_, path)| &**path).collect();
    names
        .difference(&here)
        .filter_map(|path| there.iter().find(|part| part.path == **path))
        .filter(|part| merged.contains(&part.partition))
        .cloned()
        .collect()
}

/// Copies a part. Returns its size in bytes.
async fn copy(dataset: &Dataset, path: &Path, to: &Location) -> Result<u64, PushError> {
    let unreadable = |error| PushError::File(dataset.root().join(path), error);
    let mut input = open(dataset, path)?;
    let hash = hash_of(&mut input).await.map_err(unreadable)?;
    let mut input = open(dataset, path)?;
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::Metadata(HASH.into()), hash.to_hex().to_string().into());
    let failed = |error: io::Error| PushError::Object(to.name(path), remote::reason(&error));
    let mut output = BufWriter::with_capacity(to.store.clone(), to.object(path), PIECE_BYTES)
        .with_attributes(attributes);
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    loop {
        let read = match input.read(&mut buffer).await {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) => {
                // The reading error is reported, even if the pieces cannot be removed.
                let _ = output.abort().await;
                return Err(unreadable(error));
            }
        };
        output.write_all(&buffer[..read]).await.map_err(failed)?;
        bytes += read as u64;
    }
    // Here the object becomes visible.
    output.shutdown().await.map_err(failed)?;
    Ok(bytes)
}

/// Opens a part, which is a regular file and no link.
fn open(dataset: &Dataset, path: &Path) -> Result<tokio::fs::File, PushError> {
    match dataset.open_part(path) {
        Err(DatasetError::File { path, source, .. }) => Err(PushError::File(path, source)),
        file => Ok(tokio::fs::File::from_std(file?)),
    }
}

async fn hash_of(input: &mut tokio::fs::File) -> io::Result<blake3::Hash> {
    let (mut hasher, mut buffer) = (blake3::Hasher::new(), vec![0; READ_BYTES]);
    loop {
        match input.read(&mut buffer).await? {
            0 => return Ok(hasher.finalize()),
            read => drop(hasher.update(&buffer[..read])),
        }
    }
}

fn same_size(dataset: &Dataset, path: &Path, size: u64, to: &Location) -> Result<(), PushError> {
    let about = dataset.root().join(path).symlink_metadata();
    let about = about.map_err(|error| PushError::File(dataset.root().join(path), error))?;
    if about.len() == size {
        Ok(())
    } else {
        Err(PushError::Differs { name: to.name(path), what: format!("{size} bytes") })
    }
}

/// Checks that the store has all parts: their sizes, and on request their bytes.
async fn check(
    dataset: &Dataset,
    parts: &[(Partition, PathBuf)],
    to: &Location,
    options: Options,
    pushed: &mut Pushed,
) -> Result<(), PushError> {
    let there = to.list().await?;
    let there: BTreeMap<&Path, &RemotePart> =
        there.iter().map(|part| (&*part.path, part)).collect();
    for (_, path) in parts {
        let missing = || PushError::Differs { name: to.name(path), what: "no object".into() };
        let part = there.get(&**path).ok_or_else(missing)?;
        same_size(dataset, path, part.meta.size, to)?;
        if options.verifies {
            verify(dataset, path, part, to).await?;
            pushed.verified += 1;
        }
    }
    Ok(())
}

/// Compares the bytes of an object with the bytes of a part.
async fn verify(
    dataset: &Dataset,
    path: &Path,
    part: &RemotePart,
    to: &Location,
) -> Result<(), PushError> {
    let unreadable = |error| PushError::File(dataset.root().join(path), error);
    let mut input = open(dataset, path)?;
    let expected = hash_of(&mut input).await.map_err(unreadable)?;
    let name = to.name(&part.path);
    let failed = |error| RemoteError::store(&*name, &error);
    let mut bytes = to.store.get(&part.meta.location).await.map_err(failed)?.into_stream();
    let mut hasher = blake3::Hasher::new();
    while let Some(bytes) = bytes.next().await {
        hasher.update(&bytes.map_err(failed)?);
    }
    if hasher.finalize() == expected {
        Ok(())
    } else {
        Err(PushError::Differs { name, what: "other bytes".into() })
    }
}
