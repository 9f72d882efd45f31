//! Tests which privileges `hmtt-recv` keeps, and what other processes of its user can access.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use crate::live::{Play, SEND_ALL, frames_of, perform, perform_as_root, session};
use crate::series::{all_frames, files, folder};

/// The user that Linux calls nobody.
const NOBODY: u32 = 65534;

/// Shell command that prints the capabilities of each thread, one line per thread.
const PRINT_RIGHTS: &str = r#"
for status in /proc/$receiver/task/*/status; do
    awk '{ $1 = $1 } /^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs):/ {
        printf "%s ", $0 } END { print "thread" }' "$status" >&2
done
"#;

/// Returns the capabilities of all threads, which must be equal.
fn rights(log: &str) -> &str {
    let mut lines = log.lines().filter(|line| line.ends_with("thread"));
    let first = lines.next().expect("a thread");
    assert!(lines.all(|line| line == first), "{log}");
    first
}

const NO_CAPABILITY: &str = "CapInh: 0000000000000000 CapPrm: 0000000000000000 \
    CapEff: 0000000000000000 CapBnd: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1";

#[test]
fn root_has_no_capabilities_while_it_listens() {
    let folder = folder("kept-rights");
    for rotation in [&[][..], &["-b", "packets:10"]] {
        let base = folder.join("a.pcapng");
        let play = format!("{PRINT_RIGHTS} {SEND_ALL}");
        let play = Play { play: &play, ..Play::default() };
        let own = ["veth1", "--json", "--until-end", "--metrics", "127.0.0.1:9465"];
        let arguments = [&own[..], &["-w", base.to_str().unwrap()], rotation].concat();
        let play = Play { prepare: "ip link set lo up", ..play };
        let Some(received) = perform("kept-rights", &session(30), play, &arguments) else { return };
        assert_eq!(received.status, 0, "{}", received.log);
        assert!(rights(&received.log).contains(NO_CAPABILITY), "{}", received.log);
    }
}

#[test]
fn root_keeps_only_the_capability_to_create_files_if_needed() {
    let folder = folder("rights-override");
    if chown(&folder, Some(NOBODY), None).is_err() {
        return crate::skipped("only root of the machine can give a directory away");
    }
    let base = folder.join("a.pcapng");
    let play = format!("{PRINT_RIGHTS} {SEND_ALL}");
    let play = Play { play: &play, ..Play::default() };
    let own = ["veth1", "--json", "--until-end", "-w", base.to_str().unwrap()];
    let arguments = [&own[..], &["-b", "packets:10"]].concat();
    let frames = session(30);
    let Some(received) = perform_as_root("rights-override", &frames, play, &arguments) else {
        return;
    };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(all_frames(&files(&folder)) == frames);
    let kept = "CapInh: 0000000000000000 CapPrm: 0000000000000002 CapEff: 0000000000000002 \
        CapBnd: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1";
    assert!(rights(&received.log).contains(kept), "{}", received.log);
}

#[test]
fn the_user_is_changed_after_the_sockets_are_open() {
    let folder = folder("user");
    if chown(&folder, Some(NOBODY), None).is_err() {
        return crate::skipped("only root of the machine can give a directory away");
    }
    for (user, rotation) in [("nobody", &[][..]), ("65534", &["-b", "packets:10"])] {
        let base = folder.join(format!("{user}.pcapng"));
        let play = format!("{PRINT_RIGHTS} {SEND_ALL}");
        let play = Play { play: &play, ..Play::default() };
        let own = ["veth1", "--json", "--until-end", "-Z", user, "-w", base.to_str().unwrap()];
        let frames = session(30);
        let arguments = [&own[..], rotation].concat();
        let Some(received) = perform_as_root("user", &frames, play, &arguments) else { return };
        assert_eq!(received.status, 0, "{}", received.log);
        let rights = rights(&received.log);
        assert!(rights.contains("Uid: 65534 65534 65534 65534"), "{rights}");
        assert!(rights.contains("Gid: 65534 65534 65534 65534"), "{rights}");
        assert!(rights.contains("Groups: 65534 "), "{rights}");
        assert!(rights.contains(NO_CAPABILITY), "{rights}");
    }
    let outputs = files(&folder);
    assert!(outputs.len() > 2, "{outputs:?}");
    for file in &outputs {
        let status = fs::metadata(file).unwrap();
        assert_eq!((status.uid(), status.mode() & 0o7777), (NOBODY, 0o600), "{}", file.display());
    }
    assert!(frames_of(&folder.join("nobody.pcapng")) == session(30));
}

#[test]
fn a_user_without_rights_to_create_files_is_rejected_at_the_start() {
    let folder = folder("user-refused");
    let base = folder.join("a.pcapng");
    for rotation in [&[][..], &["-b", "packets:10"]] {
        let own = ["veth1", "-Z", "nobody", "-w", base.to_str().unwrap()];
        let arguments = [&own[..], rotation].concat();
        let refused = perform_as_root("user-refused", &session(1), Play::default(), &arguments);
        let Some(refused) = refused else { return };
        let advice = "user nobody (-Z) may not create files there: make the directory writable";
        assert!(refused.log.contains(advice), "{}", refused.log);
    }
    assert!(files(&folder).is_empty());
}

#[test]
fn an_unknown_user_is_rejected() {
    for (user, why) in [
        ("no-such-user", "there is no user no-such-user"),
        ("4294967295", "there is no user 4294967295"),
        ("-1", "there is no user -1"),
    ] {
        let user = format!("-Z{user}");
        let Some(refused) = perform("no-user", &session(1), Play::default(), &["veth1", &user])
        else {
            return;
        };
        assert!(refused.log.contains(why), "{}", refused.log);
    }
}

#[test]
fn a_failed_change_of_user_is_an_error() {
    // A user namespace has only root.
    let arguments = ["veth1", "-Z", "65534"];
    let Some(refused) = perform("no-right", &session(1), Play::default(), &arguments) else {
        return;
    };
    assert!(refused.log.contains("cannot become user 65534: cannot set"), "{}", refused.log);
}

/// Environment variable with the process to steal from, in the stealing process of a test.
const VICTIM: &str = "VICTIM";

/// Tries to copy the descriptors of another process of the same user.
#[test]
#[ignore = "the stealing half of another test"]
fn stealing_process() {
    let Ok(pid) = std::env::var(VICTIM) else { return };
    let pid: i64 = pid.parse().unwrap();
    // SAFETY: the calls take and return numbers only.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    assert!(process >= 0, "the receiver is there");
    // SAFETY: as above.
    let steal = |number: i64| unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, number, 0) };
    let stolen = (0..64).filter(|number| steal(*number) >= 0).count();
    eprintln!("descriptors stolen: {stolen}");
}

#[test]
fn another_process_of_the_user_gets_no_socket_and_no_core_is_left() {
    // The thief has at most the receiver's former capabilities, because a process may be traced
    // only by one with as many.
    let play = r#"
        VICTIM=$receiver setpriv --bounding-set -all,+dac_override \
            "$SEND" --ignored --exact --nocapture recv_privileges::stealing_process >&2
        ulimit -c >&2
        kill -ABRT $receiver"#;
    let prepare = "ulimit -c unlimited 2>/dev/null || true; command -v setpriv >/dev/null";
    let play = Play { prepare, play, after: "true" };
    let Some(received) = perform("stolen", &session(1), play, &["veth1"]) else { return };
    assert!(received.log.contains("descriptors stolen: 0\n"), "{}", received.log);
    assert_eq!(received.status, 128 + libc::SIGABRT, "{}", received.log);
    assert!(!received.log.contains("core dumped"), "{}", received.log);
}

#[test]
fn inherited_descriptors_are_closed() {
    let play = r#"ls -l /proc/$receiver/fd >&2; kill -INT $receiver"#;
    let play = Play { prepare: "exec 7</etc/passwd 9</etc/hostname", play, after: "" };
    let Some(received) = perform("inherited-closed", &session(1), play, &["veth1"]) else { return };
    assert!(received.log.contains("socket:"), "{}", received.log);
    assert!(!received.log.contains("/etc/"), "{}", received.log);
}

#[test]
fn an_interface_with_an_unusual_name_hides_no_other() {
    let prepare = r#"ip link add $'odd\xff' type veth peer name other"#;
    let play = Play { prepare, play: SEND_ALL, after: "" };
    let arguments = ["veth1", "--json", "--until-end"];
    let Some(received) = perform("odd-name", &session(10), play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert_eq!(received.summary["frames"], 12);
}
