// Functions that begin with the head of a loop, and functions that call or jump to themselves.
#include <stdio.h>

#define NOINLINE __attribute__((noipa))
static volatile long work;
NOINLINE void tick(void) { work++; }
NOINLINE long halve(long n) { do { n = (n & 1) ? n - 1 : n / 2; } while (n > 3); return n; }
NOINLINE long find(const char *s) { while (*s++ != 'x'); return *s; }
NOINLINE void ticks(long n) { do tick(); while (--n > 0); }
NOINLINE long spin(volatile long *n) { do --*n; while (*n > 0); return *n; }
NOINLINE long collatz(long n) { if (n == 1) return 0; return 1 + collatz(n & 1 ? 3 * n + 1 : n / 2); }
NOINLINE long gcd(long a, long b) { return b ? gcd(b, a % b) : a; }
NOINLINE void countdown(long n) { if (n) { tick(); countdown(n - 1); } }
NOINLINE long nested(long n) { long s = 0; do { long m = n; do { s += m; } while (--m); } while (--n); return s; }
// A loop of a few bytes at the entry.
__asm__(".text\n.globl tight\n.type tight,@function\ntight: dec %rdi\njnz tight\nlea 7(%rdi),%rax\nret\n.size tight,.-tight");
__asm__(".globl tighter\n.type tighter,@function\ntighter: loop tighter\nret\n.size tighter,.-tighter");
__asm__(".globl self_tail\n.type self_tail,@function\nself_tail: test %rdi,%rdi\nje 1f\ndec %rdi\njmp self_tail\n1: mov %rdi,%rax\nret\n.size self_tail,.-self_tail");
long tight(long), self_tail(long);

int main(void) {
    long sum = 0;
    for (long i = 1; i < 150; i++) {
        volatile long n = i;
        sum += halve(i * 1000) + find("aaaxy") + spin(&n) + collatz(i) + gcd(i * 36, 84) + nested(i % 9 + 1);
        sum += tight(i) + self_tail(i);
        long count = i;
        __asm__ volatile("call tighter" : "+c"(count) : : "memory", "cc");
        sum += count;
        ticks(i % 7);
        countdown(i % 13);
    }
    printf("%ld %ld\n", sum, work);
    return 7;
}
