// Threads start processes that wait for a pipe. Each is stopped at once, waited for, continued, and waited for again.
#define _GNU_SOURCE
#include <pthread.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, CHILDREN = 4 };
static int stopped, exited;

static void *starts(void *unused) {
    int ends[CHILDREN][2];
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        if (pipe2(ends[i], O_CLOEXEC)) return 0;
        children[i] = fork();
        if (children[i] == 0) {
            char byte;
            for (int end = 0; end <= i; end++) close(ends[end][1]);
            read(ends[i][0], &byte, 1);
            _exit(7);
        }
        kill(children[i], SIGSTOP);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        waitpid(children[i], &status, WUNTRACED);
        __sync_fetch_and_add(&stopped, WIFSTOPPED(status));
        kill(children[i], SIGKILL);
        waitpid(children[i], &status, 0);
        __sync_fetch_and_add(&exited, WIFSIGNALED(status));
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(threads + i, 0, starts, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("%d %d\n", stopped, exited);
    return 0;
}
