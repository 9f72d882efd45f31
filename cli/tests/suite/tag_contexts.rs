//! Tests how `hmtt tag report` separates coroutines and signal stacks of a real program.

/// Coroutines that run alternately, and handlers on a signal stack, some of which leave by
/// `siglongjmp`.
const CONTEXTS: &str = r#"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#define CALLED __attribute__((noipa))
static ucontext_t back, others[4];
static unsigned sum;
static sigjmp_buf jump;
static char *hole;
CALLED unsigned mix(unsigned a) { return a * 2654435761u ^ (a >> 7); }
CALLED unsigned work(unsigned k) { unsigned s = 0; for (unsigned i = 0; i < k; i++) s = mix(s + i); return s; }
CALLED void coroutine(int id) {
    for (int i = 0; i < 100; i++) { sum += work(20 + id); swapcontext(&others[id], &back); }
}
CALLED void on_segv(int s) { (void)s; siglongjmp(jump, 1); }
CALLED unsigned probe(unsigned k) {
    if (sigsetjmp(jump, 1)) return mix(k);
    *(volatile char *)(hole + (k & 4095)) = 1;
    return 0;
}
CALLED unsigned deep(unsigned n) { volatile char b[1024]; b[0] = n; return n ? deep(n - 1) + b[0] : 1; }
CALLED void on_usr1(int s) { (void)s; sum += deep(3); }
int main(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, 0);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = on_segv, .sa_flags = SA_ONSTACK}, 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_usr1, .sa_flags = SA_ONSTACK}, 0);
    hole = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 4; i++) {
            getcontext(&others[i]);
            others[i].uc_stack.ss_sp = malloc(65536);
            others[i].uc_stack.ss_size = 65536;
            others[i].uc_link = &back;
            makecontext(&others[i], (void (*)(void))coroutine, 1, i);
        }
        for (int k = 0; k < 101; k++) for (int i = 0; i < 4; i++) swapcontext(&back, &others[i]);
        for (int i = 0; i < 4; i++) free(others[i].uc_stack.ss_sp);
        for (int k = 0; k < 10; k++) { sum += probe(k); raise(SIGUSR1); }
        sum += deep(100);
    }
    printf("%08x\n", sum);
    return 7;
}
"#;

#[test]
fn coroutines_and_signal_stacks_of_a_real_program_are_separated() {
    let Some(program) = crate::tag::build("tag-contexts", CONTEXTS, &["-O1"]) else { return };
    let log = crate::scratch("tag-contexts.tags");
    let words = ["run", "--sink", "log", "--overwrite", "-o", log.to_str().unwrap(), "--"];
    let run = crate::tag::hmtt_tag(&words).arg(&program).output().unwrap();
    assert_eq!(run.status.code(), Some(7), "{}", String::from_utf8_lossy(&run.stderr));
    let report = crate::hmtt(&["tag", "report", "--json", log.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let functions = report["functions"].as_array().unwrap();
    let function = |name: &str| {
        let function = functions.iter().find(|function| function["name"] == name);
        function.unwrap_or_else(|| panic!("{name}: {report}"))
    };
    let returned = |name: &str| function(name)["exits"]["returned"].as_u64();
    let expected = [("coroutine", 80), ("work", 8000), ("deep", 20 * (101 + 40)), ("on_usr1", 200)];
    for (name, calls) in expected {
        assert_eq!((function(name)["calls"].as_u64(), returned(name)), (Some(calls), Some(calls)));
    }
    // The function that the handler leaves returns later; the handler itself does not return.
    assert_eq!([returned("on_segv"), returned("probe")], [Some(0), Some(200)]);
    let own: u64 = functions.iter().map(|function| function["self_ns"].as_u64().unwrap()).sum();
    let ran = (report["duration_seconds"].as_f64().unwrap() * 1e9) as u64;
    assert!(own <= ran + functions.len() as u64, "{own} of {ran} ns");
    assert_eq!(report["unmatched_exits"], 0);
}
