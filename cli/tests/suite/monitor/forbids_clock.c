// Forbids itself to read the time stamp counter, after some work. With `late`: tells its parent, and works for long. With
// `reads`: reads the counter then, and handles the signal.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

static volatile long sum;
static sigjmp_buf back;
static volatile unsigned long marker;

static void work(long times) {
    for (long i = 0; i < times; i++) sum += i % 7;
}

static void *works(void *unused) {
    work(1000000);
    return unused;
}

static void faults(int signal, siginfo_t *information, void *context) {
    marker = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX];
    if (signal == SIGSEGV && information->si_code == SI_KERNEL) siglongjmp(back, 1);
    _exit(9);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    work(1000000);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 8;
    if (!strcmp(how, "late")) {
        puts("ready");
        fflush(stdout);
        for (int i = 0; i < 300; i++) {
            work(20000);
            usleep(1000);
        }
    }
    if (!strcmp(how, "reads")) {
        struct sigaction action = {.sa_sigaction = faults, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, 0);
        if (!sigsetjmp(back, 1)) {
            __asm__ volatile("rdtsc" : : "a"(0x1234) : "rdx");
            return 7;
        }
        printf("%lx\n", marker);
    }
    work(1000000);
    for (int i = 0; i < 50; i++) usleep(10);
    pthread_t thread;
    if (pthread_create(&thread, 0, works, 0)) return 6;
    pthread_join(thread, 0);
    printf("%ld\n", sum > 0);
    return 0;
}
