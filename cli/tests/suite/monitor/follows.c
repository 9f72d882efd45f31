// Starts processes in many ways, several at the same time, and prints how each has ended. With "counted", it starts them in
// a certain order, and each executes certain instructions. With another word and a number, it is such a process.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char *self;
static char stack[65536];
static volatile int sink;
__attribute__((noinline)) static void work(int times) {
    for (int i = 0; i < times * 1000; i++) sink += i % 7 == 3;
}
static void report(const char *what, pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) status = -1;
    char line[100];
    int length = snprintf(line, sizeof line, "%s %x\n", what, status);
    if (write(1, line, length) != length) _exit(99);
}
static pid_t spawn(char *word, char *number) {
    char *words[] = { self, word, number, 0 };
    pid_t child = -1;
    posix_spawn(&child, self, 0, 0, words, environ);
    return child;
}
static int cloned(void *value) {
    work(1);
    _exit((int)(long)value);
}
static void *thread(void *value) {
    int number = (int)(long)value;
    for (int i = 0; i < 3; i++) {
        pid_t child = i == 1 ? spawn("exit", "5") : fork();
        if (!child) {
            work(number + i);
            _exit(number + i);
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0) {}
        number += WEXITSTATUS(status);
    }
    return (void *)(long)number;
}
static void counted(void) {
    for (int i = 1; i <= 3; i++) {
        pid_t child = fork();
        if (!child) {
            work(i);
            exit(i);
        }
        report("fork", child);
        char number[] = { '4' + i, 0 };
        report("spawn", spawn("exit", number));
    }
}
int main(int count, char **words) {
    self = words[0];
    if (count > 2) {
        work(atoi(words[2]));
        if (!strcmp(words[1], "replace")) {
            execl(self, self, "exit", words[2], (char *)0);
            return 98;
        }
        return atoi(words[2]);
    }
    if (count > 1 && !strcmp(words[1], "counted")) {
        counted();
        return 0;
    }
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(threads + i, 0, thread, (void *)(10 * i));
    pid_t child = fork();
    if (!child) {
        pid_t grandchild = fork();
        if (!grandchild) {
            report("great-grandchild", spawn("replace", "7"));
            _exit(11);
        }
        report("grandchild", grandchild);
        _exit(12);
    }
    report("child", child);
    child = vfork();
    if (!child) {
        execl(self, self, "exit", "13", (char *)0);
        _exit(97);
    }
    report("vfork and exec", child);
    child = vfork();
    if (!child) {
        execl("/no/such/program", self, (char *)0);
        _exit(14);
    }
    report("vfork", child);
    child = clone(cloned, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)15l);
    report("shared memory", child);
    if (!(child = fork())) abort();
    report("abort", child);
    if (!(child = fork())) {
        kill(getpid(), SIGKILL);
    }
    report("kill", child);
    if (!(child = fork())) for (;;) pause();
    kill(child, SIGTERM);
    report("terminate", child);
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        printf("thread %d %d\n", i, (int)(long)sum);
    }
    fflush(stdout);
    execl(self, self, "replace", "16", (char *)0);
    return 1;
}
