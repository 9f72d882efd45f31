//! Provides the stores that a plan can name. An executor's stores read only in its locations, and
//! change nothing; a scheduler's stores are empty.
//!
//! A plan has the URL of a store, not its credentials, which are in the environment of the
//! executor. Decoding a plan needs its stores, so a store is returned for every URL. Each path is
//! looked up in the locations when it is read. If a URL is in no location, its store refuses all
//! paths and connects to nothing.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result as StoreResult,
};
use futures::stream::{self, BoxStream, StreamExt};
use url::Url;

use crate::locations::Locations;

/// Name of a store in its errors.
const FILES: &str = "files";

/// The stores of an executor.
#[derive(Debug)]
pub struct Stores(Arc<Locations>);

impl Stores {
    /// Creates the stores for these locations.
    pub fn new(locations: Arc<Locations>) -> Self {
        Stores(locations)
    }
}

impl ObjectStoreRegistry for Stores {
    /// Does nothing: a plan cannot add stores.
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let mut url = url.clone();
        url.set_path("/");
        let objects = self.0.store(url.as_str());
        Ok(Arc::new(ReadStore { url: url.into(), objects, locations: self.0.clone() }))
    }
}

/// A store that reads only files and objects in the locations.
#[derive(Debug)]
struct ReadStore {
    url: String,
    /// The object store; `None` for files, and for a URL in no location.
    objects: Option<Arc<dyn ObjectStore>>,
    locations: Arc<Locations>,
}

impl fmt::Display for ReadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", hmtt_sql::remote::shown(&self.url))
    }
}

fn refused(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::PermissionDenied { path: path.to_string(), source: source.into() }
}

/// The error of a request that changes something.
fn changes(path: &Path) -> Error {
    refused(path, "refused: an executor only reads data sets")
}

fn unread(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path: path.to_string(), source: error.into() },
        _ => refused(path, error),
    }
}

/// Runs a function that waits for a disk, in a thread of its own.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    tokio::task::spawn_blocking(read).await?
}

impl ReadStore {
    /// The object store; `None` for a file.
    fn objects(&self, path: &Path) -> StoreResult<Option<&Arc<dyn ObjectStore>>> {
        self.locations.find(&self.url, path).map_err(|error| refused(path, error))?;
        Ok(self.objects.as_ref())
    }

    /// Opens a file.
    fn open(locations: &Locations, url: &str, path: &Path) -> StoreResult<(File, ObjectMeta)> {
        let place = locations.find(url, path).map_err(|error| refused(path, error))?;
        let opened = place.open().ok_or_else(|| refused(path, "no file"))?;
        let file = opened.map_err(|error| unread(path, error))?;
        let about = file.metadata().map_err(|error| unread(path, error))?;
        let modified = about.modified().map_err(|error| unread(path, error))?;
        let meta = ObjectMeta {
            location: path.clone(),
            last_modified: modified.into(),
            size: about.len(),
            e_tag: None,
            version: None,
        };
        Ok((file, meta))
    }

    /// Calls a function with an opened file.
    async fn with_file<T: Send + 'static>(
        &self,
        path: &Path,
        read: impl FnOnce(File, ObjectMeta) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (locations, url, path) = (self.locations.clone(), self.url.clone(), path.clone());
        blocking(move || {
            let (file, meta) = ReadStore::open(&locations, &url, &path)?;
            read(file, meta)
        })
        .await
    }
}

/// Reads bytes of a file. A file that ends before them is an error.
fn bytes_of(file: &File, meta: &ObjectMeta, range: Range<u64>) -> StoreResult<bytes::Bytes> {
    let failed = |error| Error::Generic { store: FILES, source: error };
    if range.start > range.end || range.end > meta.size {
        return Err(failed(format!("{}: has {} bytes", meta.location, meta.size).into()));
    }
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let read = file.read_exact_at(&mut bytes, range.start);
    read.map_err(|error| failed(error.into()))?;
    Ok(bytes.into())
}

