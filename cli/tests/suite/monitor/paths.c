// Paths that turn hot, and others later: a small interpreter, recursion, calls through pointers, jumps out of deep calls.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf out;
static long turns;

__attribute__((noinline)) static long twice(long x) { return 2 * x + 1; }
__attribute__((noinline)) static long half(long x) { return x / 2 - 3; }
static long (*volatile chosen)(long) = twice;

__attribute__((noinline)) static long interpret(const char *program, long x) {
    for (const char *at = program; ; at++) {
        switch (*at) {
        case '+': x += 7; break;
        case '-': x -= 3; break;
        case '*': x = x * 5 & 0xffff; break;
        case '?': if (x & 1) at++; break;
        case 'c': x = chosen(x); break;
        case 'x': x ^= x >> 3; break;
        default: return x;
        }
    }
}

__attribute__((noinline)) static long fib(int n) {
    if (n < 2) return n;
    return fib(n - 1) + fib(n - 2);
}

__attribute__((noinline)) static void deep(int n) {
    if (n == 0) longjmp(out, 1);
    deep(n - 1);
    turns++;
}

// Branches lead elsewhere in the second half.
__attribute__((noinline)) static long drifts(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        if (i * 2 < n) sum += i;
        else if (i % 3) sum -= 2;
        else sum ^= i;
    }
    return sum;
}

static int compare(const void *one, const void *other) {
    int a = *(const int *)one, b = *(const int *)other;
    return a < b ? -1 : a > b;
}

int main(void) {
    static int numbers[20000];
    long x = 1;
    for (int round = 0; round < 4; round++) {
        chosen = round & 1 ? half : twice;
        for (int i = 0; i < 20000; i++) x = interpret("+c?-*x+?c-", x) & 0xfffff;
        printf("%ld %ld %ld\n", x, fib(23), drifts(200000));
        for (int i = 0; i < 2000; i++)
            if (!setjmp(out)) deep(20);
        for (int i = 0; i < 20000; i++) numbers[i] = (int)(i * 7919u % 20011u) ^ round;
        qsort(numbers, 20000, sizeof *numbers, compare);
        printf("%d %ld\n", numbers[777], turns);
    }
    return 0;
}
