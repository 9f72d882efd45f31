//! Converts errors of other libraries for the query engine.

use std::error::Error;

use datafusion::common::DataFusionError;

/// An error for the query engine.
pub fn external(error: impl Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
