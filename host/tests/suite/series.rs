//! Tests series of files, limits on their number and full disks: every frame is in exactly one
//! file, or counted. Runs on real interfaces in a network namespace, as in `live`.

use std::path::{Path, PathBuf};

use hmtt::decode::earlier_report;

use crate::live::{Play, Received, SEND_ALL, frames_of, perform, session};
use crate::{info, scratch};

/// Returns an empty directory for the test `name`.
pub fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).unwrap();
    }
    std::fs::create_dir(&path).unwrap();
    path
}

/// Returns the files of a directory, sorted by name.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

pub fn all_frames(files: &[PathBuf]) -> Vec<Vec<u8>> {
    files.iter().flat_map(|file| frames_of(file)).collect()
}

/// Receives to a series of files in its own directory.
fn rotate(name: &str, frames: &[Vec<u8>], extra: &[&str]) -> Option<(Received, PathBuf)> {
    let folder = folder(name);
    let base = folder.join("trace.pcapng");
    let received = rotate_on(name, &base, frames, extra)?;
    Some((received, folder))
}

fn rotate_on(name: &str, base: &Path, frames: &[Vec<u8>], extra: &[&str]) -> Option<Received> {
    let own = ["veth1", "--json", "--until-end", "-w", base.to_str().unwrap()];
    let play = Play { play: SEND_ALL, ..Play::default() };
    perform(name, frames, play, &[&own[..], extra].concat())
}

#[test]
fn the_files_of_a_series_have_every_frame_and_their_own_headers() {
    let frames = session(4000);
    let Some((received, folder)) = rotate("turns", &frames, &["-b", "filesize:1M"]) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    let files = files(&folder);
    assert_eq!(files.len(), 7, "{files:?}");
    assert_eq!(received.summary["files"], 7);
    assert!(all_frames(&files) == frames);
    let lengths: Vec<u64> = files.iter().map(|file| file.metadata().unwrap().len()).collect();
    assert_eq!(received.summary["written_bytes"], lengths.iter().sum::<u64>());
    // The last frame and the statistics are added to the limit.
    assert!(
        lengths
            .iter()
            .all(|length| (1_000_000..1_010_000).contains(length)
                || length == lengths.last().unwrap()),
        "{lengths:?}"
    );
    let report =
        earlier_report::from_comment(&earlier_report::comment_from_frame(&frames[0])).unwrap();
    let report = earlier_report::comment_from_report(&report);
    for (index, file) in files.iter().enumerate() {
        let bytes = std::fs::read(file).unwrap();
        let holds = bytes.windows(report.len()).any(|window| window == report.as_bytes());
        assert_eq!(holds, index != 0, "{}: the report before the file", file.display());
    }
}

#[test]
fn losses_of_a_series_are_counted_once_when_its_files_are_joined() {
    let frames = session(6000);
    let folder = folder("joined");
    // As in `live`, a stopped receiver has 9 MB for a ring of 2 MB.
    let play =
        r#"kill -STOP $receiver; send "$FIRST"; kill -CONT $receiver; sleep 1; send "$LAST""#;
    let base = folder.join("trace.pcapng");
    let own = ["veth1", "--json", "--until-end", "-w", base.to_str().unwrap()];
    let arguments = [&own[..], &["--ring-mb", "2", "-b", "packets:300"]].concat();
    let play = Play { play, ..Play::default() };
    let Some(received) = perform("joined", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 3, "{}", received.log);
    let files = files(&folder);
    assert!(files.len() > 2, "{files:?}");
    let joined = scratch("joined.pcapng");
    let bytes: Vec<u8> = files.iter().flat_map(|file| std::fs::read(file).unwrap()).collect();
    std::fs::write(&joined, bytes).unwrap();
    let described = info(&joined);
    let statistics = &described["interfaces"][0]["statistics"];
    assert!(statistics["kernel_dropped_frames"].as_u64().unwrap() > 1000, "{statistics}");
    for name in ["kernel_dropped_frames", "interface_dropped_frames", "received_frames"] {
        assert_eq!(statistics[name], received.summary[name], "{name}");
    }
    assert_eq!(described["counts"]["missing_frames"], received.summary["kernel_dropped_frames"]);
}

