// Loops until a signal handler, which waits for the end of the input, has returned.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t is_over;

__attribute__((noinline)) unsigned long loops(void) {
    unsigned long turns = 0;
    while (!is_over) turns++;
    return turns;
}

static void waits(int number) {
    char byte;
    (void)number;
    if (write(1, "waits\n", 6) != 6) _exit(3);
    while (read(0, &byte, 1) < 0) {}
    is_over = 1;
}

int main(void) {
    struct sigaction action = { .sa_handler = waits };
#ifdef OWN_STACK
    stack_t other = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    sigaltstack(&other, 0);
    action.sa_flags = SA_ONSTACK;
#endif
    sigaction(SIGUSR1, &action, 0);
    alarm(60);
    puts("started");
    fflush(stdout);
    if (!loops()) return 1;
    puts("ends");
    return 0;
}
