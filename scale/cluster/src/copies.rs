//! Copies files of a data set from an object store to a folder: the files for planning its pieces,
//! or the parts of a piece.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::object_store::ObjectStoreExt;
use futures::{StreamExt, TryStreamExt, stream};
use hmtt_dataset::{
    ANALYSED_TABLES, Dataset, DatasetError, PLANNED_TABLES, Partition, Piece, Plan,
};
use hmtt_sql::remote::{Location, RemoteDataset, RemoteError, RemotePart};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::external::external;

/// Bytes at the end of a part that are read for its footer: most footers are smaller.
const FOOTER_BYTES: u64 = 64 << 10;
/// Bytes at the very end of a part: the length of the footer, and a magic number.
const TAIL_BYTES: u64 = 8;
/// Number of objects that are read at the same time.
const AT_ONCE: usize = 16;

/// Plans the pieces of a data set in a folder, or at a URL.
///
/// # Errors
/// The data set cannot be read.
pub async fn plan(source: &str) -> Result<Plan> {
    if !hmtt_sql::remote::is_url(Path::new(source)) {
        let planned = Dataset::open(source).and_then(|dataset| dataset.plan_pieces());
        return planned.map_err(external);
    }
    let location = Location::new(source).map_err(external)?;
    let dataset = RemoteDataset::open(location.clone()).await.map_err(external)?;
    let folder = TempDir::new()?;
    let tables = PLANNED_TABLES.into_iter().chain(ANALYSED_TABLES);
    let parts = tables.flat_map(|table| dataset.parts_of(table));
    let copy = |part| copy_for_plan(&location, part, folder.path());
    stream::iter(parts.map(copy)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let planned = Dataset::new(folder.path()).plan_pieces();
    planned.map_err(|error| external(renamed(&error, folder.path(), &location.url)))
}

/// Copies the parts of a piece to a folder. `url`: the URL of the data set.
///
/// # Errors
/// An object cannot be read.
pub async fn copy_piece(url: &str, piece: &Piece, folder: &Path) -> Result<()> {
    let location = Location::new(url).map_err(external)?;
    for part in &piece.parts {
        // A piece comes from a client, so its paths are checked: they may only name parts of the
        // data set.
        if part.parent().and_then(Partition::parse).is_none() {
            return exec_err!("{}: no part of a data set", part.display());
        }
        copy_whole(&location, part, folder).await?;
    }
    Ok(())
}

/// Converts an error of a copied file, so that it names the object.
pub fn renamed(error: &DatasetError, folder: &Path, url: &str) -> RemoteError {
    let text = error.in_full().replace(&format!("{}", folder.display()), url);
    RemoteError::Store { url: url.to_owned(), reason: text }
}

/// Copies the bytes of a part that a plan needs. A part of an analysed table is copied only at its
/// end, where the footer is: the rest of the file is a hole. Parts of other tables are copied
/// whole.
async fn copy_for_plan(location: &Location, part: &RemotePart, folder: &Path) -> Result<()> {
    if !ANALYSED_TABLES.contains(&part.partition.table) {
        return copy_whole(location, &part.path, folder).await;
    }
    let size = part.meta.size;
    let object = location.object(&part.path);
    let failed = |error| failed(location, &part.path, &error);
    let mut begin = size.saturating_sub(FOOTER_BYTES);
    let mut end = location.store.get_range(&object, begin..size).await.map_err(failed)?;
    let length = end.len().checked_sub(TAIL_BYTES as usize).and_then(|at| end.get(at..at + 4));
    let length = length.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    let needed = u64::from(length) + TAIL_BYTES;
    if needed > size - begin && needed <= size {
        begin = size - needed;
        end = location.store.get_range(&object, begin..size).await.map_err(failed)?;
    }
    let file = create(&folder.join(&part.path))?;
    file.set_len(size)?;
    Ok(file.write_all_at(&end, begin)?)
}

async fn copy_whole(location: &Location, part: &Path, folder: &Path) -> Result<()> {
    let failed = |error| failed(location, part, &error);
    let mut content =
        location.store.get(&location.object(part)).await.map_err(failed)?.into_stream();
    let mut file = tokio::fs::File::from_std(create(&folder.join(part))?);
    while let Some(bytes) = content.try_next().await.map_err(failed)? {
        file.write_all(&bytes).await?;
    }
    Ok(file.flush().await?)
}

fn create(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    File::create(path)
}

fn failed(
    location: &Location,
    part: &Path,
    error: &datafusion::object_store::Error,
) -> DataFusionError {
    external(RemoteError::store(location.name(part), error))
}
