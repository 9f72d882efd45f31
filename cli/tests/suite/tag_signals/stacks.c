/* A hot function that handlers interrupt: with OWN, handlers return to code that no C library has; without, a handler on
   the stack of the program is interrupted by one on another stack. Ends with its input. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void rest(long milliseconds) {
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, 0);
}

#ifdef OWN
struct action { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; };
void restorer(void);
__asm__(".text\nrestorer: mov $15, %eax\nsyscall\nud2\n");
static void handler(int signal) { (void)signal; rest(15); }
static void install(void) {
    struct action action = {handler, 0x04000000 | SA_RESTART, restorer, 0};
    syscall(SYS_rt_sigaction, SIGALRM, &action, 0, 8);
}
#else
static char other[1 << 16];
static void inner(int signal) { (void)signal; rest(15); }
static void outer(int signal) { (void)signal; raise(SIGUSR2); }
static void install(void) {
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_handler = outer, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    action.sa_handler = inner;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGUSR2, &action, 0);
}
#endif

__attribute__((noinline)) unsigned long hot(unsigned long a) {
    a ^= a >> 3;
    a *= 5;
    a += 7;
    a ^= a << 5;
    __asm__ volatile("");
    return a;
}

int main(void) {
    install();
    struct itimerval often = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_REAL, &often, 0);
    puts("begins");
    fflush(stdout);
    struct pollfd input = {0, POLLIN, 0};
    unsigned long a = 1;
    while (poll(&input, 1, 0) <= 0)
        for (int i = 0; i < 200000; i++) a = hot(a);
    puts(a != 0 ? "ends" : "wrong");
    return 0;
}
