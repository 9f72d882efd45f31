//! Tests that maps are read as they were written, and that changed bytes and other files are
//! refused.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn place() -> impl Strategy<Value = Place> {
    (0..MOST_PAGES - 64, 1..9u32, any::<bool>()).prop_map(|(frame, mapping, is_file)| Place {
        frame,
        mapping,
        is_file,
    })
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry = (0..1u64 << 40, 1..60u64, prop::option::of(place()));
    prop::collection::vec(entry, 0..20).prop_map(|parts| {
        let mut next = 0;
        let at = |(distance, count, place): (u64, u64, Option<Place>)| {
            let page = next + distance;
            next = page + count;
            Entry { page, count, place }
        };
        parts.into_iter().map(at).collect()
    })
}

fn chunks() -> impl Strategy<Value = Chunk> {
    let process = (any::<u32>(), any::<u64>(), text(), text())
        .prop_map(|(pid, start_ticks, comm, exe)| Process { pid, start_ticks, comm, exe });
    let mapping = (any::<[u64; 4]>(), any::<(u32, u32)>(), any::<u8>(), text()).prop_map(
        |([first, second, offset, inode], device, permissions, name)| Mapping {
            start: first.min(second),
            end: first.max(second),
            permissions,
            offset,
            device,
            inode,
            name,
        },
    );
    let mappings = (any::<u32>(), prop::collection::vec(mapping, 0..4))
        .prop_map(|(process, mappings)| Chunk::Mappings { process, mappings });
    let scan = (any::<u32>(), any::<[u64; 5]>()).prop_map(|(process, numbers)| {
        let [first, second, present_pages, swapped_pages, hidden_pages] = numbers;
        let (begin_ns, end_ns) = (first.min(second), first.max(second));
        Scan { process, begin_ns, end_ns, present_pages, swapped_pages, hidden_pages }
    });
    let machine = (any::<[u8; 16]>(), 10..=30u8, text(), any::<[u32; 4]>()).prop_map(
        |(boot_id, page_log2, kernel, [a, b, c, d])| Machine {
            clock: Clock::Monotonic,
            boot_id,
            page_log2,
            start_ns: a.into(),
            start_realtime_ns: b.into(),
            kernel,
            memory: [c, d].map(|start| start.into()..u64::from(start) + 1).into(),
        },
    );
    let snapshot = any::<([u32; 4], Option<u32>)>().prop_map(|([a, b, c, d], mark)| Snapshot {
        begin_ns: a.into(),
        end_ns: u64::from(a) + u64::from(b),
        processes: c.into(),
        unread_processes: d.into(),
        mark,
    });
    prop_oneof![
        machine.prop_map(Chunk::Machine),
        process.prop_map(Chunk::Process),
        mappings,
        (any::<u32>(), entries()).prop_map(|(process, entries)| Chunk::Pages { process, entries }),
        scan.prop_map(Chunk::Scan),
        any::<(u32, u64)>().prop_map(|(process, time_ns)| Chunk::Gone { process, time_ns }),
        snapshot.prop_map(Chunk::Snapshot),
        any::<u32>().prop_map(|code| Chunk::End(content::Ending::from_code(code))),
        (9..u32::MAX).prop_map(Chunk::Unknown),
    ]
}

/// The pages of runs, one by one.
fn pages(runs: &[Run]) -> BTreeMap<u64, Place> {
    let run_pages = |run: &Run| {
        let run = *run;
        (0..run.count)
            .map(move |at| (run.page + at, Place { frame: run.place.frame + at, ..run.place }))
    };
    runs.iter().flat_map(run_pages).collect()
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = (0..4u64, 1..6u64, 0..9u64, 1..3u32);
    prop::collection::vec(run, 0..12).prop_map(|parts| {
        let mut next = 0;
        let at = |(distance, count, frame, mapping): (u64, u64, u64, u32)| {
            let page = next + distance;
            next = page + count;
            Run { page, count, place: Place { frame, mapping, is_file: mapping == 2 } }
        };
        parts.into_iter().map(at).collect()
    })
}

