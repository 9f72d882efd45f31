//! Tests the files of a capture in a directory that other users may write to: no link of theirs is
//! followed, none of their files is truncated or removed, and changes to the capture's files are
//! reported. Runs on real interfaces, as in `live`.

use std::ffi::{CStr, CString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, RenameFlags, renameat_with, symlinkat, unlinkat};
use time::OffsetDateTime;

use crate::failing::AWAIT;
use crate::live::{Play, Received, SEND_ALL, frames_of, perform, perform_as_root, session};
use crate::series::{all_frames, files, folder};
use crate::{scratch, skipped};

const PRECIOUS: &str = "what root would not overwrite";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the name of the file with this number if it is started at `second`.
fn file_name(number: u64, second: u64) -> String {
    let t = OffsetDateTime::from_unix_timestamp(second as i64).unwrap();
    let (hours, minutes, seconds) = t.to_hms();
    let date = format!("{:04}{:02}{:02}", t.year(), u8::from(t.month()), t.day());
    format!("x_{number:05}_{date}{hours:02}{minutes:02}{seconds:02}.pcapng")
}

/// Replaces each new file of a series by a link to `victim` as soon as it appears, and removes the
/// file. Returns the number of replaced files. The loop does nothing else, so that the replacement
/// happens between the creation of a file and other operations on its path.
fn swap_files(folder: &Path, victim: &Path, ended: &AtomicBool) -> u64 {
    const LINK: &CStr = c"link";
    let directory = fs::File::open(folder).unwrap();
    let link = || symlinkat(victim, &directory, LINK).unwrap();
    link();
    let mut number = 1;
    while !ended.load(Ordering::Relaxed) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let names = [now, now - 1].map(|second| CString::new(file_name(number, second)).unwrap());
        for name in names.iter().cycle().take(200) {
            if renameat_with(&directory, LINK, &directory, &**name, RenameFlags::EXCHANGE).is_ok() {
                number += 1;
                unlinkat(&directory, LINK, AtFlags::empty()).unwrap();
                link();
                break;
            }
        }
    }
    number - 1
}

#[test]
fn files_replaced_by_links_are_reported_and_the_links_not_followed() {
    let (folder, victim) = (folder("exchanged"), scratch("exchanged-victim"));
    fs::write(&victim, PRECIOUS).unwrap();
    let before = fs::metadata(&victim).unwrap();
    let ended = AtomicBool::new(false);
    let base = folder.join("x.pcapng");
    let arguments = ["veth1", "--json", "--until-end", "-w", text(&base), "-b", "packets:5"];
    let play = Play { play: SEND_ALL, ..Play::default() };
    let (received, swapped) = thread::scope(|scope| {
        let attacker = scope.spawn(|| swap_files(&folder, &victim, &ended));
        let received = perform("exchanged", &session(1500), play, &arguments);
        ended.store(true, Ordering::Relaxed);
        (received, attacker.join().unwrap())
    });
    let Some(received) = received else { return };
    assert!(fs::read(&victim).unwrap() == PRECIOUS.as_bytes(), "the victim was written to");
    let after = fs::metadata(&victim).unwrap();
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    assert!(swapped > 100, "only {swapped} files were exchanged");
    let lost = received.summary["lost_file_count"].as_u64().unwrap();
    assert!(lost > 0 && lost <= swapped, "{lost} of {swapped}");
    assert_eq!(received.status, 3, "{}", received.log);
    assert!(
        received.log.contains(&format!("files LOST under us       {lost}\n")),
        "{}",
        received.log
    );
    assert_eq!(received.summary["lost_files"][0]["fate"], "replaced");
}

#[test]
fn a_link_in_place_of_the_file_is_rejected() {
    let folder = folder("refused-links");
    let victim = folder.join("victim");
    fs::write(&victim, PRECIOUS).unwrap();
    let link = folder.join("link.pcapng");
    symlink(&victim, &link).unwrap();
    let dangling = folder.join("dangling.pcapng");
    symlink(folder.join("created"), &dangling).unwrap();
    for (link, extra) in [(&link, &["-f"][..]), (&link, &[]), (&dangling, &["-f"])] {
        let arguments = [&["veth1", "-w", text(link)], extra].concat();
        let Some(refused) = perform("refused-links", &session(1), Play::default(), &arguments)
        else {
            return;
        };
        assert!(
            refused.log.contains("is a symbolic link, which is not followed"),
            "{}",
            refused.log
        );
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), PRECIOUS);
    assert!(!folder.join("created").exists());
}

