#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/time.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/wait.h>
static volatile long ticks; static void on(int s) { ticks++; }
__attribute__((noinline)) long f(long x) { return x * 6364136223846793005L + 1442695040888963407L; }
static long (*volatile fp)(long) = f;
static void *th(void *p) { long x = (long)p; for (int i = 0; i < 300000; i++) { x = fp(x); if (i % 50000 == 0) free(malloc(1000 + (x & 1023))); } return (void *)x; }
int main(int c, char **v) {
    if (c > 1) { struct sigaction a = {.sa_handler = on, .sa_flags = SA_RESTART}; sigaction(SIGALRM, &a, 0); struct itimerval t = {{0, 2000}, {0, 2000}}; setitimer(ITIMER_REAL, &t, 0); }
    long s = 1;
    int rounds = c > 2 ? atoi(v[2]) : 20;
    for (int r = 0; r < rounds; r++) {
        pthread_t t[2]; void *x;
        for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, th, (void *)(s + i));
        for (int i = 0; i < 30000; i++) s = fp(s);
        for (int i = 0; i < 2; i++) { pthread_join(t[i], &x); s += (long)x; }
        if (r % 5 == 0) { pid_t p = fork(); if (!p) _exit(s & 63); int st; while (waitpid(p, &st, 0) < 0); s += WEXITSTATUS(st); }
        printf("%d %lx\n", r, s); fflush(stdout);
    }
    return 7;
}