proptest! {
    #[test]
    fn chunks_are_read_as_they_were_written(chunk in chunks(), rest: Vec<u8>) {
        let bytes = chunk.encode();
        for cut in [0, CHUNK_HEADER_BYTES - 1, bytes.len() - 1] {
            prop_assert_eq!(Chunk::decode(&bytes[..cut]), Ok(None));
        }
        let read = Chunk::decode(&[&bytes[..], &rest].concat()).unwrap().unwrap();
        prop_assert_eq!(read, (chunk, bytes.len()));
    }

    #[test]
    fn a_changed_bit_is_found(chunk in chunks(), place: prop::sample::Index, bit in 0..8u32) {
        let mut bytes = chunk.encode();
        let at = place.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // If the bit makes the stated length larger, the chunk may also seem truncated.
        let read = Chunk::decode(&bytes);
        prop_assert!(matches!(read, Err(MapError::Checksum | MapError::Length(_)) | Ok(None)), "{:?}", read);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(payload: Vec<u8>, kind in 0..10u32) {
        let sum = crc32(&[&kind.to_le_bytes(), &(payload.len() as u32).to_le_bytes(), &payload]);
        let head = [kind, payload.len() as u32, sum].map(u32::to_le_bytes).concat();
        if let Ok(Some((Chunk::Pages { entries, .. }, _))) = Chunk::decode(&[head, payload].concat()) {
            let mut end = 0;
            for entry in entries {
                prop_assert!(entry.page >= end && entry.count > 0);
                end = entry.page + entry.count;
                prop_assert!(end <= MOST_PAGES);
                let frame = entry.place.map_or(0, |place| place.frame);
                prop_assert!(frame + entry.count <= MOST_PAGES);
            }
        }
    }

    #[test]
    fn changes_make_the_old_state_the_new_one(old in runs(), new in runs()) {
        let mut state = pages(&old);
        let mut end = 0;
        for Entry { page, count, place } in changes(&old, &new) {
            prop_assert!(page >= end && count > 0);
            end = page + count;
            for at in 0..count {
                let before = state.remove(&(page + at));
                prop_assert!(before.is_some() || place.is_some(), "nothing is removed twice");
                if let Some(place) = place {
                    let place = Place { frame: place.frame + at, ..place };
                    prop_assert!(before != Some(place), "only what has changed is written");
                    state.insert(page + at, place);
                }
            }
        }
        prop_assert_eq!(state, pages(&new));
    }
}

#[test]
fn headers_of_other_files_are_refused() {
    assert_eq!(decode_header(&header()), Ok(()));
    assert_eq!(decode_header(&header()[..15]), Err(MapError::NotAMap));
    assert_eq!(decode_header(b"hmtt-tag-and-more"), Err(MapError::NotAMap));
    let changed = |at: usize| {
        let mut bytes = header();
        bytes[at] ^= 4;
        decode_header(&bytes)
    };
    assert_eq!(changed(8), Err(MapError::Version(6)));
    assert_eq!(changed(12), Err(MapError::Header));
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let name = "ü".repeat(9000);
    let chunk =
        Chunk::Mappings { process: 1, mappings: vec![Mapping { name, ..Mapping::default() }] };
    let Ok(Some((Chunk::Mappings { mappings, .. }, _))) = Chunk::decode(&chunk.encode()) else {
        panic!()
    };
    assert_eq!(mappings[0].name, "ü".repeat(8192));
}

#[test]
fn snapshots_of_version_1_have_no_mark() {
    let snapshot = Snapshot { begin_ns: 5, end_ns: 9, processes: 3, ..Snapshot::default() };
    let mut payload = Vec::new();
    [5, 9, 3, 0].into_iter().for_each(|number| fields::push(number, &mut payload));
    let mut chunk = Chunk::Snapshot(snapshot).encode();
    assert_eq!(chunk.pop(), Some(0), "version 2 has one number more");
    assert_eq!(chunk[CHUNK_HEADER_BYTES..], payload);
    chunk[4] -= 1;
    let crc = crc32(&[&chunk[..8], &payload]);
    chunk[8..12].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Chunk::decode(&chunk).unwrap().unwrap().0, Chunk::Snapshot(snapshot));
    for (version, is_read) in [(0, false), (1, true), (2, true), (3, false)] {
        let mut header = header();
        header[8] = version;
        let crc = crc32(&[&header[..12]]);
        header[12..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode_header(&header).is_ok(), is_read, "{version}");
    }
}

proptest! {
    #[test]
    fn snapshots_are_found_among_other_marks(
        marks in prop::collection::vec((any::<u32>(), any::<bool>(), prop::collection::vec(0..0xe0u8, 0..3)), 0..20),
        lost in any::<prop::sample::Index>(),
    ) {
        let mut reader = SnapshotMarks::default();
        let mut snapshots = Vec::new();
        for (number, is_end, others) in &marks {
            let sequence = others.iter().copied().chain(SnapshotMark { number: *number, is_end: *is_end }.marks());
            snapshots.extend(sequence.filter_map(|mark| reader.mark(mark)));
        }
        let expected: Vec<_> =
            marks.iter().map(|(number, is_end, _)| SnapshotMark { number: *number, is_end: *is_end }).collect();
        prop_assert_eq!(snapshots, expected.clone());
        // If one of its marks is missing, no snapshot mark is found.
        if let Some(first) = expected.first() {
            let mut sequence: Vec<u8> = first.marks().collect();
            sequence.remove(lost.index(sequence.len()));
            let mut reader = SnapshotMarks::default();
            prop_assert!(sequence.into_iter().all(|mark| reader.mark(mark).is_none()));
        }
    }
}
