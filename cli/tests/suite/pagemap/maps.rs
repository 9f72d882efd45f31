//! Maps that are made here: owners of the pages of captures, and maps that do not fit.

use super::*;

/// A map of three processes and two snapshots, of a machine with so many bytes.
pub fn small_map(memory_bytes: u64) -> Vec<u8> {
    let memory = std::iter::once(0..memory_bytes).collect();
    let machine = Machine { page_log2: 12, memory, kernel: "6.1".into(), ..Machine::default() };
    let mut writer = Writer::new(Vec::new(), &machine).unwrap();
    let mut mappings = Vec::new();
    for (pid, comm) in [(101, "sort"), (102, "cat, \"2\""), (103, "\u{1b}[2J")] {
        let process = Process { pid, comm: comm.into(), exe: "/usr/bin/x".into(), start_ticks: 9 };
        let process = writer.process(&process).unwrap();
        let heap = Mapping { end: 1 << 40, name: "[heap]".into(), ..Mapping::default() };
        let library = Mapping { name: "/lib/c.so".into(), inode: 7, ..heap.clone() };
        mappings.push((process, writer.mappings(process, &[heap, library]).unwrap()));
    }
    for snapshot in 0..2 {
        for (process, heap) in &mappings {
            let frame = |frame, mapping| Some(Place { frame, mapping, is_file: mapping > *heap });
            let own = 256 * u64::from(*process);
            let entries = match (snapshot, process) {
                (0, 3) => vec![Entry { page: 0x700, count: 256, place: frame(own, *heap) }],
                (0, _) => vec![
                    Entry { page: 0x400, count: 256, place: frame(own, *heap) },
                    Entry { page: 0x900, count: 256, place: frame(0, heap + 1) },
                ],
                // The third process loses its pages.
                (_, 3) => vec![Entry { page: 0x700, count: 256, place: None }],
                _ => Vec::new(),
            };
            writer.pages(*process, &entries).unwrap();
            writer.scan(Scan { process: *process, ..Scan::default() }).unwrap();
        }
        writer.snapshot(Snapshot { processes: 3, ..Snapshot::default() }).unwrap();
    }
    writer.finish(Ending::Time).unwrap()
}

/// Writes a file.
pub fn map_file(name: &str, bytes: &[u8]) -> PathBuf {
    let file = scratch(name);
    std::fs::write(&file, bytes).unwrap();
    file
}

#[test]
fn owners_of_a_captures_pages_are_readable() {
    let map = map_file("pagemap-text.map", &small_map(1 << 36));
    let capture = capture_file("pagemap-text.pcapng", &Card::new().session(4, 300).0);
    let folder = map.parent().unwrap().to_str().unwrap();
    let mut shown = String::new();
    for words in [
        &["stats"][..],
        &["hot", "--top", "3"],
        &["hot", "--top", "2", "--csv"],
        &["reuse"],
        &["check"],
    ] {
        let output = hmtt(&[words, &["--pagemap", text(&map), text(&capture)]].concat());
        shown += &format!(
            "$ hmtt {}\n{}\n",
            words.join(" "),
            transcript(&output).replace(folder, "FOLDER")
        );
    }
    check("pagemap", &shown);
    let report = json(&["report", "--json", "--pagemap", text(&map), text(&capture)]);
    let sums = &report["page_map"];
    let sum: u64 = ["resolved", "shared", "ambiguous", "unresolved"]
        .iter()
        .map(|name| sums[format!("{name}_accesses")].as_u64().unwrap())
        .sum();
    assert_eq!(sums["accesses"], sum);
    let csv = hmtt(&["hot", "--csv", "--pagemap", text(&map), text(&capture)]).stdout;
    let csv = String::from_utf8(csv).unwrap();
    assert_documented("hmtt hot --pagemap --csv", csv.lines().next().unwrap().split(','));
}

