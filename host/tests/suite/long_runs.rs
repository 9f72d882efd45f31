//! Tests long captures: limits, several links, compression, requests for a summary, readers that
//! close. Runs on real interfaces in a network namespace, as in `live`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::live::{Play, SEND_ALL, frames_of, perform, receive, session};
use crate::{scratch, skipped};

#[test]
fn a_capture_stops_at_its_size() {
    let frames = session(1000);
    let arguments = ["-a", "filesize:300"];
    let Some(received) = receive("size-limit", &frames, SEND_ALL, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    let kept = frames_of(&received.file);
    assert!(kept[..] == frames[..kept.len()]);
    let packets: usize = kept.iter().map(Vec::len).sum();
    assert!((290_000..302_000).contains(&packets), "{packets} bytes");
}

#[test]
fn a_capture_stops_although_the_card_continues() {
    // The loop ends by itself, long after the receiver must have ended. A receiver that waits for
    // its ring to fill would end later.
    let play = r#"for turn in $(seq 1000); do send "$LAST"; done & sender=$!
        sleep 1; kill -INT $receiver; wait $receiver
        kill $sender && echo "still sending" >&2; wait $sender || true"#;
    let arguments = ["--ring-mb", "512"];
    let Some(received) = receive("stops", &session(40), play, &arguments) else { return };
    assert!(received.log.contains("still sending"), "{}", received.log);
    let kept = frames_of(&received.file).len() as u64;
    assert!(kept > 0 && received.summary["captured_frames"] == kept, "{kept} frames");
    assert_eq!(received.summary["kernel_dropped_frames"], 0);
}

#[test]
fn compressed_files_can_be_read_with_the_standard_tool() {
    let frames = session(3000);
    let Some(received) = receive("compressed", &frames, SEND_ALL, &["--until-end", "--zstd", "-f"])
    else {
        return;
    };
    assert_eq!(received.status, 0, "{}", received.log);
    let packed = received.file.with_extension("pcapng.zst");
    let plain = scratch("unpacked.pcapng");
    let zstd = Command::new("zstd").arg("-dqo").arg(&plain).arg(&packed).status();
    let Ok(status) = zstd else { return skipped("zstd is not installed") };
    assert!(status.success());
    assert!(frames_of(&plain) == frames);
    assert!(packed.metadata().unwrap().len() < plain.metadata().unwrap().len());
}

#[test]
fn several_links_are_separate_interfaces_of_one_file() {
    let frames = session(500);
    let file = scratch("links.pcapng");
    let play = r#"send "$ALL" & send "$ALL" veth2; wait $!"#;
    let play = Play { play, ..Play::default() };
    let arguments = ["veth1", "veth3", "--json", "--until-end", "-w", file.to_str().unwrap()];
    let Some(received) = perform("links", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert_eq!(received.summary["captured_frames"], 2 * frames.len() as u64);
    let links = received.summary["interfaces"].as_array().unwrap();
    for (link, name) in links.iter().zip(["veth1", "veth3"]) {
        assert_eq!(link["interface"], name);
        assert_eq!(link["accesses"], 500 * 370);
    }
    let mut apart = [Vec::new(), Vec::new()];
    for (interface, frame) in interfaces_and_frames(&file) {
        apart[interface].push(frame);
    }
    assert!(apart[0] == frames && apart[1] == frames);
    assert_eq!(links[0]["same_frames_as"], Value::Null);
    assert_eq!(links[1]["same_frames_as"], "veth1");
    let printed = "veth3 carries the same frames as veth1: a mirror port?";
    assert_eq!(received.log.matches(printed).count(), 1, "{}", received.log);
}

fn interfaces_and_frames(file: &Path) -> Vec<(usize, Vec<u8>)> {
    let bytes = std::fs::read(file).unwrap();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(&bytes[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let pcap_file::pcapng::Block::EnhancedPacket(packet) = block.unwrap() {
            frames.push((packet.interface_id as usize, packet.data.into_owned()));
        }
    }
    frames
}

#[test]
fn a_running_capture_prints_a_summary_and_continues() {
    let frames = session(200);
    let play = r#"send "$FIRST"; sleep 0.5; kill -USR1 $receiver; sleep 0.5; send "$LAST""#;
    let Some(received) = receive("answers", &frames, play, &["--until-end"]) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    let summaries: Vec<&str> =
        received.log.lines().filter(|line| line.contains("frames captured in")).collect();
    assert_eq!(summaries.len(), 2, "{}", received.log);
    assert!(summaries[0].starts_with(&format!("{} ", frames.len() - 20)), "{summaries:?}");
    assert!(summaries[1].starts_with(&format!("{} ", frames.len())), "{summaries:?}");
}

#[test]
fn a_running_capture_has_one_socket_and_no_capabilities() {
    let seen = scratch("rights.txt");
    let play = format!(
        r#"{{ grep -h CapEff /proc/$receiver/task/*/status; grep -h CapPrm /proc/$receiver/task/*/status
        readlink /proc/$receiver/fd/* | grep socket: ; }} >'{}'; kill -INT $receiver"#,
        seen.display()
    );
    let Some(received) = receive("rights", &session(1), &play, &[]) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    let seen = std::fs::read_to_string(seen).unwrap();
    let (sockets, rights): (Vec<&str>, Vec<&str>) =
        seen.lines().partition(|line| line.starts_with("socket:"));
    assert_eq!(sockets.len(), 1, "{seen}");
    assert!(rights.len() >= 6, "three threads: {seen}");
    assert!(rights.iter().all(|line| line.ends_with("\t0000000000000000")), "{seen}");
}

#[test]
fn a_capture_can_be_written_to_standard_output() {
    let frames = session(300);
    let file = scratch("stdout.pcapng");
    let prepare = format!("exec 3>&1 >'{}'", file.display());
    let play = Play { prepare: &prepare, play: SEND_ALL, after: "exec >&3" };
    let arguments = ["veth1", "--until-end", "-w", "-"];
    let Some(received) = perform("stdout", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(received.summary == Value::Null && frames_of(&file) == frames);
}

#[test]
fn a_closed_pipe_ends_the_capture_and_every_frame_is_counted() {
    let frames = session(3000);
    let prepare = "exec > >(head -c 100000 >/dev/null)";
    let play = Play { prepare, play: SEND_ALL, after: "" };
    let arguments = ["veth1", "--until-end", "-w", "-"];
    let Some(received) = perform("reader-gone", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 1, "{}", received.log);
    assert!(received.log.contains("cannot write standard output"), "{}", received.log);
    let unwritten = received.log.lines().find(|line| line.starts_with("captured, NOT written"));
    let count: u64 = unwritten.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count > 1000 && count <= 3002, "{}", received.log);
}

#[test]
fn the_end_of_one_card_does_not_end_another_on_the_same_wire() {
    // The second card's frames arrive long after the first one's end frames.
    let (first, second) = (session(200), session(300));
    let both = [&first[..], &second[..]].concat();
    let file = scratch("two-ends.pcapng");
    let play = Play { play: SEND_ALL, ..Play::default() };
    let arguments = ["veth1", "--json", "--until-end", "-w", file.to_str().unwrap()];
    let Some(received) = perform("two-ends", &both, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&file) == both, "{}", received.log);
    assert_eq!(received.summary["ends"], 2);
}
