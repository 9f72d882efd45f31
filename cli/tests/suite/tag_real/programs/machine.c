// Interpreters: one jumps from each instruction to the next by a table of labels, one has a switch; both call
// functions. Switches of every form: dense, sparse, with returns and calls in each case.
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
static volatile long work;
NOINLINE static long add(long a, long b) { work++; return a + b; }
NOINLINE static long multiply(long a, long b) { return a * b % 1000003; }
NOINLINE static long negate(long a) { return -a; }

NOINLINE static long threaded(const unsigned char *code, long a) {
    static const void *const labels[] = { &&op_add, &&op_mul, &&op_neg, &&op_loop, &&op_end, &&op_skip };
    const unsigned char *pc = code;
    long turns = 3;
#define NEXT goto *labels[*pc++]
    NEXT;
op_add: a = add(a, *pc++); NEXT;
op_mul: a = multiply(a, *pc++); NEXT;
op_neg: a = negate(a); NEXT;
op_loop: if (--turns) pc = code; NEXT;
op_skip: pc++; NEXT;
op_end: return a;
}
NOINLINE static long switched(const unsigned char *pc, long a) {
    const unsigned char *code = pc;
    long turns = 3;
    for (;;) {
        switch (*pc++) {
        case 0: a = add(a, *pc++); break;
        case 1: a = multiply(a, *pc++); break;
        case 2: a = negate(a); break;
        case 3: if (--turns) pc = code; break;
        case 4: return a;
        case 5: pc++; break;
        case 6: a ^= 5; break;
        case 7: a += 11; break;
        default: return -1;
        }
    }
}
NOINLINE static long dispatched(int n, long a) {
    switch (n) {
    case 0: return add(a, 1);
    case 1: return multiply(a, 3);
    case 2: return negate(a);
    case 3: return add(a, a);
    case 4: return multiply(a, a);
    case 5: return switched((const unsigned char *)"\2\4", a);
    case 6: return a;
    case 7: return 0;
    case 8: return 1;
    default: return add(a, n);
    }
}
NOINLINE static const char *named(int n) {
    switch (n) {
    case 1: return "one"; case 5: return "five"; case 60: return "sixty"; case 700: return "many";
    case 8000: return "more"; case 90000: return "most"; default: return "?";
    }
}
NOINLINE static int bytes_only(int n) {
    switch (n) { case 0: return 4; case 1: return 9; case 2: return 1; case 3: return 7; case 4: return 2; case 5: return 0; }
    return 3;
}

int main(void) {
    static const unsigned char code[] = { 0, 3, 1, 7, 2, 5, 9, 3, 0, 1, 4 };
    long sum = 0;
    for (int i = 0; i < 300; i++) {
        sum += threaded(code, i) + switched(code, i) + dispatched(i % 11, i) + bytes_only(i % 7);
        sum += (long)strlen(named(i % 9 * 1000));
    }
    printf("%ld %ld\n", sum, work);
    return 6;
}
