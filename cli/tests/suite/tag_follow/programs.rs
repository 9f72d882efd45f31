//! Sources of programs that start others, with a known number of calls.

/// A process of each depth starts two of the next one and waits for both.
pub const NESTED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long leaves;
__attribute__((noipa)) void leaf(void) { leaves++; }
__attribute__((noipa)) int grow(int depth);
__attribute__((noipa)) int node(int depth) {
    int failed = 0, status;
    if (depth < 4) for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) exit(grow(depth + 1));
        waitpid(child, &status, 0);
        failed += WEXITSTATUS(status);
    }
    for (int i = 0; i < 100 + depth; i++) leaf();
    return failed;
}
__attribute__((noipa)) int grow(int depth) { int failed = node(depth); __asm__ volatile(""); return failed; }
int main(void) { int failed = grow(0); printf("%d\n", failed); return failed; }
"#;

/// Threads that fork repeatedly while all of them call a function.
pub const FORKING_THREADS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int failed;
__attribute__((noipa)) long leaf(long n) { return n * 3 + 1; }
static void *run(void *word) {
    long thread = (long)word, sum = 0;
    for (int turn = 0; turn < 50; turn++) {
        int status = -1;
        for (long i = 0; i < 30; i++) sum += leaf(i);
        pid_t child = fork();
        if (child == 0) {
            long own = 0;
            for (long i = 0; i < 1000 + thread; i++) own += leaf(i) == i * 3 + 1;
            _exit(own == 1000 + thread ? 0 : 1);
        }
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    return (void *)sum;
}
int main(void) {
    pthread_t t[4]; long s = 0;
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, run, (void *)i);
    for (int i = 0; i < 4; i++) { void *v; pthread_join(t[i], &v); s += (long)v; }
    printf("%ld %d\n", s, failed);
    return 0;
}
"#;

/// Starts a program in a child.
pub const FORKS_AND_EXECS: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) void starts(void) { __asm__ volatile(""); }
int main(int count, char **words) {
    int status; (void)count;
    starts();
    pid_t child = fork();
    if (child == 0) { execv(words[1], words + 1); _exit(9); }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
"#;

/// Calls a function as often as its argument says.
pub const SAYS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static volatile long said;
__attribute__((noipa)) void say(void) { said++; }
int main(int count, char **words) {
    int times = count > 1 ? atoi(words[1]) : 0, c;
    for (int i = 0; i < times; i++) say();
    if (count > 2) while ((c = getchar()) != EOF) putchar(c);
    printf("%ld\n", said);
    return times;
}
"#;

/// Starts a program in four ways.
pub const STARTS: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
__attribute__((noipa)) void begin(void) { __asm__ volatile(""); }
static int end(pid_t child) { int status = -1; waitpid(child, &status, 0); return WEXITSTATUS(status); }
int main(int count, char **words) {
    pid_t child; char line[256]; (void)count;
    char *spawned[] = { words[1], "11", 0 }, *forked[] = { words[1], "44", 0 };
    begin();
    if (posix_spawn(&child, words[1], 0, 0, spawned, environ)) return 1;
    printf("spawned %d\n", end(child)); fflush(stdout);
    begin();
    snprintf(line, sizeof line, "%s 22", words[1]);
    int status = system(line);
    printf("system %d\n", WEXITSTATUS(status)); fflush(stdout);
    begin();
    snprintf(line, sizeof line, "%s 33", words[1]);
    FILE *pipe = popen(line, "r");
    int read = fscanf(pipe, "%255s", line);
    status = pclose(pipe);
    printf("popen %d %s %d\n", read, line, WEXITSTATUS(status)); fflush(stdout);
    begin();
    child = vfork();
    if (child == 0) { execv(words[1], forked); _exit(9); }
    printf("vfork %d\n", end(child));
    return 5;
}
"#;

/// Executes itself with a smaller number until the number is 0.
pub const EXECS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int steps;
__attribute__((noipa)) void step(void) { steps++; }
int main(int count, char **words) {
    int left = atoi(words[1]); char word[16]; (void)count;
    for (int i = 0; i < left; i++) step();
    printf("%d %d\n", left, steps); fflush(stdout);
    if (left == 0) return 4;
    snprintf(word, sizeof word, "%d", left - 1);
    execl(words[0], words[0], word, (char *)0);
    return 1;
}
"#;

/// Executes itself from a thread that is not the first, while other threads call functions.
pub const THREAD_EXECS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long spins;
static char **arguments;
__attribute__((noipa)) void step(void) { __asm__ volatile(""); }
__attribute__((noipa)) void spin(void) { spins++; }
static void *turn(void *unused) { for (;;) spin(); return unused; }
static void *become(void *left) {
    char word[16];
    for (long i = 0; i < (long)left; i++) step();
    snprintf(word, sizeof word, "%ld", (long)left - 1);
    execl(arguments[0], arguments[0], word, (char *)0);
    return 0;
}
int main(int count, char **words) {
    long left = atol(words[1]); pthread_t t[3]; (void)count;
    arguments = words;
    printf("%ld\n", left); fflush(stdout);
    if (left == 0) return 8;
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, turn, 0);
    pthread_create(&t[2], 0, become, (void *)left);
    pthread_join(t[2], 0);
    return 1;
}
"#;

