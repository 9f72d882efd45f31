// Saves and loads the state of the processor, and clears a line if the processor has `clzero`. A second argument asks for
// `xsave`. Prints where.
#include <stdio.h>

static char area[4096] __attribute__((aligned(64)));

int main(int count, char **words) {
    printf("%lx\n", (unsigned long)area);
    __asm__ volatile("fxsave (%0)\n fxrstor (%0)" ::"r"(area) : "memory");
    if (count > 1)
        __asm__ volatile("clzero" ::"a"(area + 1024 + 70) : "memory");
    // The aligned address is in another register, so it is known otherwise.
    if (count > 1)
        __asm__ volatile("mov %%rax, %%rdx\n and $-64, %%rdx\n movb $1, 5(%%rdx)\n clzero" ::"a"(area + 2048 + 1)
                         : "rdx", "memory");
    // x87, SSE and AVX.
    if (count > 2)
        __asm__ volatile("xsave (%0)" ::"r"(area + 2560), "a"(7), "d"(0) : "memory");
    fflush(stdout);
    return words[0] == 0;
}
