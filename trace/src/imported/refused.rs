//! Recognises records of DAMON, which have no accesses, and explains why they are refused.
//!
//! In each sampling interval, DAMON checks whether one page of each memory region was accessed. It
//! counts the intervals in which that page was accessed. A count is not a number of accesses. If a
//! region has several pages, it is not known to which page a count belongs. Addresses, directions
//! and the order of accesses are not recorded at all.

/// Message that refuses records of DAMON.
pub const DAMON: &str = "is a record of DAMON: it counts the samples in which regions of memory were accessed, and has no accesses, so \
     that neither tables nor analyses follow from it; `damo report` evaluates it";
/// Names of DAMON's events in the output of `perf script`.
const EVENTS: [&str; 2] = [" damon:damon_aggregated: ", " damon:damos_before_apply: "];
/// Keys in a record of `damo` in JSON, which is a list.
const KEYS: [&str; 2] = ["\"target_id\"", "\"snapshots\""];
/// First text in the output of `damo report raw`.
const RAW: &str = "base_time_absolute:";

/// Maximum number of bytes of a compressed record that are decompressed to recognise it.
#[cfg(feature = "compressed-captures")]
const INFLATED_BYTES: u64 = 4096;

/// Whether a file begins like a record of DAMON: as JSON, which `damo record` compresses with zlib;
/// as output of `damo report raw`; or as text of DAMON's events.
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

/// Decompresses the begin of a file with zlib (RFC 1950). Returns no bytes if the file is not
/// compressed with zlib.
#[cfg(feature = "compressed-captures")]
fn inflated(begin: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // `begin` ends within the compressed data, which is an error here. The bytes decompressed
    // before it are kept.
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
