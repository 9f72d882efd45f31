// Tail calls, which optimizing compilers turn into jumps: between functions, through pointers and fields of objects, on
// conditions, from functions of every size.
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define TAIL __attribute__((musttail)) return
#endif
#endif
#ifndef TAIL
#define TAIL return
#endif
typedef long step(long, long);
struct node { long value; step *act; struct node *next; };
static volatile long work;

NOINLINE long even(long n, long sum);
NOINLINE long odd(long n, long sum) { if (n == 0) return sum; TAIL even(n - 1, sum + 1); }
NOINLINE long even(long n, long sum) { if (n == 0) return -sum; TAIL odd(n - 1, sum + 2); }
NOINLINE long last(long n, long sum) { work++; return n ^ sum; }
NOINLINE long forward(long n, long sum) { TAIL last(sum, n); }
NOINLINE long onward(long n, long sum) { work += 3; TAIL forward(n + work, sum); }
NOINLINE long choose(long n, long sum) {
    if (n < 10) TAIL last(n, sum);
    if (n < 20) { work++; TAIL onward(sum, n); }
    if (n & 1) TAIL odd(n, sum);
    TAIL even(n, sum);
}
static step *const table[] = { odd, even, last, forward, onward, choose };
NOINLINE long by_table(long n, long sum) { TAIL table[n % 6](n, sum); }
NOINLINE long by_pointer(step *act, long n, long sum) { work++; return act(n, sum); }
NOINLINE long by_field(struct node *node, long sum) { return node->act(node->value, sum); }
NOINLINE long walk(struct node *node, long sum) {
    if (!node) return sum;
    return walk(node->next, by_field(node, sum));
}
NOINLINE long self(long n, long sum) { if (n <= 0) return sum; work++; return self(n - 1, sum + n); }
NOINLINE static void nothing(void) {}
NOINLINE void quiet(void) { nothing(); }
NOINLINE int out(const char *text) { return puts(text); }
NOINLINE void release(void *memory) { free(memory); }
static int compare(const void *a, const void *b) {
    return (int)last(*(const long *)a, 0) - (int)last(*(const long *)b, 0);
}

int main(void) {
    struct node nodes[6];
    long sum = 0, numbers[40];
    for (int i = 0; i < 6; i++) nodes[i] = (struct node){ i * 7, table[i], i < 5 ? nodes + i + 1 : 0 };
    for (long i = 0; i < 200; i++) {
        sum += by_table(i, sum & 63) + by_pointer(table[(i + 3) % 6], i & 31, i) + walk(nodes, i) + self(i & 15, 1);
        quiet();
        release(malloc(16));
        numbers[i % 40] = sum % 1000;
    }
    qsort(numbers, 40, sizeof *numbers, compare);
    out("end");
    printf("%ld %ld %ld\n", sum, work, numbers[20]);
    return 5;
}