#[test]
fn maps_that_do_not_fit_are_refused() {
    let capture = capture_file("pagemap-refused.pcapng", &Card::new().session(1, 10).0);
    let stats = |name: &str, bytes: &[u8]| {
        let map = map_file(name, bytes);
        let output = hmtt(&["stats", "--pagemap", text(&map), text(&capture)]);
        (exit_code(&output), errors(&output), String::from_utf8(output.stdout).unwrap())
    };
    let (code, error, _) = stats("pagemap-other.map", &small_map(1 << 20));
    assert!(code == 1 && error.contains("is a map of another machine"), "{error}");
    let (code, error, _) = stats("pagemap-nothing.map", b"");
    assert!(code == 1 && error.contains("it is no map of pages"), "{error}");
    let whole = small_map(1 << 36);
    let (code, error, _) = stats("pagemap-begun.map", &whole[..200]);
    assert!(code == 1 && error.contains("has no whole snapshot"), "{error}");
    let (code, _, shown) = stats("pagemap-cut.map", &whole[..whole.len() - 1]);
    assert!(
        code == 3 && shown.starts_with("INCOMPLETE") && shown.contains("the map is cut"),
        "{shown}"
    );
    let mut newer = whole.clone();
    newer[8] = 3;
    let (code, error, _) = stats("pagemap-newer.map", &newer);
    assert!(code == 1 && error.contains("version is 3"), "{error}");
    let mut damaged = whole;
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let (code, _, shown) = stats("pagemap-damaged.map", &damaged);
    assert!(code == 3 && shown.contains("a damaged chunk"), "{shown}");
    let info = hmtt(&["pagemap", "info", text(&map_file("pagemap-damaged-2.map", &damaged))]);
    assert_eq!(exit_code(&info), 3);
}

