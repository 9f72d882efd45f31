//! Tests programs with so much or such unusual memory that reading all of it would take minutes or
//! cause damage.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Companion, errors, program};
use crate::scratch;
use crate::tag::{calls, hmtt_tag};

/// Maps what its argument says, and calls a function for each byte of its input.
const MAPS: &str = r#"
#include <alloca.h>
#include <elf.h>
#include <pthread.h>
#include <sys/resource.h>
#define CODE (PROT_READ | PROT_EXEC)
static int file(uint64_t bytes) {
    int one = memfd_create("library", 0);
    if (one < 0 || ftruncate(one, bytes)) _exit(9);
    return one;
}
static unsigned char *map(int one, uint64_t bytes, uint64_t offset, int how) {
    unsigned char *start = mmap(0, bytes, CODE, how, one, offset);
    if (start == MAP_FAILED) { say("none\n"); _exit(0); }
    return start;
}
static uint64_t field(const char *text, int wanted) { // Of /proc/self/stat.
    text = strrchr(text, ')') + 2;
    for (int n = 3; n < wanted; n++) text = strchr(text, ' ') + 1;
    return strtoull(text, 0, 10);
}
static void headers(void *at, uint64_t bytes) { // What /proc/PID/auxv shows.
    char text[4096] = "";
    Elf64_auxv_t all[64];
    int stat = open("/proc/self/stat", O_RDONLY), auxv = open("/proc/self/auxv", O_RDONLY);
    if (read(stat, text, sizeof text - 1) < 0) _exit(9);
    int count = read(auxv, all, sizeof all) / (int)sizeof *all;
    for (int i = 0; i < count; i++) {
        if (all[i].a_type == AT_PHDR) all[i].a_un.a_val = (uint64_t)at;
        if (all[i].a_type == AT_PHNUM) all[i].a_un.a_val = bytes / sizeof(Elf64_Phdr);
    }
    struct prctl_mm_map map = { field(text, 26), field(text, 27), field(text, 45), field(text, 46), field(text, 47),
        (uint64_t)sbrk(0), field(text, 28), field(text, 48), field(text, 49), field(text, 50), field(text, 51),
        (void *)all, count * sizeof *all, -1 };
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0)) { say("none\n"); _exit(0); }
    prctl(PR_SET_DUMPABLE, 1);
}
static void *anonymous(uint64_t bytes) {
    void *start = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) { say("none\n"); _exit(0); }
    return start;
}
// Waits without end, with its stack pointer near the beginning of a mapping.
static void *waits(void *stack) {
    struct timespec time = { 1000, 0 };
    register struct timespec *argument __asm__("rdi") = &time;
    __asm__ volatile("mov %1, %%rsp\n1: mov $34, %%eax\nsyscall\njmp 1b"
        : "+r"(argument) : "r"(stack) : "rax", "rcx", "r11", "memory");
    return 0;
}
int main(int count, char **words) {
    const unsigned char returns[] = { 0xcc, 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05, 0xcc };
    unsigned char *shared = 0;
    char byte;
    int one;
    (void)count;
    switch (words[1][0]) {
    case 'h': // Holes, again and again.
        one = file(64ul << 20);
        for (int i = 0; i < 4096; i++) map(one, 64ul << 20, 0, MAP_PRIVATE);
        break;
    case 't': // A terabyte of them.
        map(file(1ul << 40), 1ul << 40, 0, MAP_PRIVATE | MAP_NORESERVE);
        break;
    case 'p': // Pages that the kernel cannot make one mapping of.
        one = file(8192);
        for (int i = 0; i < 50000; i++) map(one, 4096, 4096, MAP_PRIVATE);
        break;
    case 'r': // What looks like what handlers return to, a hundred thousand times.
        one = file(0);
        for (int i = 0; i < 100000; i++) if (write(one, returns, sizeof returns) < 0) _exit(9);
        map(one, 100000 * sizeof returns, 0, MAP_PRIVATE);
        break;
    case 's': // The same in the file itself, which cannot be written to by this mapping.
        one = file(0);
        if (write(one, returns, sizeof returns) < 0) _exit(9);
        shared = map(one, 4096, 0, MAP_SHARED);
        break;
    case 'k': { // A stack full of code addresses.
        struct rlimit limit;
        getrlimit(RLIMIT_STACK, &limit);
        uint64_t size = limit.rlim_cur > 80ul << 20 ? 64ul << 20 : limit.rlim_cur / 4 * 3;
        volatile uint64_t *all = alloca(size);
        for (uint64_t i = 0; i < size / 8; i++) all[i] = (uint64_t)call + i % 4;
        break;
    }
    case 'n': { // Threads, all with the same large stack.
        pthread_attr_t attributes;
        pthread_t thread;
        char *stack = anonymous(64ull << 20);
        memset(stack, 1, 64ul << 20);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 32 << 10);
        for (long i = 0; i < 400; i++)
            if (pthread_create(&thread, &attributes, waits, stack + 4096 * (1 + i % 64) + 2048)) { say("none\n"); _exit(0); }
        break;
    }
    case 'a': // Program headers without end.
        headers(anonymous(1ull << 44), 1ull << 44);
        break;
    }
    say("ready\n");
    while (read(0, &byte, 1) == 1) call(1);
    if (shared && memcmp(shared, returns, sizeof returns)) say("changed\n");
    say("end\n");
    _exit(3);
}
"#;

