// Executes one function for three seconds.
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t is_over;

static void ends(int number) {
    (void)number;
    is_over = 1;
}

__attribute__((noinline)) unsigned long spins(void) {
    unsigned long turns = 0;
    while (!is_over) turns++;
    return turns;
}

int main(void) {
    signal(SIGALRM, ends);
    alarm(3);
    return !spins();
}