#[test]
fn virtual_addresses_are_not_resolved() {
    let map = map_file("pagemap-virtual.map", &small_map(1 << 36));
    let trace = map_file("pagemap-virtual.acc", &hmtt_files::access_trace::header(0));
    // Tables of a program's accesses. What they have is known only from their lines.
    let csv = map_file(
        "pagemap-virtual.csv",
        b"thread,pc,direction,address,size_bytes,elements,downwards,conditional,represents,function,object\n\
          7,1000,R,5000,8,1,false,false,1,,\n",
    );
    let jsonl = map_file(
        "pagemap-virtual.jsonl",
        b"{\"thread\":7,\"pc\":\"4000\",\"direction\":\"R\",\"address\":\"1f00\",\"size_bytes\":8,\"elements\":1,\
          \"downwards\":false,\"conditional\":false,\"represents\":1}\n",
    );
    for file in [trace, csv, jsonl] {
        let output = hmtt(&["hot", "--pagemap", text(&map), text(&file)]);
        assert_eq!(exit_code(&output), 1, "{output:?}");
        assert!(errors(&output).contains("whose addresses are virtual"), "{}", errors(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn published_records_are_the_same_from_both_sides() {
    if !hmtt_test_support::programs::has("python3") {
        return skipped("python3");
    }
    let map = map_file("pagemap-records.map", &small_map(1 << 36));
    let records = scratch("pagemap-records.kt");
    assert_eq!(exit_code(&hmtt(&["pagemap", "convert", text(&map), text(&records)])), 0);
    let read = python(&["records", text(&records)]);
    let lines: Vec<&str> = read.lines().collect();
    let count = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).count();
    assert_eq!((count("set"), count("free"), count("mark")), (5 * 256, 256, 4));
    assert!(lines.contains(&"set 101 4ff 1ff") && lines.contains(&"free 103 701 301"), "{read}");

    let (written, back) = (scratch("pagemap-written.kt"), scratch("pagemap-written.map"));
    let records = ["set:9:7f0012345:1abcd", "set:9:7f0012346:1abce", "free:9:7f0012346:1abce"];
    python(&[&["write", text(&written)][..], &records].concat());
    let output = hmtt(&["pagemap", "convert", text(&written), text(&back)]);
    assert_eq!(exit_code(&output), 0, "{}", errors(&output));
    let accesses = table("pagemap-written.csv", [0x1abcd040, 0x1abce000]);
    let document = json(&["hot", "--json", "--pagemap", text(&back), text(&accesses)]);
    let lines = document["hot"]["hot_lines"].as_array().unwrap();
    assert_eq!(
        (&lines[0]["virtual_address"], &lines[0]["pid"]),
        (&"0x7f0012345040".into(), &9.into())
    );
    assert_eq!(lines[1]["owner"], "ambiguous");

    // The first record says something of a page, and 99 do not.
    let strange = [vec![0xec; 13], vec![0x55; 99 * 13]].concat();
    for (bytes, error) in [(&[0x55; 100][..], "has no records"), (&strange, "1 record of 100")] {
        let garbage = map_file("pagemap-garbage.kt", bytes);
        let map = scratch("pagemap-garbage.map");
        let output = hmtt(&["pagemap", "convert", text(&garbage), text(&map)]);
        assert_eq!(exit_code(&output), 1);
        assert!(errors(&output).contains(error) && !map.exists(), "{}", errors(&output));
    }
}

#[test]
fn chunks_of_later_versions_are_skipped() {
    let mut bytes = small_map(1 << 36);
    let end = Chunk::End(Ending::Time).encode();
    bytes.truncate(bytes.len() - end.len());
    bytes.extend(Chunk::Unknown(99).encode());
    bytes.extend(end);
    let map = map_file("pagemap-later.map", &bytes);
    let output = hmtt(&["pagemap", "info", text(&map)]);
    assert_eq!(exit_code(&output), 0, "{}", errors(&output));
}

#[test]
fn times_of_an_order_are_not_stated() {
    let map = map_file("pagemap-order.map", &small_map(1 << 36));
    let info = json(&["pagemap", "info", "--json", text(&map)]);
    let accesses = table("pagemap-order.csv", [0]);
    let stats = json(&["stats", "--json", "--pagemap", text(&map), text(&accesses)]);
    for object in [&info, &info["processes"][0], &stats["page_map"]] {
        assert!(object["longest_stale_ns"].is_null(), "{object}");
        assert!(object["longest_scan_ns"].is_null(), "{object}");
    }
    assert!(info["longest_snapshot_ns"].is_null() && info["snapshot_count"] == 2, "{info}");
}

#[test]
fn conversions_are_whole_or_leave_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (map, garbage, records) = (at("whole.map"), at("garbage"), at("records"));
    std::fs::write(&map, small_map(1 << 36)).unwrap();
    std::fs::write(&garbage, [0x55; 100]).unwrap();
    let convert = |from: &Path, to: &Path| {
        exit_code(&hmtt(&["pagemap", "convert", "-f", text(from), text(to)]))
    };
    let is_private = |file: &Path| file.metadata().unwrap().permissions().mode() & 0o777 == 0o600;
    for (from, name) in [(&map, "pages.csv"), (&map, "records"), (&records, "back.map")] {
        let to = at(name);
        std::fs::write(&to, "old").unwrap();
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(convert(&garbage, &to), 1, "{name}");
        assert_eq!(std::fs::read(&to).unwrap(), b"old", "{name}");
        assert_eq!(exit_code(&hmtt(&["pagemap", "convert", text(from), text(&to)])), 1);
        assert_eq!(convert(from, &to), 0, "{name}");
        assert!(is_private(&to) && std::fs::read(&to).unwrap() != b"old", "{name}");
    }
    // Links are not followed, and streams are written as they are.
    let link = at("link.csv");
    std::os::unix::fs::symlink(&garbage, &link).unwrap();
    assert_eq!(convert(&map, &link), 1);
    assert_eq!(std::fs::read(&garbage).unwrap(), [0x55; 100]);
    let output = hmtt(&["pagemap", "convert", text(&map), "/dev/stdout"]);
    assert_eq!(output.stdout, std::fs::read(&records).unwrap());
    assert!(Path::new("/dev/stdout").exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 6, "nothing is left beside");
}
