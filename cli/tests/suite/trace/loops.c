/* A loop of many blocks with one access, whose registers are computed in several steps and lead back to its start. */
#include <stdio.h>

enum { TIMES = 400000 };

static unsigned char bytes[1 << 16];

int main(void) {
    unsigned long base = (unsigned long)bytes, at = 0, times = TIMES, last;
    __asm__ volatile("1: movzbl (%[base],%[at]),%k[last]\n\t"
                     "shl $2,%[base]\n\t"
                     "add $12,%[base]\n\t"
                     "shr $2,%[base]\n\t"
                     "sub $3,%[base]\n\t"
                     "and $-1,%[base]\n\t"
                     "jmp 2f\n2: jmp 3f\n3: jmp 4f\n4: jmp 5f\n5: jmp 6f\n6: jmp 7f\n7: jmp 8f\n\t"
                     "8: jmp 9f\n9: jmp 10f\n10: jmp 11f\n11: jmp 12f\n12: jmp 13f\n13: jmp 14f\n\t"
                     "14: add $5,%[at]\n\t"
                     "shl $3,%[at]\n\t"
                     "and $0x7fff8,%[at]\n\t"
                     "shr $3,%[at]\n\t"
                     "dec %[times]\n\t"
                     "jnz 1b"
                     : [base] "+r"(base), [at] "+r"(at), [times] "+r"(times), [last] "=&r"(last)
                     :
                     : "memory", "cc");
    printf("%lx %lx\n", (unsigned long)bytes, at);
    return base != (unsigned long)bytes;
}
