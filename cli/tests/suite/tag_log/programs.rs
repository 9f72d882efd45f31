//! Sources of programs with a known number of calls.

/// Two functions that call each other in a known order.
pub const TREE: &str = r#"
#include <stdio.h>
long right(long n);
__attribute__((noipa)) long left(long n) { long a = n < 2 ? n : left(n - 1); return n < 2 ? a : a + right(n - 2); }
__attribute__((noipa)) long right(long n) { long a = n < 2 ? n : left(n - 1); return n < 2 ? a : a + right(n - 2); }
int main(void) { printf("%ld\n", left(19)); return 3; }
"#;

/// Eight threads at once, the nth of which calls a function n * 20000 times.
pub const EIGHT: &str = r#"
#include <pthread.h>
#include <stdio.h>
__attribute__((noipa)) long leaf(long n) { return n * 3 + 1; }
static void *run(void *turns) { long s = 0; for (long i = 0; i < (long)turns; i++) s += leaf(i); return (void *)s; }
int main(void) {
    pthread_t t[8]; long s = 0;
    for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, run, (void *)((i + 1) * 20000));
    for (int i = 0; i < 8; i++) { void *v; pthread_join(t[i], &v); s += (long)v; }
    printf("%ld\n", s);
    return 0;
}
"#;

/// Waits for a line, calls a function 200000 times, prints that, and waits for another line.
pub const ASKED: &str = r#"
#include <stdio.h>
__attribute__((noipa)) long leaf(long n) { return n * 3 + 1; }
int main(void) {
    long s = 0;
    puts("started"); fflush(stdout); getchar();
    for (long i = 0; i < 200000; i++) s += leaf(i);
    printf("%ld\n", s); fflush(stdout); getchar();
    return 0;
}
"#;

/// A timer's handler calls a function while the program calls another one, which the handler also
/// calls.
pub const TIMER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile long ticks, steps;
__attribute__((noipa)) void step(void) { steps++; }
__attribute__((noipa)) void tick(void) { ticks++; }
static void handler(int s) { (void)s; for (int i = 0; i < 5; i++) tick(); }
int main(void) {
    struct sigaction action = { .sa_handler = handler };
    struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { 0 };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    while (ticks < 10000) step();
    setitimer(ITIMER_REAL, &never, 0);
    printf("%ld %ld\n", steps, ticks);
    return 0;
}
"#;

/// Calls a function until a line arrives, then 3000000 times more.
pub const ENDLESS: &str = r#"
#include <poll.h>
#include <stdio.h>
static volatile long s;
__attribute__((noipa)) void leaf(long n) { s += n; }
int main(void) {
    struct pollfd line = { 0, POLLIN, 0 };
    puts("started"); fflush(stdout);
    while (poll(&line, 1, 0) == 0) for (int i = 0; i < 100; i++) leaf(1);
    s = 0;
    for (long i = 0; i < 3000000; i++) leaf(i);
    printf("%ld\n", s);
    return 7;
}
"#;

/// Repeatedly leaves a function by longjmp from a handler.
pub const JUMPS: &str = r#"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static sigjmp_buf back;
static volatile long jumps, steps;
__attribute__((noipa)) void step(void) { steps++; }
static struct itimerval often = { { 0, 100 }, { 0, 100 } }, never;
static void handler(int s) { (void)s; if (++jumps == 2000) setitimer(ITIMER_REAL, &never, 0); siglongjmp(back, 1); }
int main(void) {
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGALRM, &action, 0);
    sigsetjmp(back, 1);
    if (jumps == 0) setitimer(ITIMER_REAL, &often, 0);
    while (jumps < 2000) step();
    printf("%ld %ld\n", steps, jumps);
    return 0;
}
"#;

/// Threads, a timer's handler and children, which all call the same functions at once.
pub const STORM: &str = r#"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) long leaf(long n) { return n * 3 + 1; }
__attribute__((noipa)) long sum(long n) { return n <= 0 ? 0 : leaf(n) + sum(n - 1); }
__attribute__((noipa)) long tick(long n) { return leaf(n); }
static void handler(int s) { (void)s; for (int i = 0; i < 30; i++) tick(i); }
static void *run(void *turns) { long s = 0; for (long i = 0; i < (long)turns; i++) s += sum(20); return (void *)s; }
int main(void) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    struct itimerval often = { { 0, 300 }, { 0, 300 } };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    for (int round = 0; round < 5; round++) {
        pthread_t t[6]; long s = 0; int status;
        for (long i = 0; i < 6; i++) pthread_create(&t[i], 0, run, (void *)(1000 + i));
        pid_t child = fork();
        if (child == 0) { for (int i = 0; i < 1000; i++) s += sum(5); _exit(s == 50000 ? 7 : 1); }
        for (int i = 0; i < 6; i++) { void *v; pthread_join(t[i], &v); s += (long)v; }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR);
        printf("%ld %d\n", s, WEXITSTATUS(status));
    }
    return 9;
}
"#;
