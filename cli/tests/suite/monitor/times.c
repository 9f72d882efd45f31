// Two loops with calls through a pointer. The first one executes more instructions. The second one takes several times as
// long, because its divisions wait for each other. In between the program sleeps.
#include <time.h>

__attribute__((noinline)) long quick(long n) {
    __asm__ volatile(
        ".rept 5\n lea 1(%0), %%rcx\n lea 2(%0), %%rdx\n lea 3(%0), %%rsi\n lea 4(%0), %%rdi\n .endr"
        : : "r"(n) : "rcx", "rdx", "rsi", "rdi");
    return n + 1;
}

__attribute__((noinline)) long slow(long n) {
    // A remainder is below the divisor, so no quotient is too large.
    long rest = 1;
    __asm__ volatile(".rept 16\n div %2\n .endr" : "+a"(n), "+d"(rest) : "r"(3L << 60) : "cc");
    return rest;
}

long (*volatile call[2])(long) = { quick, slow };

int main(void) {
    long sum = 0;
    for (long i = 0; i < 8000000; i++) sum += call[0](i);
    nanosleep(&(struct timespec){ 0, 300000000 }, 0);
    for (long i = 0; i < 3000000; i++) sum += call[1](i);
    return sum == 1;
}
