// Calls longjmp out of the caller, out of many recursive frames, into frames in the middle, and out
// of a signal handler.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))
static jmp_buf outer, inner;
static sigjmp_buf interrupted;
static volatile long steps, signals;

NOINLINE static long leaf(long n) { steps++; return n + 1; }
NOINLINE static long deep(long n) {
    if (n == 0) longjmp(outer, (int)steps | 1);
    return leaf(deep(n - 1));
}
NOINLINE static long hop(long n) {
    volatile long turns = 0;
    while (setjmp(inner) < 3) {
        turns += leaf(n);
        longjmp(inner, (int)turns);
    }
    return turns;
}
NOINLINE static long descend(long n) { return n == 0 ? hop(n) : descend(n - 1) + leaf(n); }
static void handler(int number) { signals += number; leaf(number); siglongjmp(interrupted, 1); }
NOINLINE static void faulty(long n) { if (n) faulty(n - 1); else raise(SIGUSR1); leaf(n); }
NOINLINE static long catching(long n) {
    if (sigsetjmp(interrupted, 1) == 0) { faulty(n); return 0; }
    return leaf(n);
}

int main(void) {
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGUSR1, &action, 0);
    volatile long sum = 0;
    for (volatile int i = 0; i < 200; i++) {
        if (setjmp(outer) == 0) deep(i % 17); else sum++;
        sum += descend(i % 5) + catching(i % 9);
    }
    printf("%ld %ld %ld\n", sum, steps, signals);
    return 4;
}
