//! Makes the object stores from which executors read parts, when a plan names them.
//!
//! A plan has the URL of a store, not its credentials: these are in the environment of the executor. The scheduler decodes
//! plans, which needs stores, but reads no part: its stores are empty.

use std::sync::{Arc, LazyLock};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::memory::InMemory;
use hmtt_sql::remote::Location;
use url::Url;

/// The file system, and the object stores that were used.
#[derive(Debug, Default)]
pub struct Stores(DefaultObjectStoreRegistry);

/// The stores of this process, so that queries share connections.
static STORES: LazyLock<Arc<Stores>> = LazyLock::new(Arc::default);

/// The stores of this process.
pub fn stores() -> Arc<Stores> {
    STORES.clone()
}

impl ObjectStoreRegistry for Stores {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if let Ok(known) = self.0.get_store(url) {
            return Ok(known);
        }
        let location = Location::new(url.as_str());
        let store = location.map_err(|error| DataFusionError::External(error.into()))?.store;
        self.0.register_store(url, store.clone());
        Ok(store)
    }
}

/// The file system, and an empty store for every other URL.
#[derive(Debug, Default)]
pub struct EmptyStores {
    files: DefaultObjectStoreRegistry,
    empty: Arc<InMemory>,
}

impl ObjectStoreRegistry for EmptyStores {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.files.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        Ok(self.files.get_store(url).unwrap_or_else(|_| self.empty.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_made_once() {
        let stores = Stores::default();
        let url = |text: &str| Url::parse(text).unwrap();
        let first = stores.get_store(&url("http://localhost:1/")).unwrap();
        let again = stores.get_store(&url("http://localhost:1/folder")).unwrap();
        let other = stores.get_store(&url("http://localhost:2/")).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        assert!(stores.get_store(&url("file:///")).is_ok());
        assert!(stores.get_store(&url("ftp://localhost/")).is_err());
    }
}
