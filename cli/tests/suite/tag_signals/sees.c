// Threads loop until the program's input has a byte, upon which each gets a signal. Prints whether all handlers have seen
// an address of the program.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS 4

extern const char __executable_start[], etext[];
static __thread volatile sig_atomic_t is_over;
static atomic_int own;

__attribute__((noinline)) unsigned long loops(void) {
    unsigned long turns = 0;
    while (!is_over) turns++;
    return turns;
}

static void sees(int number, siginfo_t *info, void *context) {
    unsigned long address = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)number, (void)info;
    own += (unsigned long)__executable_start <= address && address < (unsigned long)etext;
    is_over = 1;
}

static void *work(void *unused) {
    loops();
    return unused;
}

int main(void) {
    struct sigaction action = { .sa_sigaction = sees, .sa_flags = SA_SIGINFO };
    sigaction(SIGUSR1, &action, 0);
    alarm(60);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, 0);
    puts("started");
    fflush(stdout);
    char byte;
    if (read(0, &byte, 1) != 1) return 1;
    for (int i = 0; i < THREADS; i++) pthread_kill(threads[i], SIGUSR1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    puts(own == THREADS ? "own" : "unknown");
    return 0;
}
