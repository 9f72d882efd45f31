//! Recognises records of DAMON, which have no accesses, and says why they are refused.
//!
//! DAMON checks one page of each region of memory in each sampling interval, and counts the
//! intervals in which it was accessed. Neither the accesses nor their addresses, directions and
//! order follow from that: a count is no number of accesses, and it is of no known page if the
//! region has several.

/// Why records of DAMON are refused.
pub const DAMON: &str = "is a record of DAMON: it counts the samples in which regions of memory were accessed, and has no accesses, so \
     that neither tables nor analyses follow from it; `damo report` evaluates it";
/// What text of an event of DAMON has, as `perf script` prints it.
const EVENTS: [&str; 2] = [" damon:damon_aggregated: ", " damon:damos_before_apply: "];
/// Keys of a record of `damo` in JSON, which is a list.
const KEYS: [&str; 2] = ["\"target_id\"", "\"snapshots\""];
/// What `damo report raw` prints first.
const RAW: &str = "base_time_absolute:";

/// Whether a file begins as a record of DAMON: in JSON, as `damo report raw` prints it, or as text
/// of its events.
pub fn is_damon(begin: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begin);
    let is_json = text.trim_start().starts_with('[') && KEYS.iter().all(|key| text.contains(key));
    let first = text.lines().next().unwrap_or_default();
    is_json || first.starts_with(RAW) || EVENTS.iter().any(|event| first.contains(event))
}