#[test]
fn a_file_with_another_name_is_replaced_and_not_truncated() {
    let folder = folder("hard-link");
    let (victim, file) = (folder.join("victim"), folder.join("file.pcapng"));
    fs::write(&victim, PRECIOUS).unwrap();
    fs::hard_link(&victim, &file).unwrap();
    let frames = session(20);
    let play = Play { play: SEND_ALL, ..Play::default() };
    let arguments = ["veth1", "--until-end", "-f", "-w", text(&file)];
    let Some(received) = perform("hard-link", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert_eq!(fs::read_to_string(&victim).unwrap(), PRECIOUS);
    assert!(frames_of(&file) == frames);
}

#[test]
fn a_path_that_ends_in_a_slash_is_rejected() {
    let folder = folder("slash");
    for end in ["new/", "new/.", ".."] {
        let path = format!("{}/{end}", text(&folder));
        let arguments = ["veth1", "-w", &path];
        let Some(refused) = perform("slash", &session(1), Play::default(), &arguments) else {
            return;
        };
        assert!(refused.log.contains("is a directory; name a file in it"), "{}", refused.log);
    }
    assert!(files(&folder).is_empty());
}

/// Runs `meanwhile` on a file `$FILE` that is being written.
fn disturbed(name: &str, meanwhile: &str) -> Option<Received> {
    let file = folder(name).join("live.pcapng");
    let play = format!(r#"send "$FIRST"; sleep 0.2; {meanwhile}; send "$LAST""#);
    let play = play.replace("$FILE", text(&file));
    let play = Play { play: &play, ..Play::default() };
    let arguments = ["veth1", "--json", "--until-end", "-w", text(&file)];
    perform(name, &session(100), play, &arguments)
}

#[test]
fn removed_replaced_and_renamed_files_are_reported() {
    for (fate, meanwhile) in [
        ("removed", "rm '$FILE'"),
        ("renamed", "mv '$FILE' '$FILE.away'"),
        ("replaced", "cp '$FILE' '$FILE.copy'; mv '$FILE.copy' '$FILE'"),
    ] {
        let Some(received) = disturbed(&format!("under-us-{fate}"), meanwhile) else { return };
        assert_eq!(received.status, 3, "{}", received.log);
        assert_eq!(received.summary["lost_file_count"], 1, "{fate}");
        assert_eq!(received.summary["lost_files"][0]["fate"], fate);
        assert!(
            received.log.contains(&format!("was {fate} while it was written")),
            "{}",
            received.log
        );
    }
}

/// Shell commands for a second receiver during the first, with its own log and exit status.
fn second(arguments: &str, log: &Path) -> String {
    format!(
        r#""$RECV" veth1 -a duration:60 {arguments} 2>'{log}' & second=$!
        until grep -q '^capturing on' '{log}'; do kill -0 $second || break; sleep 0.02; done
        send "$ALL"; code=0; wait $second || code=$?; echo "second: $code" >&2; cat '{log}' >&2"#,
        log = log.display()
    )
}

#[test]
fn a_ring_of_files_keeps_files_that_another_capture_writes() {
    let (folder, log) = (folder("two-rings"), scratch("two-rings-second.log"));
    let base = folder.join("trace.pcapng");
    let own = format!("--until-end -w '{}' -b packets:100 -b files:2", text(&base));
    let play = second(&own, &log);
    let play = Play { play: &play, ..Play::default() };
    let frames = session(1000);
    let arguments = ["veth1", "--json", "--until-end", "-w", text(&base), "-b", "packets:100000"];
    let Some(received) = perform("two-rings", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(received.log.contains("second: 0\n"), "{}", received.log);
    let files = files(&folder);
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(frames_of(&files[0]) == frames, "the first capture's file");
    assert!(all_frames(&files[1..]) == frames[900..], "the second's last two");
}

#[test]
fn a_file_that_another_capture_writes_is_not_replaced() {
    let (folder, log) = (folder("two-files"), scratch("two-files-second.log"));
    let file = folder.join("live.pcapng");
    let play = second(&format!("-f -w '{}'", text(&file)), &log);
    let play = Play { play: &play, ..Play::default() };
    let frames = session(50);
    let arguments = ["veth1", "--json", "--until-end", "-w", text(&file)];
    let Some(received) = perform("two-files", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(received.log.contains("second: 1\n"), "{}", received.log);
    assert!(received.log.contains("is being written by another capture"), "{}", received.log);
    assert!(frames_of(&file) == frames);
}

#[test]
fn only_the_owner_can_read_a_capture_by_default() {
    let folder = folder("permissions");
    for (umask, extra, expected) in [
        ("022", &[][..], 0o600),
        ("022", &["--mode", "664"], 0o644),
        ("077", &["--mode", "0666"], 0o600),
    ] {
        for rotation in [&[][..], &["-b", "packets:30"]] {
            let base = folder.join("a.pcapng");
            let prepare = format!("rm -f '{}'/*; umask {umask}", text(&folder));
            let play = Play { prepare: &prepare, play: SEND_ALL, ..Play::default() };
            let own = ["veth1", "--until-end", "-w", text(&base)];
            let arguments = [&own[..], extra, rotation].concat();
            let Some(received) = perform("permissions", &session(60), play, &arguments) else {
                return;
            };
            assert_eq!(received.status, 0, "{}", received.log);
            for file in files(&folder) {
                let mode = fs::metadata(&file).unwrap().mode() & 0o7777;
                assert_eq!(mode, expected, "{mode:o}, {arguments:?}");
            }
        }
    }
}

#[test]
fn a_capture_can_be_written_to_an_inherited_descriptor() {
    let file = scratch("inherited.pcapng");
    let prepare = format!("exec 8>'{}'", text(&file));
    let play = Play { prepare: &prepare, play: SEND_ALL, ..Play::default() };
    let frames = session(30);
    let arguments = ["veth1", "--json", "--until-end", "-w", "/dev/fd/8"];
    let Some(received) = perform("inherited", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&file) == frames);
    let arguments = ["veth1", "-w", "/dev/fd/9"];
    let refused = perform("inherited-not", &frames, Play::default(), &arguments).unwrap();
    assert!(refused.log.contains("/dev/fd/9 is not open"), "{}", refused.log);
}

#[test]
fn one_signal_ends_the_wait_for_a_reader_of_a_pipe() {
    let fifo = scratch("unread.fifo");
    // The receiver never reports that it listens, because it is interrupted while it starts.
    let prepare = format!(
        r#"{AWAIT}
        mkfifo '{fifo}'
        "$RECV" veth1 -w '{fifo}' 2>"$LOG.unread" & unread=$!
        sleep 1; kill -INT $unread
        for _ in $(seq 500); do kill -0 $unread 2>/dev/null || break; sleep 0.02; done
        kill -0 $unread 2>/dev/null && {{ echo hangs >&2; kill -KILL $unread; }}
        status=0; wait $unread || status=$?; echo "unread: $status" >&2; cat "$LOG.unread" >&2"#,
        fifo = text(&fifo)
    );
    let play = Play { prepare: &prepare, play: "kill -INT $receiver", ..Play::default() };
    let Some(received) = perform("unread", &session(1), play, &["veth1"]) else { return };
    assert!(!received.log.contains("hangs"), "{}", received.log);
    assert!(received.log.contains("unread: 1\n"), "{}", received.log);
    assert!(received.log.contains("nobody opened the named pipe for reading"), "{}", received.log);
}

#[test]
fn a_pipe_of_another_user_in_a_shared_directory_is_rejected() {
    let folder = folder("planted");
    let fifo = folder.join("a.pcapng");
    let creation = Command::new("mkfifo").arg(&fifo).status();
    if !creation.is_ok_and(|status| status.success()) || chown(&fifo, Some(65534), None).is_err() {
        return skipped("only root of the machine can give a named pipe away");
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o1777)).unwrap();
    let arguments = ["veth1", "-w", text(&fifo)];
    let Some(refused) = perform("planted", &session(1), Play::default(), &arguments) else {
        return;
    };
    let printed = "is a named pipe that another user put into a directory";
    assert!(refused.log.contains(printed), "{}", refused.log);
}

#[test]
fn a_metrics_port_in_use_is_an_error_before_a_file_is_replaced() {
    let folder = folder("not-shown");
    let file = folder.join("old.pcapng");
    fs::write(&file, PRECIOUS).unwrap();
    // The port is bound in the namespace, which has its own ports.
    let listener = "python3 -c 'import socket,time; s = socket.socket(); s.bind((\"127.0.0.1\", 9199)); s.listen(); \
                 time.sleep(20)' >/dev/null 2>&1 & ip link set lo up; \
                 until (exec 3<>/dev/tcp/127.0.0.1/9199) 2>/dev/null; do sleep 0.02; done";
    let asked: [(&[&str], &str, &str); 2] = [
        (&["--tui"], "", "cannot use the terminal"),
        (&["--metrics", "127.0.0.1:9199"], listener, "127.0.0.1:9199"),
    ];
    for (option, prepare, printed) in asked {
        let arguments = [&["veth1", "-f", "-w", text(&file)], option].concat();
        let play = Play { prepare, ..Play::default() };
        let Some(refused) = perform("not-shown", &session(1), play, &arguments) else { return };
        assert!(refused.log.contains(printed), "{}", refused.log);
        assert_eq!(fs::read_to_string(&file).unwrap(), PRECIOUS, "{option:?}");
    }
}

#[test]
fn another_users_file_that_cannot_be_removed_does_not_end_the_capture() {
    let folder = folder("stranger");
    let base = folder.join("x.pcapng");
    let old = folder.join(file_name(1, 0));
    fs::write(&old, PRECIOUS).unwrap();
    let is_root = chown(&folder, Some(1234), None).and_then(|()| chown(&old, Some(1234), None));
    if is_root.is_err() {
        return skipped("only root of the machine can give files away");
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o1777)).unwrap();
    let frames = session(1000);
    let play = Play { play: SEND_ALL, ..Play::default() };
    let ring = ["-b", "packets:100", "-b", "files:2", "-Z", "nobody"];
    let arguments = [&["veth1", "--json", "--until-end", "-w", text(&base)], &ring[..]].concat();
    let Some(received) = perform_as_root("stranger", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert_eq!(received.log.matches("it is left").count(), 1, "{}", received.log);
    assert_eq!(fs::read_to_string(&old).unwrap(), PRECIOUS);
    let files = files(&folder);
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(all_frames(&files[1..]) == frames[900..]);
}