#[async_trait]
impl ObjectStore for ReadStore {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        if let Some(objects) = self.objects(path)? {
            return objects.get_opts(path, options).await;
        }
        self.with_file(path, move |file, meta| {
            options.check_preconditions(&meta)?;
            let range = options.range.map_or(Ok(0..meta.size), |range| range.as_range(meta.size));
            let range =
                range.map_err(|error| Error::Generic { store: FILES, source: error.into() })?;
            // Only the descriptor is read; the path is not opened again.
            let payload = GetResultPayload::File(file, format!("/{}", meta.location).into());
            Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
        })
        .await
    }

    async fn get_ranges(
        &self,
        path: &Path,
        ranges: &[Range<u64>],
    ) -> StoreResult<Vec<bytes::Bytes>> {
        if let Some(objects) = self.objects(path)? {
            return objects.get_ranges(path, ranges).await;
        }
        let ranges = ranges.to_vec();
        self.with_file(path, move |file, meta| {
            ranges.into_iter().map(|range| bytes_of(&file, &meta, range)).collect()
        })
        .await
    }

    async fn put_opts(&self, path: &Path, _: PutPayload, _: PutOptions) -> StoreResult<PutResult> {
        Err(changes(path))
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        _: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        Err(changes(path))
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        paths.map(|path| Err(changes(&path?))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let error = refused(&prefix.cloned().unwrap_or_default(), "refused: nothing is listed");
        stream::once(async { Err(error) }).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        Err(refused(&prefix.cloned().unwrap_or_default(), "refused: nothing is listed"))
    }

    async fn copy_opts(&self, _: &Path, to: &Path, _: CopyOptions) -> StoreResult<()> {
        Err(changes(to))
    }
}

/// Returns an empty store for every URL.
#[derive(Debug, Default)]
pub struct EmptyStores(Arc<InMemory>);

impl ObjectStoreRegistry for EmptyStores {
    /// Does nothing: a plan cannot add stores.
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, _: &Url) -> Result<Arc<dyn ObjectStore>> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use datafusion::object_store::ObjectStoreExt;

    use super::*;

    fn store(texts: &[&str], url: &str) -> Arc<dyn ObjectStore> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let stores = Stores::new(Arc::new(Locations::new(&texts).unwrap()));
        stores.get_store(&Url::parse(url).unwrap()).unwrap()
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn files_of_a_location_are_read_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "0123456789").unwrap();
        let files = store(&[folder.path().to_str().unwrap()], "file:///");
        let path = Path::from_absolute_path(folder.path().join("a")).unwrap();
        let new = Path::from_absolute_path(folder.path()).unwrap().join("new");
        run(async {
            let result = files.get(&path).await.unwrap();
            assert_eq!(result.bytes().await.unwrap(), "0123456789");
            assert_eq!(files.get_range(&path, 2..4).await.unwrap(), "23");
            let ranges = files.get_ranges(&path, &[1..2, 8..10]).await.unwrap();
            assert_eq!(ranges, ["1", "89"]);
            assert!(files.get_ranges(&path, &[0..1, 8..11]).await.is_err());
            assert!(matches!(files.get(&new).await, Err(Error::NotFound { .. })));
            let written = files.put(&new, "text".into()).await.unwrap_err().to_string();
            assert!(written.contains("only reads data sets"), "{written}");
            assert!(files.put_multipart(&new).await.is_err());
            assert!(files.copy(&path, &new).await.is_err());
            assert!(files.rename(&path, &new).await.is_err());
            assert!(files.delete(&path).await.is_err());
            let outside = files.get(&Path::from("etc/passwd")).await.unwrap_err().to_string();
            assert!(outside.contains("file:///etc/passwd is in no location"), "{outside}");
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_store_that_is_not_given_gets_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let objects = store(&["http://localhost:1/data"], &url);
        let error = run(objects.get(&Path::from("data/a"))).unwrap_err().to_string();
        assert!(error.contains(&url) && error.contains("--data"), "{error}");
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
