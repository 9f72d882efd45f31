// Writes known values between instructions that use gs, which run natively up to the next system call.
#include <stdio.h>
#include <unistd.h>
#define TURNS 5
#define WRITES 1000
static volatile long written[WRITES];
static long word = 7;
__attribute__((noinline, noclone)) static void writes(long turn) {
    for (long i = 0; i < WRITES; i++) written[i] = turn + i;
}
int main(void) {
    long sum = 0, value;
    for (long turn = 0; turn < TURNS; turn++) {
        writes(turn);
        // The base of gs is 0.
        __asm__ volatile("movq %%gs:(%1), %0" : "=r"(value) : "r"(&word));
        sum += value + (getppid() > 0);
    }
    writes(sum);
    printf("%ld\n", sum);
    return 0;
}
