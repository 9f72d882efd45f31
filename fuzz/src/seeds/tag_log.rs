//! Builds scripts of the target `tag_log` from a few calls.

use hmtt_files::tag_log::{CHUNK_HEADER_BYTES, EventEncoder, FunctionId, TagEvent};

/// Returns scripts with calls, returns, a jump, a block and another stack, with and without times,
/// and one chunk of each other kind.
pub fn scripts() -> Vec<Vec<u8>> {
    [false, true].into_iter().map(script).collect()
}

fn script(is_timed: bool) -> Vec<u8> {
    let events: [(u32, u32, bool); 10] = [
        (1, 0x8000, false),
        (2, 0x7f00, false),
        (9, 0x7ef8, false),
        (3, 0x7e00, false),
        (3, 0x7e00, true),
        (4, 0x0800_0000, false),
        (4, 0x0800_0000, true),
        (200, 0x7e03, false),
        (7, 0x7f00, true),
        (1, 0x8000, true),
    ];
    let mut buffer = [0; 512];
    let mut encoder =
        EventEncoder::new(&mut buffer, 1, is_timed).expect("the buffer is large enough");
    for (at, (number, sp, is_exit)) in events.into_iter().enumerate() {
        let event =
            TagEvent { tsc: 1000 + 300 * at as u64, sp, number: FunctionId(number), is_exit };
        encoder.push(event).expect("the buffer is large enough");
    }
    let length = encoder.finish();
    let mut script = vec![u8::from(is_timed)];
    let mut add = |kind, payload: &[u8]| {
        script.extend([kind, 1, payload.len() as u8]);
        script.extend(payload);
    };
    add(3, b"name");
    add(1, &buffer[CHUNK_HEADER_BYTES..length]);
    add(2, &[3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    add(4, &[]);
    add(1, &buffer[CHUNK_HEADER_BYTES..length]);
    add(5, &[1; 24]);
    add(6, &[1; 20]);
    add(7, &[1, 0, 0, 0, 0, 0, 0, 0]);
    script
}

/// Returns a map with a function and a block.
pub fn map() -> Vec<u8> {
    serde_json::json!({
        "version": 2, "id": "0001020304050607", "program": "p", "pid": 1, "sink": "log",
        "timed": true, "tsc_hz": 1000, "window": { "address": "1000", "stride_bytes": 8, "bytes": 64 },
        "functions": [{
            "number": 3, "name": "f", "symbols": ["_f"], "object": "p", "code_address": "40",
            "size_bytes": 1, "tagged_exits": "some", "removed": "called too often",
        }],
        "blocks": [{ "number": 200, "function_number": 3, "code_address": "47", "size_bytes": 1 }],
        "refused": [{ "name": "g", "reason": "too short" }],
    })
    .to_string()
    .into_bytes()
}