/// Tries to execute missing programs, in itself and in children.
pub const MISSING: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
__attribute__((noipa)) void step(void) { __asm__ volatile(""); }
int main(void) {
    char *words[] = { "/nonexistent/program", 0 };
    int status; pid_t child;
    step();
    printf("%d\n", execv(words[0], words));
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        child = fork();
        if (child == 0) { int result = execv(words[0], words); step(); _exit(result == -1 ? 3 : 4); }
        waitpid(child, &status, 0);
        printf("%d\n", WEXITSTATUS(status));
    }
    printf("%d\n", posix_spawn(&child, words[0], 0, 0, words, environ));
    step();
    return 2;
}
"#;

/// Leaves a child that prints something after its parent has ended.
pub const OUTLIVES: &str = r#"
#include <stdio.h>
#include <unistd.h>
static volatile int steps;
__attribute__((noipa)) void step(void) { steps++; }
int main(void) {
    int gone[2]; char byte;
    for (int i = 0; i < 3; i++) step();
    if (pipe(gone)) return 9;
    if (fork() == 0) {
        close(gone[1]);
        // When the parent has ended, no process has the write end.
        if (read(gone[0], &byte, 1) != 0) return 1;
        for (int i = 0; i < 5000; i++) step();
        printf("alone %d\n", steps);
        return 0;
    }
    return 6;
}
"#;

/// Kills children that call functions, with and without threads.
pub const KILLED: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long steps;
__attribute__((noipa)) void step(void) { steps++; }
static void *turn(void *unused) { for (;;) step(); return unused; }
int main(void) {
    int signals[] = { SIGKILL, SIGTERM, SIGSEGV }, sum = 0, status, ready[2]; char byte;
    for (int i = 0; i < 60; i++) {
        step();
        if (pipe(ready)) return 9;
        pid_t child = fork();
        if (child == 0) {
            pthread_t t;
            if (i % 2) pthread_create(&t, 0, turn, 0);
            step();
            if (write(ready[1], "x", 1) != 1) return 9;
            turn(0);
        }
        if (read(ready[0], &byte, 1) != 1) return 9;
        close(ready[0]); close(ready[1]);
        kill(child, signals[i % 3]);
        waitpid(child, &status, 0);
        sum += WTERMSIG(status);
    }
    printf("%d\n", sum);
    return 0;
}
"#;

