//! Checks that an executor reads only in its locations: folders and URLs that its user names when
//! it is started.
//!
//! A plan names files and objects by URLs, and any process that reaches the executor can send a
//! plan. So each URL is compared with the locations before a file or a connection is opened. A path
//! with a name such as `%2e%2e` is in no location, because a server may interpret the name as `..`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path as ObjectPath;
use hmtt_dataset::ReadableFolder;
use hmtt_sql::remote::{Location, is_url, shown};

use crate::leaves::is_reached;

/// How often a name is decoded: each of several servers and proxies in a row may decode it once.
const MOST_DECODINGS: usize = 4;

/// Why a file, an object or a data set is not read.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// The file, object or data set is in none of the executor's locations.
    #[error("refused: {0} is in no location that this executor was given with --data")]
    NotGiven(String),
    /// The file or data set cannot be opened below its location.
    #[error("refused: {name}: {reason}")]
    Refused {
        /// The file.
        name: String,
        /// The reason.
        reason: io::Error,
    },
}

/// The locations of an executor.
#[derive(Debug)]
pub struct Locations {
    folders: Vec<ReadableFolder>,
    objects: Vec<Location>,
}

/// What a URL names within a location.
#[derive(Debug)]
pub enum GivenPlace<'a> {
    /// A path below a folder.
    File(&'a ReadableFolder, PathBuf),
    /// An object.
    Object,
}

impl GivenPlace<'_> {
    /// Opens a file; `None` for an object.
    pub fn open(&self) -> Option<io::Result<File>> {
        match self {
            GivenPlace::File(folder, within) => Some(folder.file(within)),
            GivenPlace::Object => None,
        }
    }
}

impl Locations {
    /// Creates the locations with these paths and URLs. Nothing is opened.
    ///
    /// # Errors
    /// A URL names no object store, or the environment does not have what the store needs.
    pub fn new(texts: &[String]) -> Result<Self> {
        let mut locations = Locations { folders: Vec::new(), objects: Vec::new() };
        for text in texts {
            let path = Path::new(text);
            if !is_url(path) {
                let folder = ReadableFolder::new(path).with_context(|| format!("--data {text}"))?;
                locations.folders.push(folder);
                continue;
            }
            let location = Location::new(text)?;
            if !is_reached(&location.base) {
                bail!("--data {}: use s3:// or az://", location.url);
            }
            locations.objects.push(location);
        }
        Ok(locations)
    }

    /// The store of the objects below a URL; `None` if it is the store of no location.
    pub fn store(&self, url: &str) -> Option<Arc<dyn ObjectStore>> {
        let location = self.objects.iter().find(|location| location.base.as_str() == url);
        location.map(|location| location.store.clone())
    }

    /// Finds what a path in a store names. Nothing is opened.
    ///
    /// # Errors
    /// The path is in no location.
    pub fn find(&self, store: &str, path: &ObjectPath) -> Result<GivenPlace<'_>, LocationError> {
        let refused = || LocationError::NotGiven(shown(&format!("{store}{path}")));
        if path.parts().any(|name| leads_elsewhere(name.as_ref())) {
            return Err(refused());
        }
        if store == ObjectStoreUrl::local_filesystem().as_str() {
            let file = PathBuf::from(format!("/{path}"));
            let (folder, within) = self.folder_of(&file).ok_or_else(refused)?;
            return Ok(GivenPlace::File(folder, within));
        }
        let mut objects = self.objects.iter();
        let object = objects.find(|location| {
            location.base.as_str() == store && path.prefix_matches(&location.prefix)
        });
        object.map(|_| GivenPlace::Object).ok_or_else(refused)
    }

    /// The folder that contains an absolute path, and the path below it.
    fn folder_of(&self, path: &Path) -> Option<(&ReadableFolder, PathBuf)> {
        self.folders.iter().find_map(|folder| Some((folder, folder.within(path)?)))
    }

    /// Checks a file or object that a plan reads. A missing file is accepted, because the scan
    /// reports it.
    ///
    /// # Errors
    /// The path is in no location, or a symbolic link is on the way.
    pub fn check(&self, store: &str, path: &ObjectPath) -> Result<(), LocationError> {
        match self.find(store, path)?.open() {
            Some(Err(reason)) if reason.kind() != io::ErrorKind::NotFound => {
                Err(LocationError::Refused { name: format!("/{path}"), reason })
            }
            _ => Ok(()),
        }
    }

    /// Checks the folder or the URL of a data set.
    ///
    /// # Errors
    /// As for [`Locations::check`].
    pub fn check_source(&self, source: &str) -> Result<(), LocationError> {
        let refused = || LocationError::NotGiven(shown(source));
        if is_url(Path::new(source)) {
            let location = Location::new(source).map_err(|_| refused())?;
            let place = self.find(location.base.as_str(), &location.prefix)?;
            return match place {
                GivenPlace::Object => Ok(()),
                GivenPlace::File(..) => Err(refused()),
            };
        }
        let (folder, within) = self.folder_of(Path::new(source)).ok_or_else(refused)?;
        match folder.check_folder(&within) {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
                Err(LocationError::Refused { name: source.to_owned(), reason })
            }
            _ => Ok(()),
        }
    }
}

