//! Builds the most expensive tag logs and tag maps.

use hmtt_files::tag_log::{
    CHUNK_HEADER_BYTES, EventEncoder, FunctionId, HEADER_BYTES, Header, TagEvent,
};

use super::{Input, Shape, is_linear, repeated};

/// Appends a chunk as `docs/tag-log.md` defines it.
pub(super) fn chunk(kind: u32, thread: u32, payload: &[u8], bytes: &mut Vec<u8>) {
    let mut header = [kind, thread, payload.len() as u32].map(u32::to_le_bytes).concat();
    header.extend(payload);
    let crc = crc(&header);
    bytes.extend(&header[..12]);
    bytes.extend(crc.to_le_bytes());
    bytes.extend(payload);
}

/// CRC-32 of IEEE 802.3, computed bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

/// Returns the header of a log whose ticks are nanoseconds.
pub(super) fn header() -> Vec<u8> {
    let mut begin = vec![0; HEADER_BYTES];
    let header = Header { is_timed: true, tsc_hz: 1_000_000_000, ..Header::default() };
    begin.copy_from_slice(&header.encode());
    begin
}

fn log(size: usize, part: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    [header(), repeated(size, part)].concat()
}

/// Appends chunks of entries or exits of one thread.
fn events(thread: u32, events: impl Iterator<Item = (u32, u32, bool)>, bytes: &mut Vec<u8>) {
    let event =
        |(number, sp, is_exit)| TagEvent { tsc: 0, sp, number: FunctionId(number), is_exit };
    timed_events(thread, events.map(event), bytes);
}

/// Appends a chunk of events of one thread.
pub(super) fn timed_events(
    thread: u32,
    events: impl Iterator<Item = TagEvent>,
    bytes: &mut Vec<u8>,
) {
    let mut buffer = vec![0; 1 << 16];
    let mut encoder = EventEncoder::new(&mut buffer, thread, true).unwrap();
    events.for_each(|event| encoder.push(event).unwrap());
    let length = encoder.finish();
    assert!(length > CHUNK_HEADER_BYTES);
    bytes.extend(&buffer[..length]);
}

fn threads(size: usize) -> Vec<u8> {
    log(size, |count, bytes| chunk(3, count as u32 + 1, &[], bytes))
}

/// Builds a call in each thread, none of which ends.
fn calling_threads(size: usize) -> Vec<u8> {
    log(size, |count, bytes| {
        events(count as u32 + 1, (0..2).map(|at| (at, 0x8000 - at, false)), bytes);
    })
}

/// Builds calls that never return, each of another function.
fn deep(size: usize) -> Vec<u8> {
    log(size, |count, bytes| {
        let first = count as u32 * 4096;
        events(1, (first..first + 4096).map(|at| (at, u32::MAX / 2 - at, false)), bytes);
    })
}

/// Builds calls on alternating stacks that are far from each other.
fn stacks(size: usize) -> Vec<u8> {
    log(size, |_, bytes| {
        events(1, (0..4096).map(|at| (1, (at % 24) * (170 << 20) + at, false)), bytes);
    })
}

fn marks(size: usize) -> Vec<u8> {
    log(size, |_, bytes| chunk(6, 1, &[1; 20], bytes))
}

fn unknown(size: usize) -> Vec<u8> {
    log(size, |count, bytes| chunk(count as u32 + 100, 1, &[], bytes))
}

/// Builds a map with functions of one name.
fn map(size: usize) -> Vec<u8> {
    let mut map = String::from(
        "{\"version\":1,\"id\":\"0000000000000000\",\"program\":\"p\",\"pid\":1,\"sink\":\"log\",\
         \"timed\":true,\"tsc_hz\":1,\"window\":null,\"blocks\":[],\"refused\":[],\"functions\":[",
    );
    let functions = repeated(size, |count, bytes| {
        let separator = if count == 0 { "" } else { "," };
        let function = format!(
            "{separator}{{\"number\":{count},\"name\":\"f\",\"symbols\":[],\"object\":\"p\",\
             \"start\":\"{count:x}\",\"size\":1,\"exits\":\"all\",\"removed\":null}}"
        );
        bytes.extend(function.into_bytes());
    });
    map.push_str(&String::from_utf8(functions).unwrap());
    map.push_str("]}");
    map.into_bytes()
}

#[test]
fn logs_and_maps_are_read_in_linear_time() {
    let inputs: [(&'static str, Input, usize); 6] = [
        ("log-threads", threads, 64),
        ("log-calling-threads", calling_threads, 64),
        ("log-deep", deep, 256),
        ("log-stacks", stacks, 64),
        ("log-marks", marks, 16),
        ("log-unknown", unknown, 16),
    ];
    for (name, input, memory) in inputs {
        let command = "tag report --threads --graph IN";
        let (extension, size) = ("tags", 1 << 19);
        is_linear(&Shape { name, command, extension, input, size, memory, beside: None });
    }
    let (name, command, input, extension) = ("map", "tag report IN", threads as _, "tags");
    let beside = Some(("json", map as Input));
    is_linear(&Shape { name, command, extension, input, size: 1 << 19, memory: 64, beside });
}
