//! Accesses data sets in object stores: Amazon S3 and servers that speak its protocol, Google Cloud
//! Storage, Azure, and HTTP servers that list folders (WebDAV).
//!
//! A data set below a URL has the same folders as on a disk. Its parts are listed once, before the
//! first query, so that all queries of an engine see the same parts. Credentials and endpoints come
//! from the usual environment variables (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`,
//! `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` ...).

use std::error::Error;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use hmtt_dataset::{Partition, Table};
use hmtt_format::credentials::hidden;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectMeta, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;

/// How often a failed request is repeated.
const RETRIES: usize = 4;
/// Time after the first attempt from which a failed request is not repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Extension of parts.
const EXTENSION: &str = ".parquet";

/// The reason why a data set in an object store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL names no object store.
    #[error(
        "{0}: no URL of an object store; use s3://BUCKET/FOLDER, gs://, az://, http:// or https://"
    )]
    Url(String),
    /// The object store refuses, or does not answer.
    #[error("{url}: {reason}")]
    Store {
        /// URL of the request.
        url: String,
        /// The reason, with the server's answer.
        reason: String,
    },
    /// The URL has no parts.
    #[error("{0} is no data set: there are no parts below it")]
    NoDataset(String),
}

impl RemoteError {
    /// An error of a store.
    pub fn store(url: impl Into<String>, error: &object_store::Error) -> Self {
        let url: String = url.into();
        RemoteError::Store { url: hidden(&url).to_string(), reason: reason(error) }
    }
}

/// Returns the reason of an object store's error. The error's own message repeats the messages of
/// all its causes, with the server's answer.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    let text = hidden(&root.to_string()).to_string();
    let within = |name: &str| {
        let (_, begin) = text.split_once(&format!("<{name}>"))?;
        begin.split_once("</").map(|(content, _)| content)
    };
    match (within("Code"), within("Message")) {
        (Some(code), Some(message)) => format!("the object store refuses: {code}: {message}"),
        _ => text,
    }
}

/// A place in an object store.
#[derive(Clone, Debug)]
pub struct Location {
    /// The URL without credentials and without a slash at its end, for messages.
    pub url: String,
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The store's URL, by which the query engine knows it.
    pub base: ObjectStoreUrl,
    /// Start of all object paths of the data set.
    pub prefix: Path,
    is_http: bool,
}

/// A part in an object store.
#[derive(Clone, Debug)]
pub struct RemotePart {
    /// Partition of the part.
    pub partition: Partition,
    /// Path relative to the data set.
    pub path: PathBuf,
    /// The object.
    pub meta: ObjectMeta,
}

/// A data set in an object store, whose parts are known.
#[derive(Debug)]
pub struct RemoteDataset {
    /// Location of the data set.
    pub location: Location,
    /// Parts of the data set, in the order of their paths.
    pub parts: Vec<RemotePart>,
}

/// A URL without credentials, for messages.
pub fn shown(url: &str) -> String {
    hidden(url).to_string()
}

