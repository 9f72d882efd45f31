//! Tests that maps survive their files, that older versions are read, and that other files are
//! refused.

use super::*;

fn map() -> TagMap {
    let function = TaggedFunction {
        number: FunctionId(0),
        name: "main".into(),
        symbols: vec!["main".into(), "start_here".into()],
        object: "/bin/prog".into(),
        code_address: 0x5555_0000_1139,
        file_address: Some(0x1139),
        size_bytes: 40,
        tagged_exits: Exits::All,
        removed: Some("over budget".into()),
    };
    TagMap {
        version: VERSION,
        id: [0, 1, 2, 3, 4, 5, 6, 0xff],
        program: "/bin/prog".into(),
        pid: 7,
        sink: "log".into(),
        timed: true,
        tsc_hz: 2_400_000_000,
        window: Some(Window { address: 1 << 40, stride_bytes: 64, bytes: 4096 }),
        functions: vec![function],
        blocks: vec![TaggedBlock {
            number: FunctionId(1),
            function_number: FunctionId(0),
            code_address: 0x5555_0000_1140,
            size_bytes: 5,
            loop_number: Some(1),
        }],
        loops: vec![loop_of(0, None), loop_of(1, Some(0))],
        refused: vec![RefusedFunction { name: "tiny".into(), reason: "too short".into() }],
    }
}

fn loop_of(number: u32, outer_number: Option<u32>) -> TaggedLoop {
    TaggedLoop {
        number,
        function_number: FunctionId(0),
        code_address: 0x5555_0000_113c + 4 * u64::from(number),
        outer_number,
        tagged_exits: Exits::All,
    }
}

/// The content of a map of a version without loops.
fn without_loops() -> TagMap {
    let mut map = TagMap { loops: Vec::new(), ..map() };
    map.blocks[0].loop_number = None;
    map.functions[0].file_address = None;
    map
}

#[test]
fn a_map_survives_its_file_and_replaces_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = TagMap::path_beside(&folder.path().join("tags.log"));
    assert_eq!(path, folder.path().join("tags.log.json"));
    TagMap { pid: 8, ..map() }.save(&path).unwrap();
    map().save(&path).unwrap();
    assert_eq!(TagMap::load(&path).unwrap(), map());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"id\": \"00010203040506ff\""), "{text}");
    assert!(text.contains("\"code_address\": \"555500001139\""), "{text}");
    assert!(text.contains("\"tagged_exits\": \"all\""), "{text}");
}

/// A map as versions without loops wrote it.
fn text_without_loops() -> String {
    let mut map = serde_json::to_value(map()).unwrap();
    assert!(map.as_object_mut().unwrap().remove("loops").is_some());
    assert!(map["blocks"][0].as_object_mut().unwrap().remove("loop_number").is_some());
    assert!(map["functions"][0].as_object_mut().unwrap().remove("file_address").is_some());
    map.to_string()
}

#[test]
fn a_map_of_version_2_has_no_loops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.json");
    fs::write(&path, text_without_loops().replace("version\":3", "version\":2")).unwrap();
    assert_eq!(TagMap::load(&path).unwrap(), without_loops());
}

#[test]
fn a_map_of_version_1_has_the_same_content() {
    let mut text = text_without_loops();
    let names = [
        ("version\":3", "version\":1"),
        ("code_address", "start"),
        ("address", "base"),
        ("stride_bytes", "stride"),
        ("size_bytes", "size"),
        ("tagged_exits", "exits"),
        ("function_number", "function"),
    ];
    for (new, old) in names {
        assert!(text.contains(new), "{text}");
        text = text.replace(new, old);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.json");
    fs::write(&path, text).unwrap();
    assert_eq!(TagMap::load(&path).unwrap(), without_loops());
}

#[test]
fn addresses_may_be_numbers() {
    let text = serde_json::to_string(&map()).unwrap();
    for other in ["0x555500001139", "555500001139"] {
        let text = text.replace("555500001139", other);
        assert_eq!(serde_json::from_str::<TagMap>(&text).unwrap(), map());
    }
    let text = text.replace("\"555500001139\"", "93823560585529");
    assert_eq!(serde_json::from_str::<TagMap>(&text).unwrap(), map());
    let text = text.replace("93823560585529", "\"main\"");
    assert!(serde_json::from_str::<TagMap>(&text).is_err());
}

#[test]
fn other_files_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        TagMap::load(&path).unwrap_err().to_string()
    };
    assert!(refused("{\"version\": 4}").contains("x.json: a tag map of version 4, not 3"));
    assert!(refused("[]").contains("x.json is no tag map"));
    assert!(refused("{\"version\": 2}").contains("x.json is no tag map"));
    fs::remove_file(&path).unwrap();
    assert!(TagMap::load(&path).unwrap_err().to_string().contains("cannot read"));
    assert!(map().save(&path.join("y")).unwrap_err().to_string().contains("cannot write"));
}

#[test]
fn ids_differ() {
    assert_ne!(new_id(), new_id());
}
