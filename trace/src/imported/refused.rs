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

/// Bytes of the begin of a compressed record that are looked at.
#[cfg(feature = "compressed-captures")]
const INFLATED_BYTES: u64 = 4096;

/// Whether a file begins as a record of DAMON: in JSON, which `damo record` compresses with zlib;
/// as `damo report raw` prints it; or as text of its events.
pub fn is_damon(begin: &[u8]) -> bool {
    #[cfg(feature = "compressed-captures")]
    if is_json(&inflated(begin)) {
        return true;
    }
    let text = String::from_utf8_lossy(begin);
    let first = text.lines().next().unwrap_or_default();
    is_json(begin) || first.starts_with(RAW) || EVENTS.iter().any(|event| first.contains(event))
}

fn is_json(begin: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begin);
    text.trim_start().starts_with('[') && KEYS.iter().all(|key| text.contains(key))
}

/// The begin of what zlib (RFC 1950) has compressed; what is not compressed has none.
#[cfg(feature = "compressed-captures")]
fn inflated(begin: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // The begin of a file ends within its compressed data: what was inflated up to there is kept.
    let _ = flate2::read::ZlibDecoder::new(begin).take(INFLATED_BYTES).read_to_end(&mut bytes);
    bytes
}

#[cfg(all(test, feature = "compressed-captures"))]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn compressed_records_are_recognised_by_their_begin() {
        let regions = " 17,".repeat(100_000);
        let json = format!("[\n {{\n  \"target_id\": 0,\n  \"snapshots\": [{regions}");
        let mut compressed = Vec::new();
        let mut encoder = flate2::read::ZlibEncoder::new(json.as_bytes(), Default::default());
        encoder.read_to_end(&mut compressed).unwrap();
        assert!(is_damon(&compressed));
        assert!(is_damon(&compressed[..compressed.len() / 2]));
        assert!(!is_damon(&compressed[..20]));
    }
}
