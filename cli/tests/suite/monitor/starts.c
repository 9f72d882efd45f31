// Starts processes in several ways, and at last executes another program in place of itself.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int status(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
static char stack[65536];
static int cloned(void *value) { _exit((int)(long)value); }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (!child) _exit(i + 1);
        sum = sum * 3 + status(child);
        child = vfork();
        if (!child) _exit(i + 2);
        sum = sum * 3 + status(child);
        char *words[] = { "sh", "-c", "exit 4", 0 };
        if (posix_spawnp(&child, "sh", 0, 0, words, environ)) return 1;
        sum = sum * 3 + status(child);
        child = clone(cloned, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)6l);
        sum = sum * 3 + status(child);
    }
    printf("%d\n", sum);
    fflush(stdout);
    char *missing[] = { "missing", 0 };
    execv("/no/such/program", missing);
    puts("still here");
    fflush(stdout);
    execlp("sh", "sh", "-c", "echo executed; exit 9", (char *)0);
    return 1;
}
