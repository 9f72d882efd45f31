use super::*;
use proptest::prelude::*;

/// Encodes events as chunks in a buffer of a size in bytes, and decodes them.
fn through(events: &[TagEvent], is_timed: bool, buffer_bytes: usize) -> (Vec<TagEvent>, Vec<u8>) {
    let (mut log, mut buffer, mut rest) =
        (Vec::new(), vec![0; buffer_bytes], events.iter().peekable());
    while rest.peek().is_some() {
        let mut encoder = EventEncoder::new(&mut buffer, 7, is_timed).unwrap();
        encoder.set_time(99);
        while let Some(event) = rest.next_if(|event| encoder.push(**event).is_ok()) {
            assert!(encoder.count() > 0, "{event:?}");
        }
        let length = encoder.finish();
        log.extend_from_slice(&buffer[..length]);
    }
    let (mut read, mut left) = (Vec::new(), &log[..]);
    while let Some((chunk, length)) = Chunk::decode(left).unwrap() {
        let Content::Events(events) = chunk.content else { panic!("{chunk:?}") };
        assert!(chunk.thread == 7 && (is_timed || events.tsc == 99));
        let begin = read.len();
        read.extend(events.decode(is_timed).map(Result::unwrap));
        assert_eq!(read.len() - begin, events.count as usize);
        left = &left[length..];
    }
    assert!(left.is_empty());
    (read, log)
}

fn event() -> impl Strategy<Value = TagEvent> {
    let near = prop_oneof![0u32..9, any::<u32>()];
    let sp = prop_oneof![(0u32..9).prop_map(|at| at * 8), any::<u32>()];
    let tsc = prop_oneof![0u64..300, any::<u64>()];
    (tsc, sp, near, any::<bool>()).prop_map(|(tsc, sp, number, is_exit)| TagEvent {
        tsc,
        sp,
        number: FunctionId(number),
        is_exit,
    })
}

/// Generates the events of a program whose 200 functions call one another, with tail calls, jumps
/// out of several frames and blocks. Frames have 16 to 400 bytes, and 20 to 300 ticks pass between
/// events.
fn program(seed: u64, length: usize) -> Vec<TagEvent> {
    let mut state = seed;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % limit
    };
    let (mut events, mut stack, mut tsc) = (Vec::new(), Vec::new(), 1 << 50);
    while events.len() < length {
        tsc += 20 + below(280);
        let sp = stack.last().map_or(0x7fff_f000u32, |(_, sp)| *sp);
        let (number, sp, is_exit) = match below(100) {
            0 if stack.len() > 3 => {
                stack.truncate(stack.len() - 2);
                continue;
            }
            1..5 => (1000 + below(50) as u32, sp - 8, false),
            5..50 if !stack.is_empty() => {
                let (number, sp) = stack.pop().unwrap();
                (number, sp, true)
            }
            _ => {
                // The frame of a function always has the same size.
                let caller = stack.last().map_or(0, |(number, _)| *number);
                let called = (caller + 1 + below(3) as u32) % 200;
                let frame = if below(20) == 0 { 0 } else { 16 + caller * 53 % 48 * 8 };
                stack.push((called, sp - frame));
                (called, sp - frame, false)
            }
        };
        events.push(TagEvent { tsc, sp, number: FunctionId(number), is_exit });
    }
    events
}

