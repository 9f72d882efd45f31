//! Hashes numbers quickly, with a key that is random in each map: the author of a log cannot choose
//! numbers that collide.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// A map whose keys are numbers.
pub type FastMap<K, V> = HashMap<K, V, RandomState>;