/// Whether a source is a URL.
pub fn is_url(source: &FilePath) -> bool {
    let scheme = source.to_str().and_then(|source| source.split_once("://"));
    scheme.is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

impl Location {
    /// Parses a URL. Nothing is sent.
    ///
    /// # Errors
    /// The URL names no object store, or a setting for its store is missing in the environment.
    pub fn new(text: &str) -> Result<Self, RemoteError> {
        let shown = hidden(text).to_string();
        let no_url = || RemoteError::Url(shown.clone());
        let url = Url::parse(text).map_err(|_| no_url())?;
        let failed = |error| RemoteError::store(text, &error);
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).map_err(|_| no_url())?;
        let retries = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_TIMEOUT,
            ..RetryConfig::default()
        };
        let store: Arc<dyn ObjectStore> = match &scheme {
            ObjectStoreScheme::AmazonS3 => Arc::new(
                AmazonS3Builder::from_env()
                    .with_url(text)
                    .with_retry(retries)
                    .build()
                    .map_err(failed)?,
            ),
            ObjectStoreScheme::GoogleCloudStorage => Arc::new(
                GoogleCloudStorageBuilder::from_env()
                    .with_url(text)
                    .with_retry(retries)
                    .build()
                    .map_err(failed)?,
            ),
            ObjectStoreScheme::MicrosoftAzure => Arc::new(
                MicrosoftAzureBuilder::from_env()
                    .with_url(text)
                    .with_retry(retries)
                    .build()
                    .map_err(failed)?,
            ),
            ObjectStoreScheme::Http => {
                let options = ClientOptions::new().with_allow_http(url.scheme() == "http");
                Arc::new(
                    HttpBuilder::new()
                        .with_url(&url[..url::Position::BeforePath])
                        .with_client_options(options)
                        .with_retry(retries)
                        .build()
                        .map_err(failed)?,
                )
            }
            _ => return Err(no_url()),
        };
        let base =
            ObjectStoreUrl::parse(&url[..url::Position::BeforePath]).map_err(|_| no_url())?;
        let is_http = matches!(scheme, ObjectStoreScheme::Http);
        Ok(Location { url: shown.trim_end_matches('/').to_owned(), store, base, prefix, is_http })
    }

    /// Whether the store cannot write an object as a whole.
    pub fn is_read_only(&self) -> bool {
        self.is_http
    }

    /// The URL of an object, for messages.
    pub fn name(&self, path: &FilePath) -> String {
        format!("{}/{}", self.url, path.display())
    }

    /// The object of a part, whose path is relative to the data set.
    pub fn object(&self, path: &FilePath) -> Path {
        let names = path.iter().map(|name| name.to_string_lossy());
        let within = names.fold(String::new(), |path, name| format!("{path}/{name}"));
        // Names of folders are already escaped, so they are the objects' names.
        Path::parse(format!("{}{within}", self.prefix)).unwrap_or_else(|_| self.prefix.clone())
    }

    /// Lists the parts of the data set, in the order of their paths.
    ///
    /// # Errors
    /// The store refuses, or does not answer.
    pub async fn list(&self) -> Result<Vec<RemotePart>, RemoteError> {
        let objects = self.store.list(Some(&self.prefix));
        let part = |meta: ObjectMeta| {
            let within = meta.location.as_ref().strip_prefix(self.prefix.as_ref())?;
            let path = PathBuf::from(within.trim_start_matches('/'));
            let partition = Partition::parse(path.parent()?)?;
            within.ends_with(EXTENSION).then_some(RemotePart { partition, path, meta })
        };
        let parts: Result<Vec<_>, _> =
            objects.try_filter_map(|meta| async { Ok(part(meta)) }).try_collect().await;
        let mut parts = parts.map_err(|error| RemoteError::store(&*self.url, &error))?;
        parts.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(parts)
    }
}

impl RemoteDataset {
    /// Lists the parts of a data set.
    ///
    /// # Errors
    /// The data set has no parts, or the store does not list them.
    pub async fn open(location: Location) -> Result<Self, RemoteError> {
        let parts = location.list().await?;
        if parts.is_empty() {
            Err(RemoteError::NoDataset(location.url))
        } else {
            Ok(RemoteDataset { location, parts })
        }
    }

    /// The parts of a table.
    pub fn parts_of(&self, table: Table) -> impl Iterator<Item = &RemotePart> {
        self.parts.iter().filter(move |part| part.partition.table == table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for url in ["s3://bucket/a", "http://host:9/a", "gs://b", "file:///tmp"] {
            assert!(is_url(FilePath::new(url)), "{url}");
        }
        for path in ["/tmp/a", "data", "s3:/bucket", "a b://c"] {
            assert!(!is_url(FilePath::new(path)), "{path}");
        }
    }

    #[test]
    fn names_of_objects_are_those_of_the_folders() {
        let location = Location::new("http://localhost:1/a/b/").unwrap();
        let path = FilePath::new("kind=runs/run=x%2Fy/board=e/hour=2023111422/p.parquet");
        let object = location.object(path);
        assert_eq!(object.as_ref(), "a/b/kind=runs/run=x%2Fy/board=e/hour=2023111422/p.parquet");
        assert!(Location::new("ftp://host/a").is_err());
    }
}
