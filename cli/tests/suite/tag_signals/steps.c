// Executes calls of its functions in single steps, with the trap flag. Says how many steps there were, and the sum of
// the addresses at which they ended, from the beginning of the program.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

extern char __executable_start;
static volatile unsigned long steps, sum;
static void handler(int number, siginfo_t *information, void *context) {
    uintptr_t rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)number; (void)information;
    steps++;
    sum += rip - (uintptr_t)&__executable_start;
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
    printf("%lu %lu\n", steps, sum);
    return 5;
}
