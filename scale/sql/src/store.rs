//! Reads files and objects, and counts their bytes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, coalesce_ranges,
};

use crate::shared::Shared;

/// A store that counts the bytes that are read.
#[derive(Debug)]
pub struct CountedStore {
    store: Arc<dyn ObjectStore>,
    shared: Arc<Shared>,
    is_local: bool,
}

impl CountedStore {
    /// Returns the local file system. Its bytes are counted in `shared`.
    pub fn of_files(shared: Arc<Shared>) -> Self {
        CountedStore { store: Arc::new(LocalFileSystem::new()), shared, is_local: true }
    }

    /// Returns an object store. Its bytes are counted in `shared`.
    pub fn of_objects(store: Arc<dyn ObjectStore>, shared: Arc<Shared>) -> Self {
        CountedStore { store, shared, is_local: false }
    }
}

impl fmt::Display for CountedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for CountedStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_read = !options.head;
        let result = self.store.get_opts(location, options).await?;
        if is_read {
            self.shared.read(result.range.end - result.range.start);
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if self.is_local {
            let contents = self.store.get_ranges(location, ranges).await?;
            self.shared.read(contents.iter().map(|bytes| bytes.len() as u64).sum());
            return Ok(contents);
        }
        // Ranges near each other are read by one request, with the bytes between them.
        let get = |range| self.get_range(location, range);
        coalesce_ranges(ranges, get, OBJECT_STORE_COALESCE_DEFAULT).await
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}
