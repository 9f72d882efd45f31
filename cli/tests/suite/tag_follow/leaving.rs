//! Tests detaching from process trees that continue to run.

use super::*;

/// A process tree that waits, and its output.
struct ProcessTree {
    hmtt: Child,
    output: BufReader<std::process::ChildStdout>,
    pids: Vec<i32>,
}

impl ProcessTree {
    fn start(program: &Path, counts: &Path) -> ProcessTree {
        let words = ["run", "-f", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
        let mut command = hmtt_tag(&words);
        let mut hmtt = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(hmtt.stdout.take().unwrap());
        let mut pids = Vec::new();
        while pids.len() < 4 {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0);
            pids.push(line.trim().parse().unwrap());
        }
        ProcessTree { hmtt, output, pids }
    }
}

/// Returns the executable mappings of a process's own program, and whether any of our memory is
/// mapped.
fn text_of(pid: i32, program: &Path) -> (Vec<u8>, bool) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| {
        line.contains("r-xp") && line.ends_with(program.canonicalize().unwrap().to_str().unwrap())
    });
    let range = line.unwrap().split(' ').next().unwrap();
    let (start, end) = range.split_once('-').unwrap();
    let address = |text| u64::from_str_radix(text, 16).unwrap();
    let mut bytes = vec![0; (address(end) - address(start)) as usize];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, address(start)).unwrap();
    (bytes, maps.contains("hmtt-tag"))
}

#[test]
fn all_processes_continue_without_tags_after_sigint() {
    let Some(program) = build("tag-f-asked", WAITS, &[]) else { return };
    let counts = scratch("tag-f-asked.json");
    let mut tree = ProcessTree::start(&program, &counts);
    // SAFETY: sends a signal to our own child.
    assert_eq!(unsafe { libc::kill(tree.hmtt.id() as i32, libc::SIGINT) }, 0);
    let mut input = tree.hmtt.stdin.take();
    assert_eq!(tree.hmtt.wait().unwrap().code(), Some(0));
    let image = Image::read(&program).unwrap();
    for pid in &tree.pids {
        let (text, is_tagged) = text_of(*pid, &program);
        let expected = &image.text[0].bytes;
        assert!(text.windows(expected.len()).any(|part| part == expected), "{pid}");
        assert!(!is_tagged, "{pid}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.contains("TracerPid:\t0"), "{status}");
    }
    input.as_mut().unwrap().write_all(b"go").unwrap();
    drop(input);
    let mut text = String::new();
    tree.output.read_to_string(&mut text).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["right"; 4]);
    let counts = Counts::read(&counts);
    let mut pids: Vec<u64> = tree.pids.iter().map(|pid| *pid as u64).collect();
    pids.sort_unstable();
    assert_eq!(counts.pids().into_iter().collect::<Vec<_>>(), pids);
    assert!(counts.calls_of("step").iter().all(|calls| *calls > 0));
}

#[test]
fn hmtt_detaches_while_a_process_waits_for_one_that_shares_its_memory() {
    let Some(program) = build("tag-f-left", WAITS_SHARED, &[]) else { return };
    let counts = scratch("tag-f-left.json");
    let words = ["run", "-f", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
    let mut command = hmtt_tag(&words);
    let mut hmtt = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(hmtt.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "lodges\n");
    let mut input = hmtt.stdin.take();
    // SAFETY: sends a signal to our own child.
    assert_eq!(unsafe { libc::kill(hmtt.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(hmtt.wait().unwrap().code(), Some(0));
    input.as_mut().unwrap().write_all(b"x").unwrap();
    drop(input);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "5 0\n");
    assert!(Counts::read(&counts).calls_of("step")[0] > 0);
}

#[test]
fn children_of_a_running_program_are_followed() {
    let Some(program) = build("tag-f-storm", STORM, &[]) else { return };
    let counts = scratch("tag-f-storm.json");
    for turn in 0..3 {
        let mut command = Command::new(&program);
        let child = command.arg("100").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (file, pid) = (counts.to_str().unwrap(), child.id().to_string());
        let words = ["attach", "-f", "--overwrite", "-o", file, &pid];
        let mut tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
        let maps = format!("/proc/{}/maps", child.id());
        while !std::fs::read_to_string(&maps).unwrap().contains("hmtt-tag") {
            if tag.try_wait().unwrap().is_some() {
                // The program waits for input. It ends without any.
                drop(child.stdin.take());
                let error = String::from_utf8(tag.wait_with_output().unwrap().stderr).unwrap();
                child.wait().unwrap();
                if error.contains("not permitted") {
                    return skipped(error);
                }
                panic!("hmtt has ended: {error}");
            }
            std::thread::yield_now();
        }
        // The program starts to work when it gets input.
        child.stdin.take().unwrap().write_all(b"x").unwrap();
        if turn > 0 {
            let mut text = String::new();
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "0\n");
        } else {
            // SAFETY: sends a signal to our own child.
            assert_eq!(unsafe { libc::kill(tag.id() as i32, libc::SIGINT) }, 0);
        }
        let tag = tag.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&tag.stderr);
        assert!(tag.status.success() && !errors.contains("untagged"), "{errors}");
        assert!(child.wait().unwrap().success());
        if turn > 0 {
            let numbers = Counts::read(&counts).calls_of("step");
            // Each of three threads starts 20 children of each kind; two kinds have two processes,
            // and further threads.
            let whole = numbers[1..].iter().filter(|calls| **calls == 100).count();
            assert_eq!((numbers[0], whole), (3 * 20 * 100, 3 * 20 * 5), "{numbers:?}");
        }
    }
}