#[test]
fn a_program_with_huge_memory_is_tagged() {
    let Some(program) = program("maps", MAPS, &[]) else { return };
    let counts = scratch("tag-hostile-maps.json");
    for how in ["h", "p", "r", "s", "k", "a", "n"] {
        let mut companion = Companion::start(&program, &[how]);
        if companion.line() != "ready" {
            crate::skipped(format!("{how}: so much cannot be mapped here"));
            continue;
        }
        let words = ["attach", "--overwrite", "-o", counts.to_str().unwrap(), &companion.pid()];
        let mut tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
        // This takes a second. Without limits it would take minutes to hours.
        let patience = Instant::now() + Duration::from_secs(100);
        let maps = format!("/proc/{}/maps", companion.pid());
        let is_tagged = || {
            let maps = std::fs::read(&maps).unwrap();
            maps.windows(9).filter(|text| text == b"hmtt-tag-").count() > 0
        };
        while !is_tagged() {
            assert!(tag.try_wait().unwrap().is_none(), "{how}");
            assert!(Instant::now() < patience, "{how}: it does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        // All threads stay stopped until the tags are in place.
        let status = format!("/proc/{}/status", companion.pid());
        while std::fs::read_to_string(&status).unwrap().contains("(tracing stop)") {
            assert!(Instant::now() < patience, "{how}: it does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        companion.child.stdin.as_mut().unwrap().write_all(b"12345").unwrap();
        assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)), "{how}");
        let tag = tag.wait_with_output().unwrap();
        assert_eq!(tag.status.code(), Some(3), "{how}: {}", errors(&tag));
        assert_eq!(calls(&counts)["work"], 5, "{how}");
    }
}

#[test]
fn a_program_with_too_many_instructions_is_refused_and_named() {
    let Some(program) = program("maps-all", MAPS, &[]) else { return };
    let counts = scratch("tag-hostile-maps-all.json");
    let mut companion = Companion::start(&program, &["t"]);
    if companion.line() != "ready" {
        return crate::skipped("a terabyte cannot be mapped here");
    }
    let words = ["attach", "--overwrite", "-o", counts.to_str().unwrap(), &companion.pid()];
    let refused = hmtt_tag(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("too much to search for"), "{}", errors(&refused));
    assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)));
}

#[test]
fn a_signal_ends_a_long_search_and_leaves_the_program_as_it_was() {
    let Some(program) = program("maps-ended", MAPS, &[]) else { return };
    let counts = scratch("tag-hostile-maps-ended.json");
    let mut companion = Companion::start(&program, &["n"]);
    if companion.line() != "ready" {
        return crate::skipped("so many threads cannot be started here");
    }
    // The signal has arrived before the search begins, and stays blocked when the shell becomes
    // hmtt.
    let mut command = Command::new("env");
    command.args(["--block-signal=TERM", "sh", "-c", "kill -TERM $$; exec \"$@\"", "sh"]);
    command.args([env!("CARGO_BIN_EXE_hmtt"), "tag", "attach", "--overwrite", "-o"]);
    let ended = command.arg(&counts).arg(companion.pid()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", errors(&ended));
    assert!(errors(&ended).contains("a signal ended the search"), "{}", errors(&ended));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", companion.pid())).unwrap();
    assert!(!maps.contains("hmtt-tag-"), "{maps}");
    companion.child.stdin.as_mut().unwrap().write_all(b"12345").unwrap();
    assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)));
}
