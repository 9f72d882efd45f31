// Starts programs by vfork, posix_spawn and fork, and finally executes one itself.
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))
extern char **environ;
static volatile long steps;
NOINLINE long step(long n) { steps++; return n + 1; }
NOINLINE int wait_for(pid_t child) { int status; waitpid(child, &status, 0); return WEXITSTATUS(status); }
NOINLINE int by_vfork(char **words) {
    pid_t child = vfork();
    if (child == 0) { execv(words[0], words); _exit(99); }
    return wait_for(child);
}
NOINLINE int by_spawn(char **words) {
    pid_t child;
    if (posix_spawn(&child, words[0], 0, 0, words, environ)) return 98;
    return wait_for(child);
}
NOINLINE int by_fork(int code) {
    pid_t child = fork();
    if (child == 0) { for (int i = 0; i < 50; i++) step(i); _exit(code); }
    return wait_for(child);
}
int main(void) {
    char *words[] = { "/bin/sh", "-c", "exit 3", 0 };
    char *missing[] = { "/nonexistent", 0 };
    char *last[] = { "/bin/sh", "-c", "echo another; exit 9", 0 };
    long sum = 0;
    for (int i = 0; i < 5; i++) sum += by_vfork(words) + by_vfork(missing) + by_spawn(words) + by_fork(i) + step(i);
    printf("%ld %ld\n", sum, steps);
    fflush(stdout);
    return execv(last[0], last);
}