#[test]
fn a_ring_of_files_keeps_the_last_ones() {
    let frames = session(4000);
    let arguments = ["-b", "packets:500", "-b", "files:3"];
    let Some((received, folder)) = rotate("ring", &frames, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    let files = files(&folder);
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(all_frames(&files) == frames[3000..], "{}", received.log);
}

#[test]
fn numbers_continue_after_those_of_an_earlier_capture() {
    let frames = session(100);
    let arguments = ["-b", "packets:40"];
    let Some((_, folder)) = rotate("resumed", &frames, &arguments) else { return };
    let received =
        rotate_on("resumed-2", &folder.join("trace.pcapng"), &frames, &arguments).unwrap();
    assert_eq!(received.status, 0, "{}", received.log);
    let files = files(&folder);
    let numbers: Vec<&str> = files
        .iter()
        .map(|file| file.file_name().unwrap().to_str().unwrap().split('_').nth(1).unwrap())
        .collect();
    assert_eq!(numbers, ["00001", "00002", "00003", "00004", "00005", "00006"]);
    assert!(all_frames(&files) == [&frames[..], &frames[..]].concat());
}

#[test]
fn a_capture_stops_after_its_last_file() {
    let frames = session(1000);
    let arguments = ["-b", "packets:100", "-a", "files:2"];
    let Some((received, folder)) = rotate("files-limit", &frames, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    let files = files(&folder);
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(all_frames(&files)[..] == frames[..200]);
}

/// Shell commands for a file system of a few MB, whose files are copied to $KEPT at the end.
fn small_disk(megabytes: u32, kept: &Path) -> (String, String) {
    let prepare = format!("mount -t tmpfs -o size={megabytes}m tmpfs /mnt");
    (prepare, format!("cp /mnt/* '{}'", kept.display()))
}

#[test]
fn a_full_disk_ends_the_capture_with_a_complete_file() {
    let frames = session(4000);
    let kept = folder("full");
    let (prepare, after) = small_disk(3, &kept);
    let play = Play { prepare: &prepare, play: SEND_ALL, after: &after };
    let arguments = ["veth1", "--json", "--until-end", "-w", "/mnt/full.pcapng"];
    let Some(received) = perform("full-disk", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 1, "{}", received.log);
    assert!(received.log.contains("no space left for /mnt/full.pcapng"), "{}", received.log);
    let written = frames_of(&files(&kept)[0]);
    assert!(written.len() > 1000 && written[..] == frames[..written.len()]);
    let count = |name: &str| received.summary[name].as_u64().unwrap() as usize;
    assert_eq!(count("captured_frames"), written.len() + count("unwritten_frames"));
    assert_eq!(received.summary["written_bytes"], files(&kept)[0].metadata().unwrap().len());
}

#[test]
fn a_ring_of_files_on_a_full_disk_continues() {
    let frames = session(6000);
    let kept = folder("full-ring");
    let (prepare, after) = small_disk(6, &kept);
    let play = Play { prepare: &prepare, play: SEND_ALL, after: &after };
    let arguments = ["veth1", "--json", "--until-end", "-w", "/mnt/ring.pcapng"];
    let ring = ["-b", "filesize:1M", "-b", "files:100"];
    let Some(received) =
        perform("full-ring-disk", &frames, play, &[&arguments[..], &ring[..]].concat())
    else {
        return;
    };
    assert_eq!(received.status, 0, "{}", received.log);
    assert_eq!(received.summary["unwritten_frames"], 0);
    let files = files(&kept);
    let written = all_frames(&files);
    assert!(files.len() > 1 && written.len() > 500, "{} frames in {files:?}", written.len());
    assert!(written[..] == frames[frames.len() - written.len()..]);
}
