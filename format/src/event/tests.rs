use super::*;

/// An event of every kind, with the object that it is serialised to.
#[cfg(feature = "serde")]
fn objects() -> [(Event, &'static str); 12] {
    let (clock, direction, address) =
        (Cycles(77), Direction::Write, PhysAddr(0xfedc_ba98_7654_3210));
    let tag = |address| Event::Tag { clock, direction, offset: 8, address };
    let slice = |length| Event::Slice { clock, code: None, length, reads: 1, writes: 2 };
    [
        (
            Event::Access(Access { clock, direction, address }),
            r#"{"kind":"access","clock":77,"direction":"W","address":"0xfedcba9876543210"}"#,
        ),
        (tag(None), r#"{"kind":"tag","clock":77,"direction":"W","offset":8}"#),
        (
            tag(Some(PhysAddr(0x48))),
            r#"{"kind":"tag","clock":77,"direction":"W","offset":8,"address":"0x48"}"#,
        ),
        (
            Event::Mark { clock, register: MarkRegister(0x107) },
            r#"{"kind":"mark","clock":77,"register":263,"name":"free 7"}"#,
        ),
        (
            Event::Fault { clock, kind: FaultKind::ReadIdle, bank: 3 },
            r#"{"kind":"fault","clock":77,"fault":"read_idle","bank":3}"#,
        ),
        (
            Event::Page { clock, address: PhysAddr(0x1000), reads: 1, writes: 2, duration: 3 },
            r#"{"kind":"page","clock":77,"address":"0x1000","reads":1,"writes":2,"duration_clocks":3}"#,
        ),
        (
            slice(SliceLength::Unknown { partial: false }),
            r#"{"kind":"slice","clock":77,"duration_clocks":null,"partial":false,"reads":1,"writes":2}"#,
        ),
        (
            slice(SliceLength::Whole(Cycles(u64::MAX))),
            r#"{"kind":"slice","clock":77,"duration_clocks":18446744073709551615,"partial":false,"reads":1,"writes":2}"#,
        ),
        (
            slice(SliceLength::Partial(Cycles(5))),
            r#"{"kind":"slice","clock":77,"duration_clocks":5,"partial":true,"reads":1,"writes":2}"#,
        ),
        (Event::Interval { clock, part: 1 }, r#"{"kind":"interval","clock":77,"part":1}"#),
        (
            Event::Count { dump: 1, group: CountGroup::RowHits, index: 2, value: 3 },
            r#"{"kind":"count","dump":1,"group":"row_hits","index":2,"value":3}"#,
        ),
        (
            Event::HotPage { dump: 1, address: PhysAddr(4096), count: 2, votes: 3 },
            r#"{"kind":"hot_page","dump":1,"address":"0x1000","count":2,"votes":3}"#,
        ),
    ]
}

#[cfg(feature = "serde")]
#[test]
fn objects_have_the_members_of_their_kind_and_come_back() {
    for (event, object) in objects() {
        assert_eq!(serde_json::to_string(&event).unwrap(), object);
        assert_eq!(serde_json::from_str::<Event>(object).unwrap(), event);
        assert!(object.starts_with(&format!(r#"{{"kind":"{}""#, event.kind())), "{object}");
    }
    let kinds = Event::KINDS.map(|kind| objects().iter().any(|(event, _)| event.kind() == kind));
    assert_eq!(kinds, [true; Event::KINDS.len()]);
}

#[cfg(feature = "serde")]
#[test]
fn names_of_earlier_versions_are_read() {
    let read = |object| serde_json::from_str::<Event>(object).unwrap();
    let (clock, address) = (Cycles(1), PhysAddr(0x40));
    let page = Event::Page { clock, address, reads: 2, writes: 3, duration: 4 };
    let object =
        r#"{"kind":"page","clock":1,"address":"0x40","reads":2,"writes":3,"duration":4,"other":5}"#;
    assert_eq!(read(object), page);
    let length = SliceLength::Partial(Cycles(9));
    let slice = Event::Slice { clock, code: None, length, reads: 2, writes: 3 };
    let object = r#"{"kind":"slice","clock":1,"length":9,"partial":true,"reads":2,"writes":3}"#;
    assert_eq!(read(object), slice);
}

#[cfg(feature = "serde")]
#[test]
fn objects_that_are_no_event_name_the_problem() {
    for (object, problem) in [
        (r#"{"clock":1}"#, "missing field `kind`"),
        (r#"{"kind":"interval","clock":1}"#, "missing field `part`"),
        (r#"{"kind":"fault","clock":1,"fault":"x","bank":1}"#, "no fault is called x"),
        (
            r#"{"kind":"count","dump":1,"group":"x","index":1,"value":1}"#,
            "no group of counts is called x",
        ),
        (
            r#"{"kind":"access","clock":1,"direction":"r","address":"1"}"#,
            "direction 'r' is neither R nor W",
        ),
        (
            r#"{"kind":"access","clock":1,"direction":"R","address":"+1"}"#,
            "address \"+1\" is not hexadecimal",
        ),
        (r#"{"kind":"mark","clock":1,"register":4294967296}"#, "integer `4294967296`"),
        (r#"{"kind":"slice","clock":1,"reads":1,"writes":1}"#, "missing field `partial`"),
    ] {
        let error = serde_json::from_str::<Event>(object).unwrap_err().to_string();
        assert!(error.contains(problem), "{object}: {error}");
    }
}

#[test]
fn settings_add_what_a_record_does_not_state() {
    let (clock, direction) = (Cycles(1), Direction::Read);
    let tag = |address| Event::Tag { clock, direction, offset: 8, address };
    assert_eq!(tag(None).with_settings(Some(0x100), None), tag(Some(PhysAddr(0x108))));
    assert_eq!(tag(None).with_settings(None, Some(10_000)), tag(None));
    assert_eq!(tag(None).with_settings(Some(u64::MAX), None), tag(None));
    // No window with this base has this offset.
    assert_eq!(tag(None).with_settings(Some(0x104), None), tag(None));
    let slice = |length| Event::Slice { clock, code: Some(0), length, reads: 0, writes: 0 };
    let whole = slice(SliceLength::of_record(None));
    let of_code = slice(SliceLength::Whole(Cycles(100)));
    assert_eq!(whole.with_settings(None, Some(10_000)), of_code);
    assert_eq!(whole.with_settings(Some(0), None), whole);
    let partial = slice(SliceLength::of_record(Some(Cycles(7))));
    assert_eq!(partial.with_settings(Some(0), Some(10_000)), partial);
}

/// Decoders pass an event for each access of a frame with other records.
#[test]
fn an_event_is_no_larger_than_its_slice() {
    assert!(size_of::<Event>() <= 40, "{}", size_of::<Event>());
}
