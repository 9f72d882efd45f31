// Starts programs by vfork(2) and posix_spawn(3) in two threads, and prints the sum of their statuses. Its first argument is how
// many each thread starts.
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int count;

static void *starts(void *unused) {
    long sum = 0;
    char *words[] = {"sh", "-c", "exit 3", 0};
    for (int number = 0; number < count; number++) {
        pid_t child;
        int status;
        if (number & 1) {
            if (posix_spawn(&child, "/bin/sh", 0, 0, words, environ)) return (void *)-1;
        } else if (!(child = vfork())) {
            execv("/bin/sh", words);
            _exit(1);
        }
        waitpid(child, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return (void *)sum;
}

int main(int words, char **word) {
    pthread_t other;
    void *sum;
    count = words > 1 ? atoi(word[1]) : 100;
    pthread_create(&other, 0, starts, 0);
    long own = (long)starts(0);
    pthread_join(other, &sum);
    printf("%ld %ld\n", own, (long)sum);
    return 0;
}
