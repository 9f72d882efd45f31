/* Finds the unwind table of the interrupted code, and reads it until a line arrives. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>
#define NOINLINE __attribute__((noinline))
#define MOST 20000
extern const char __executable_start[], _end[];
static volatile int signals, sum;
NOINLINE unsigned leaf(unsigned n) { __asm__ volatile(""); return n * 2654435761u ^ (n >> 7); }
NOINLINE static void handle(int number, siginfo_t *info, void *context) {
    char *pc = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    int is_own = pc >= __executable_start && pc < _end;
    struct dl_find_object object, own;
    (void)number; (void)info;
    if (_dl_find_object((void *)handle, &own) || _dl_find_object(pc, &object)) return;
    /* Code of the program that is not in its file is a stub. There may be none. */
    if (++signals < MOST && (is_own || object.dlfo_link_map != own.dlfo_link_map)) return;
    puts("reads"); fflush(stdout);
    struct pollfd input = {0, POLLIN, 0};
    while (!poll(&input, 1, 0)) sum += *(volatile char *)object.dlfo_eh_frame;
    puts("has read"); fflush(stdout);
    _Exit(0);
}
int main(void) {
    struct sigaction action = {0};
    struct itimerval often = {{0, 200}, {0, 200}};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    puts("started"); fflush(stdout);
    sigaction(SIGALRM, &action, 0);
    getchar();
    setitimer(ITIMER_REAL, &often, 0);
    for (unsigned n = 1;;) n = leaf(n);
}