/// Forks in a timer's handler, which may interrupt a tag. Each process prints its own counts.
pub const FORKS_IN_HANDLER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static long steps, ticks, forks;
static int is_child;
static const struct itimerval soon = { { 0, 0 }, { 0, 300 } };
__attribute__((noipa)) void step(void) { __asm__ volatile("incq %0" : "+m"(steps)); }
__attribute__((noipa)) void tick(void) { __asm__ volatile("incq %0" : "+m"(ticks)); }
static void handler(int signal) {
    (void)signal;
    if (is_child) return;
    tick();
    if (fork() == 0) { is_child = 1; steps = ticks = 0; tick(); return; }
    if (++forks < 200) setitimer(ITIMER_REAL, &soon, 0);
}
static int say(void) {
    char line[99];
    int bytes = snprintf(line, sizeof line, "%d %ld %ld\n", getpid(), steps, ticks);
    return write(1, line, bytes) == bytes ? 0 : 1;
}
int main(void) {
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &soon, 0);
    while (!is_child && *(volatile long *)&forks < 200) step();
    if (is_child) for (int i = 0; i < 3000; i++) step();
    else while (wait(0) > 0) ;
    return say();
}
"#;

/// A process, two children and a thread of each make steps until the input ends; each prints which
/// it is.
pub const WAITS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
static atomic_int stop, wrong;
__attribute__((noipa)) long step(long n) { return n + 1; }
static void *run(void *unused) {
    while (!stop) { long n = 0; for (int i = 0; i < 100; i++) n = step(n); wrong += n != 100; }
    return unused;
}
int main(void) {
    pthread_t t; char byte, line[32];
    fork();
    fork();
    pthread_create(&t, 0, run, 0);
    step(0);
    int bytes = snprintf(line, sizeof line, "%d\n", getpid());
    if (write(1, line, bytes) != bytes) return 9;
    // There are two bytes for four readers. The others read the end.
    if (read(0, &byte, 1) < 0) return 9;
    stop = 1;
    pthread_join(t, 0);
    if (write(1, wrong ? "wrong\n" : "right\n", 6) != 6) return 9;
    return 0;
}
"#;

/// Threads that start processes in all ways, with threads and children of their own, some of which
/// they kill.
pub const STORM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static atomic_int wrong;
static int turns;
__attribute__((noipa)) long step(long n) { return n + 1; }
static void *few(void *unused) {
    long n = 0;
    for (int i = 0; i < 100; i++) n = step(n);
    wrong += n != 100;
    return unused;
}
static pid_t start(int how, char *self) {
    char *words[] = { self, "few", 0 };
    pthread_t t;
    int status;
    pid_t child = -1;
    if (how == 1) return posix_spawn(&child, self, 0, 0, words, environ) ? -1 : child;
    child = fork();
    if (child != 0) return child;
    if (how == 0) { few(0); _exit(wrong ? 1 : 3); }
    if (how == 2) { execv(self, words); _exit(9); }
    if (how == 4) for (;;) step(0);
    child = fork();
    if (child == 0) { few(0); _exit(3); }
    pthread_create(&t, 0, few, 0);
    pthread_join(t, 0);
    waitpid(child, &status, 0);
    _exit(WEXITSTATUS(status));
}
static void *run(void *self) {
    for (int i = 0; i < turns; i++) {
        int status = -1;
        pthread_t t;
        if (i % 5 == 4) pthread_create(&t, 0, few, 0);
        pid_t child = start(i % 5, self);
        if (i % 5 == 4) { usleep(100); kill(child, SIGKILL); }
        waitpid(child, &status, 0);
        if (i % 5 == 4) { pthread_join(t, 0); wrong += WTERMSIG(status) != SIGKILL; }
        else wrong += WEXITSTATUS(status) != 3;
    }
    return 0;
}
int main(int count, char **words) {
    pthread_t t[3];
    (void)count;
    if (!strcmp(words[1], "few")) { few(0); return wrong ? 1 : 3; }
    turns = atoi(words[1]);
    getchar();
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, run, words[0]);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    printf("%d\n", wrong);
    return 0;
}
"#;

/// A 32-bit program that ends with 7.
pub const BITS_32: &str = ".globl _start\n_start: mov $1, %eax\nmov $7, %ebx\nint $0x80\n";
