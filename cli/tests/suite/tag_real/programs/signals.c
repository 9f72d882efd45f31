// A timer's handler that runs 1000 times per second and calls the functions that it interrupts.
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#define NOINLINE __attribute__((noipa))
static volatile long steps, ticks, by_handler;
NOINLINE long leaf(long n) { return n + 1; }
NOINLINE long step(long n) { steps++; return leaf(n) + leaf(n); }
NOINLINE long fall(long n) { return n ? fall(n - 1) + 1 : leaf(n); }
static void handler(int number) {
    ticks++;
    for (int i = 0; i < 3; i++) by_handler += leaf(number) != 0;
    fall(4);
}
int main(void) {
    struct sigaction action = { .sa_handler = handler };
    struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    long sum = 0;
    while (ticks < 100) { sum += step(sum); sum += fall(3); }
    setitimer(ITIMER_REAL, &never, 0);
    // Prints the calls of leaf, step, fall and the handler.
    printf("%ld %ld %ld %ld\n", 2 * steps + steps + 4 * ticks, steps, 4 * steps + 5 * ticks, ticks);
    return sum == 0;
}
