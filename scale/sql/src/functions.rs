//! Adds functions for queries of memory traces.
//!
//! `units` and `order` compute from their arguments alone. `places` (banks and rows) and
//! `timelines` (functions of programs) also need the memories and tags of the sources. The engine
//! loads these before it plans a query that uses such a function.

mod address_maps;
mod collected;
mod function_at;
mod histogram;
mod order;
mod places;
mod stack_distance;
mod state;
mod timelines;
mod units;

use std::sync::Arc;

use datafusion::execution::context::SessionContext;

pub use address_maps::AddressMaps;
pub use state::{read_state, write_state};
pub use timelines::{SessionKey, SessionTags, Tag, TagSource, Timelines};

/// Names of the functions that need the maps of addresses.
pub const OF_MAPS: [&str; 2] = ["row", "bank"];
/// Name of the function that needs timelines.
pub const OF_TIMELINES: &str = "function_at";

/// Adds all functions to a session, with nothing loaded. [`read_state`] creates functions that have
/// loaded their state.
pub fn register_all(context: &SessionContext) {
    register(context, &Arc::default(), &Arc::default());
}

/// Adds all functions to a session.
pub fn register(context: &SessionContext, maps: &Arc<AddressMaps>, timelines: &Arc<Timelines>) {
    for function in units::functions().into_iter().chain(order::functions()) {
        context.register_udf(function);
    }
    for function in places::functions(maps) {
        context.register_udf(function);
    }
    context.register_udf(function_at::function(timelines));
    context.register_udaf(histogram::function());
    context.register_udaf(stack_distance::function());
}
