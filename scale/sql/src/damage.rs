//! Finds parts that cannot be read, so that messages can name them.

use std::fs::File;
use std::path::{Path, PathBuf};

use hmtt::table::TableError;
use hmtt::table::parquet::catch_panic;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

/// Reads columns of a part to its end. `columns`: their names; `None` for all.
///
/// # Errors
/// The part cannot be read.
pub fn read(path: &Path, columns: Option<&[String]>) -> Result<(), TableError> {
    catch_panic(|| {
        let file = File::open(path).map_err(|error| ParquetError::External(error.into()))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let mask = match columns {
            Some(names) => {
                let names = names.iter().map(String::as_str);
                ProjectionMask::columns(builder.parquet_schema(), names)
            }
            None => ProjectionMask::all(),
        };
        builder.with_projection(mask).build()?.try_for_each(|batch| {
            batch.map(drop).map_err(|error| ParquetError::ArrowError(error.to_string()))
        })
    })
}

/// Returns the first part among these files that cannot be read, with the reason. Files that are no
/// parts are left out.
pub fn first_damaged(paths: Vec<PathBuf>) -> Option<(PathBuf, TableError)> {
    let parts =
        paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "parquet"));
    parts.into_iter().find_map(|path| read(&path, None).err().map(|error| (path, error)))
}
