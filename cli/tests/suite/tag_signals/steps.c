// Executes calls of its functions in single steps, with the trap flag. Says where each step ended, from the beginning of
// the program, and the code of its signal.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

extern char __executable_start;
#define MOST 10000
static volatile unsigned steps;
static struct { unsigned long at; int code; } all[MOST];
static void handler(int number, siginfo_t *information, void *context) {
    uintptr_t rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)number;
    if (steps < MOST) {
        all[steps].at = rip - (uintptr_t)&__executable_start;
        all[steps].code = information->si_code;
    }
    steps++;
}

__attribute__((noinline)) int leaf(int n) { __asm__ volatile(""); return n * 3 + 1; }
__attribute__((noinline)) int tail(int n) { __asm__ volatile(""); return leaf(n ^ 1); }
__attribute__((noinline)) int outer(int n) {
    int sum = 0;
    for (int i = 0; i < 2; i++) sum += leaf(i + n);
    return sum + tail(n) + 1;
}
int (*volatile call)(int) = outer;

int main(void) {
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGTRAP, &action, 0);
    call(1);
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "cc", "memory");
    for (int i = 0; i < 100; i++) call(i);
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "cc", "memory");
    for (unsigned i = 0; i < steps && i < MOST; i++) printf("%lx %d\n", all[i].at, all[i].code);
    printf("%u steps\n", steps);
    return 5;
}