proptest! {
    #[test]
    fn any_events_survive(
        events in prop::collection::vec(event(), 0..300),
        buffer_bytes in 53usize..2000,
        is_timed: bool,
    ) {
        let (read, _) = through(&events, is_timed, buffer_bytes);
        let kept = |event: &TagEvent| TagEvent { tsc: if is_timed { event.tsc } else { 0 }, ..*event };
        prop_assert_eq!(read, events.iter().map(kept).collect::<Vec<_>>());
    }

    #[test]
    fn what_programs_do_survives(seed: u64, buffer_bytes in 100usize..5000) {
        let events = program(seed, 1000);
        prop_assert_eq!(through(&events, true, buffer_bytes).0, events);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Header::decode(&bytes);
        prop_assert!(!matches!(Chunk::decode(&bytes), Ok(Some(_))));
    }

    #[test]
    fn any_payload_is_read_or_refused(
        kind in 0u32..10,
        payload in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..200),
        count in 0u32..60,
        is_timed: bool,
    ) {
        let mut chunk = [&[0; CHUNK_HEADER_BYTES][..], &payload].concat();
        chunk::seal(kind, 3, &mut chunk);
        if let Some((Chunk { content: Content::Events(events), .. }, _)) = Chunk::decode(&chunk).unwrap_or(None) {
            let events = Events { count, ..events };
            let read: Vec<_> = events.decode(is_timed).collect();
            prop_assert!(read.iter().rev().skip(1).all(Result::is_ok), "nothing comes after an error");
            prop_assert!(read.len() <= count as usize + 1);
        }
    }

    #[test]
    fn chunks_survive_and_cut_or_changed_ones_are_told(
        thread: u32,
        numbers: [u64; 3],
        name in prop::collection::vec(any::<u8>(), 0..20),
        at: prop::sample::Index,
        bit in 0u32..8,
    ) {
        let [first, second, third] = numbers;
        let (code, number) = (third as u32, second as i32);
        let contents = [
            Content::Events(Events { tsc: first, count: code, packed: &name }),
            Content::Lost { count: first, reason: LossReason::BufferFull },
            Content::Lost { count: second, reason: LossReason::Interrupted },
            Content::Lost { count: third, reason: LossReason::Unknown(code | 4) },
            Content::ThreadStart { name: &name },
            Content::ThreadEnd,
            Content::Clocks(ClockPair { tsc: first, monotonic_ns: second, realtime_ns: third }),
            Content::Mark(Mark { register: code, tsc_before: first, tsc_after: second }),
            Content::End(Ending::Detached),
            Content::End(Ending::Exited(number)),
            Content::End(Ending::Signaled(number)),
            Content::End(Ending::Replaced),
            Content::Unknown { kind: code | 8, payload: &name },
        ];
        for content in contents {
            let (chunk, mut buffer) = (Chunk { thread, content }, [0; 64]);
            let length = chunk.encode(&mut buffer).unwrap();
            prop_assert_eq!(Chunk::decode(&buffer), Ok(Some((chunk, length))));
            prop_assert_eq!(chunk.encode(&mut buffer[..length - 1]), Err(Full));
            let at = at.index(length);
            prop_assert_eq!(Chunk::decode(&buffer[..at]), Ok(None));
            buffer[at] ^= 1 << bit;
            prop_assert!(!matches!(Chunk::decode(&buffer), Ok(Some(_))));
        }
    }

    #[test]
    fn headers_survive_and_damage_is_told(
        is_timed: bool, pid: u32, tsc_hz: u64, start_ns: u64, map_id: [u8; 8],
        at in 0..HEADER_BYTES, bit in 0u32..8,
    ) {
        let header = Header { is_timed, pid, tsc_hz, start_ns, map_id };
        let mut bytes = header.encode();
        prop_assert_eq!(Header::decode(&bytes), Ok(header));
        prop_assert_eq!(Header::decode(&bytes[..at]), Err(LogError::NotALog));
        bytes[at] ^= 1 << bit;
        prop_assert!(Header::decode(&bytes).is_err());
    }

    #[test]
    fn slots_hold_events(tsc: u64, sp: u32, number in 0..=MAX_NUMBER, is_exit: bool) {
        let event = TagEvent { tsc, sp, number: FunctionId(number), is_exit };
        let mut slot = [0; TIMED_SLOT_BYTES];
        slot[..8].copy_from_slice(&tsc.to_le_bytes());
        slot[8..12].copy_from_slice(&sp.to_le_bytes());
        prop_assert_eq!(TagEvent::from_timed(&slot), None);
        slot[12..].copy_from_slice(&event.word().to_le_bytes());
        prop_assert_eq!(TagEvent::from_timed(&slot), Some(event));
        let ordered = slot.last_chunk().unwrap();
        prop_assert_eq!(TagEvent::from_ordered(ordered), Some(TagEvent { tsc: 0, ..event }));
    }
}

#[test]
fn a_chunk_has_the_documents_bytes() {
    let event = |number, sp, is_exit| TagEvent { tsc: 0, sp, number: FunctionId(number), is_exit };
    let enter = |number, sp| event(number, sp, false);
    let exit = |number, sp| event(number, sp, true);
    let events = [enter(1, 4096), enter(2, 4048), exit(2, 4048), exit(9, 4090), exit(1, 4096)];
    let (_, log) = through(&events, false, 100);
    let payload = &log[CHUNK_HEADER_BYTES..];
    assert_eq!(payload[..12], [99, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    // 4090 is 6 below 4096: a distance of -1 words, and a remainder of 2.
    assert_eq!(payload[12..], [5, 0x80, 8, 6, 11, 0, 3, 9, 0x81, 0x80, 0x80, 0x80, 4, 0]);
    assert_eq!(log[..12], [1, 0, 0, 0, 7, 0, 0, 0, 26, 0, 0, 0]);
}

#[test]
fn calls_take_the_bytes_the_document_says() {
    let events = program(1, 100_000);
    let per_event = |is_timed| {
        let bytes = through(&events, is_timed, 1 << 14).1.len();
        bytes as f64 / events.len() as f64
    };
    let (ordered, timed) = (per_event(false), per_event(true));
    assert!(ordered < 1.9 && timed < 3.5, "{ordered} {timed}");
}