/// Whether a name in a path is `.` or `..`, perhaps encoded, or contains a NUL.
fn leads_elsewhere(name: &str) -> bool {
    let mut name = name.as_bytes().to_vec();
    for _ in 0..MOST_DECODINGS {
        if matches!(&*name, b"." | b"..") || name.contains(&0) {
            return true;
        }
        name = decoded(&name);
    }
    false
}

/// Replaces each `%` with two digits by the byte that it stands for.
fn decoded(mut bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(bytes.len());
    while let Some((first, rest)) = bytes.split_first() {
        bytes = rest;
        let mut byte = *first;
        if let (b'%', [high, low, rest @ ..]) = (byte, rest)
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            byte = high << 4 | low;
            bytes = rest;
        }
        decoded.push(byte);
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locations(texts: &[&str]) -> Locations {
        Locations::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn is_given(locations: &Locations, store: &str, path: &str) -> bool {
        locations.find(store, &ObjectPath::parse(path).unwrap()).is_ok()
    }

    #[test]
    fn files_lie_in_a_given_folder() {
        let locations = locations(&["/data/traces/", "/other"]);
        for path in ["data/traces/a/b", "data/traces/run=x%2F..%2Fy/p", "other/p"] {
            assert!(is_given(&locations, "file:///", path), "{path}");
        }
        for path in ["data/traces2/a", "data", "etc/passwd", "data/traces/%2e%2e/a"] {
            assert!(!is_given(&locations, "file:///", path), "{path}");
        }
        for path in ["data/traces/%2E./a", "data/traces/%252e%252e/a", "data/traces/a%00"] {
            assert!(!is_given(&locations, "file:///", path), "{path}");
        }
        assert!(!is_given(&locations, "http://localhost:1/", "data/traces/a"));
    }

    #[test]
    fn objects_lie_below_a_given_url() {
        let locations = locations(&["http://localhost:1/data", "http://localhost:2"]);
        for (store, path, expected) in [
            ("http://localhost:1/", "data/a", true),
            ("http://localhost:1/", "database/a", false),
            ("http://localhost:1/", "a", false),
            ("http://localhost:2/", "a", true),
            ("http://localhost:3/", "data/a", false),
            ("https://localhost:1/", "data/a", false),
            ("http://user@localhost:1/", "data/a", false),
            ("file:///", "data/a", false),
        ] {
            assert_eq!(is_given(&locations, store, path), expected, "{store}{path}");
        }
        assert!(locations.store("http://localhost:3/").is_none());
    }

    #[test]
    fn sources_lie_in_a_location() {
        let locations = locations(&["/data", "http://localhost:1/data"]);
        for source in ["/data", "/data/a", "http://localhost:1/data/a/"] {
            assert!(locations.check_source(source).is_ok(), "{source}");
        }
        for source in [
            "data",
            "/data/../etc",
            "/etc",
            "file:///data",
            "http://localhost:1/",
            "http://localhost:2/data",
            "memory:///data",
        ] {
            let refusal = locations.check_source(source).unwrap_err().to_string();
            assert!(refusal.contains(source), "{refusal}");
        }
        for name in ["%2e%2e", "..", "%252e%252e"] {
            let source = format!("http://localhost:1/data/{name}/a");
            assert!(locations.check_source(&source).is_err(), "{source}");
        }
    }

    #[test]
    fn urls_of_which_a_store_is_only_a_part_are_rejected() {
        let urls = ["https://s3.us-east-1.amazonaws.com/bucket".to_owned()];
        assert!(Locations::new(&urls).unwrap_err().to_string().contains("use s3://"));
    }
}
