// Ends by a fault at a function's first instruction, with a known value in a register, and prints the address.
#include <stdio.h>

__attribute__((noipa)) long get(const long *place) { return *place; }
int main(void) {
    printf("%lx\n", (unsigned long)get);
    fflush(stdout);
    __asm__ volatile("movabs $0x1111111111111111,%%r11\n xor %%edi,%%edi\n sub $128,%%rsp\n call get\n add $128,%%rsp"
        ::: "rax", "rdi", "r11", "cc", "memory");
    return 0;
}
