//! Sources of programs whose children share their memory, with a known number of calls.

/// Children that share their parent's memory call a function while the parent waits for them.
pub const VFORKS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int steps;
__attribute__((noipa)) void step(void) { steps++; }
int main(void) {
    int status, sum = 0;
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < 100; i++) step();
        pid_t child = vfork();
        if (child == 0) { for (int i = 0; i < 7; i++) step(); _exit(3); }
        waitpid(child, &status, 0);
        sum += WEXITSTATUS(status);
    }
    printf("%d %d\n", steps, sum);
    return 0;
}
"#;

/// A child that shares its parent's memory calls a function at the same time as the parent.
pub const CLONES: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static char stack[1 << 16] __attribute__((aligned(16)));
static volatile int begun;
__attribute__((noipa)) long step(long n) { return n + 1; }
static int run(void *unused) {
    long n = 0; (void)unused;
    begun = 1;
    for (int i = 0; i < 3000000; i++) n = step(n);
    return n == 3000000 ? 6 : 1;
}
int main(void) {
    int status; long n = 0;
    pid_t child = clone(run, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
    while (!begun) ;
    for (int i = 0; i < 3000000; i++) n = step(n);
    waitpid(child, &status, 0);
    printf("%ld %d\n", n, WEXITSTATUS(status));
    return 0;
}
"#;

/// Waits for a child that shares its memory and waits itself, while a thread calls functions.
pub const WAITS_SHARED: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int stop, wrong;
__attribute__((noipa)) long step(long n) { return n + 1; }
static void *run(void *unused) {
    while (!stop) { long n = 0; for (int i = 0; i < 100; i++) n = step(n); wrong += n != 100; }
    return unused;
}
int main(void) {
    pthread_t t; int status; char byte;
    pthread_create(&t, 0, run, 0);
    pid_t child = vfork();
    if (child == 0) {
        long n = step(0);
        if (write(1, "lodges\n", 7) != 7 || read(0, &byte, 1) != 1) _exit(9);
        for (int i = 0; i < 4; i++) n = step(n);
        _exit(n);
    }
    waitpid(child, &status, 0);
    stop = 1;
    pthread_join(t, 0);
    printf("%d %d\n", WEXITSTATUS(status), wrong);
    return 0;
}
"#;

/// Children that share their parent's memory: one ends, one executes a program, a shell starts one.
pub const SHARERS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) long step(long n) { return n + 1; }
static int borrow(int becomes) {
    int status;
    pid_t child = vfork();
    if (child == 0) {
        for (int k = 0; k < 100; k++) step(k);
        if (becomes) execl("/bin/true", "true", (char *)0);
        _exit(3);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
int main(void) {
    int ended = borrow(0), became = borrow(1), status = system("exit 5");
    for (int k = 0; k < 50; k++) step(k);
    printf("%d %d %d\n", ended, became, WEXITSTATUS(status));
    return 0;
}
"#;
