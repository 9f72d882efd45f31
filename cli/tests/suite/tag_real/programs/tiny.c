// Adjacent functions of one to a few bytes.
#include <stdio.h>

#define TINY __attribute__((noipa))
static long state;
TINY void nothing(void) {}
TINY int zero(void) { return 0; }
TINY int one(void) { return 1; }
TINY long same(long n) { return n; }
TINY long next(long n) { return n + 1; }
TINY int narrow(int n) { return n; }
TINY void nothing_more(void) {}
TINY long load(void) { return state; }
TINY void store(long n) { state = n; }
TINY void raise(void) { state++; }
TINY double half(double n) { return n / 2; }
TINY long sum(long a, long b) { return a + b; }
TINY void call(void) { nothing(); }
TINY long call_same(long n) { return same(n); }
TINY long twice(long n) { return same(n) + next(n); }
TINY long pick(long n) { if (n & 1) return 5; return n; }
TINY void *self(void) { return (void *)self; }
TINY long last(const long *n) { return n[3]; }
__asm__(".text\n.globl a1\na1: ret\n.type a1,@function\n.size a1,1\n.globl a2\na2: nop\nret\n.type a2,@function\n.size a2,2\n"
        ".globl a3\na3: ret\n.type a3,@function\n.size a3,1\n.globl a4\na4: jmp same\n.type a4,@function\n.size a4,.-a4\n"
        ".globl a5\na5: xor %eax,%eax\nret\n.type a5,@function\n.size a5,.-a5\n");
void a1(void), a2(void), a3(void);
long a4(long), a5(void);

int main(void) {
    static void (*const nothings[])(void) = { nothing, nothing_more, call, raise, a1, a2, a3 };
    long total = 0, numbers[4] = { 1, 2, 3, 4 };
    for (long i = 0; i < 200; i++) {
        nothings[i % 7]();
        store(load() + i);
        total += zero() + one() + same(i) + next(i) + narrow((int)i) + sum(i, 3) + call_same(i) + twice(i);
        total += pick(i) + (self() != 0) + last(numbers) + (long)half((double)i) + a4(i) + a5();
    }
    printf("%ld %ld\n", total, state);
    return 8;
}
