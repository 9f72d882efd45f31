//! Sources of programs whose blocks are tagged.

/// Blocks of every kind: jump tables, nested loops, blocks of a few bytes, tail calls, jumps across
/// frames, gotos.
pub const SHAPES: &str = r#"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#define N __attribute__((noinline, noclone))
static volatile int sink;
N int shape_switch(int n, int k) {
    switch (n) {
    case 0: return k + 7; case 1: return k * 3; case 2: sink = k; return 9; case 3: return k - 5;
    case 4: return k << 3; case 5: return k ^ 21; case 6: sink = n; return k / 3; case 9: return 0;
    default: return 2;
    }
}
N long shape_nested(int a, int b) {
    long s = 0;
    for (int i = 0; i < a; i++)
        for (int j = 0; j < b; j++) {
            if ((i ^ j) & 1) s += i; else if (j % 3 == 0) s -= j; else continue;
            s ^= 3;
        }
    return s;
}
N int shape_tiny(int n) { return n > 3 ? n - 1 : n < 0 ? -n : 3; }
N int shape_collatz(unsigned n) { int s = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; s++; } return s; }
static jmp_buf env;
N void shape_jumper(int n) { if (n > 2) longjmp(env, n); sink += n; }
N int shape_jumps(int n) {
    volatile int c = 0;
    int r = setjmp(env);
    if (r && ++c > 3) return c;
    for (int i = 0; i < n; i++) shape_jumper(i);
    return c;
}
N int shape_odd(int n);
N int shape_even(int n) { if (n == 0) return 1; return shape_odd(n - 1); }
N int shape_odd(int n) { if (n == 0) return 0; return shape_even(n - 1); }
N long shape_fib(long n) { return n < 2 ? n : shape_fib(n - 1) + shape_fib(n - 2); }
N int shape_machine(const unsigned char *p) {
    static const void *const t[] = {&&add, &&dec, &&jnz, &&out, &&halt};
    int a = 0, c = 5;
    goto *t[*p];
add: a += c; p++; goto *t[*p];
dec: c--; p++; goto *t[*p];
jnz: if (c) p -= 2; else p++; goto *t[*p];
out: sink = a; p++; goto *t[*p];
halt: return a;
}
N int shape_offsets(int n) {
    static const int t[] = {&&a - &&a, &&b - &&a, &&c - &&a};
    int s = 0;
    for (int i = 0; i < n; i++) {
        goto *(&&a + t[i % 3]);
        a: s += 1; continue;
        b: s += sink & 1; continue;
        c: s ^= i;
    }
    return s;
}
N int shape_words(const char *s) {
    int n = 0, in = 0;
    for (; *s; s++) { if (*s == ' ' || *s == '\t') in = 0; else if (!in) { in = 1; n++; } }
    return n;
}
N static int shape_compare(const void *a, const void *b) { int x = *(int *)a, y = *(int *)b; return x < y ? -1 : x > y; }
N int shape_sorts(void) {
    int a[100], s = 0;
    for (int i = 0; i < 100; i++) a[i] = i * 7919 % 101;
    qsort(a, 100, sizeof *a, shape_compare);
    for (int i = 0; i < 100; i++) if (a[i] & 4) s += a[i] * i;
    return s;
}
N double shape_power(double x, int n) { double r = 1; do { if (n & 1) r *= x; x *= x; } while (n >>= 1); return r > 1e9 ? 1e9 : r; }
N int shape_device(int n) {
    int s = 0;
    switch (n & 3) { do { case 0: s += n; case 3: s ^= 5; case 2: s += 2; case 1: s--; } while ((n -= 4) > 0); }
    return s;
}
N int shape_irreducible(int n, int k) {
    int s = 0;
    if (k) goto mid;
top: s += n; if (s > 1000) return s;
mid: s ^= 3; sink = s; n--; if (n > 0) goto top;
    return s;
}
N char *shape_copy(char *d, const char *s) { char *r = d; while ((*d++ = *s++)) ; return r; }
N void shape_die(const char *why) { fprintf(stderr, "%s\n", why); exit(3); }
N int shape_checks(int n) { if (n == 12345) shape_die("no"); if (n == 54321) shape_die("neither"); return n + 1; }
int main(int count, char **words) {
    (void)words;
    long s = 0; char b[64];
    for (int i = -3; i < 40; i++) {
        s += shape_switch(i % 11, i) + shape_nested(i, 7) + shape_tiny(i) + shape_checks(i);
        s += shape_device(i + 5) + shape_irreducible(i, i & 1);
    }
    for (unsigned i = 1; i < 50; i++) s += shape_collatz(i);
    s += shape_jumps(6) + shape_even(77) + shape_odd(10) + shape_fib(12);
    s += shape_machine((const unsigned char *)"\0\1\2\3\4") + shape_offsets(17);
    s += shape_words("the quick  brown\tfox jumps over") + shape_sorts() + (long)shape_power(1.5, count + 20);
    printf("%ld %s\n", s, shape_copy(b, "text"));
    return (int)(s & 63);
}
"#;

/// Landing pads in loops, of destructors and of several kinds.
pub const THROWING: &str = r#"
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
#define N __attribute__((noinline))
struct Guard { int v; ~Guard() { std::printf("%d ", v); } };
N int thrower(int n) { if (n % 3 == 0) throw std::runtime_error("three"); if (n % 5 == 0) throw n; return n * 2; }
N int inner(int n) {
    Guard g{n}; int s = 0;
    for (int i = n; i < n + 3; i++) { try { s += thrower(i); } catch (int k) { s -= k; continue; } s++; }
    return s;
}
N int outer(int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        try { Guard a{100 + i}; s += inner(i); }
        catch (std::exception &e) { s += (int)std::string(e.what()).size(); }
        catch (...) { s--; }
    }
    return s;
}
N std::string built(int n) {
    std::map<std::string, std::vector<int>> m; std::string s;
    for (int i = 0; i < n; i++) m[std::to_string(i % 7)].push_back(i);
    for (auto &[k, v] : m) { s += k; for (int x : v) if (x & 1) s += std::to_string(x); }
    return s;
}
int main() { std::printf("%d %s\n", outer(20), built(40).c_str()); return 0; }
"#;

/// A nested loop and a loop over a list: 30 times 20 iterations, and 1000.
pub const NESTED: &str = r#"
#include <stdio.h>
#define N __attribute__((noipa))
static volatile int sink;
N int nested(int a, int b) { for (int i = 0; i < a; i++) for (int j = 0; j < b; j++) sink += i ^ j; return sink; }
struct item { struct item *next; };
N int chain(const struct item *at) { int n = 0; while (at) { sink = n++; at = at->next; } return n; }
static struct item items[1000];
int main(void) {
    for (int i = 0; i < 999; i++) items[i].next = &items[i + 1];
    printf("%d %d\n", nested(30, 20), chain(items));
    return 0;
}
"#;

/// Two threads in one loop.
pub const TWO_THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
__attribute__((noipa)) long turn(long n) { long s = 0; do { s += n; __asm__ volatile("" : "+r"(s)); } while (--n > 0); return s; }
static void *run(void *n) { return (void *)turn((long)n); }
int main(void) {
    pthread_t t; void *other;
    pthread_create(&t, 0, run, (void *)3000000L);
    long own = turn(3000000L);
    pthread_join(t, &other);
    printf("%d\n", own == (long)other);
    return 0;
}
"#;

/// A loop that runs until the input ends.
pub const ENDLESS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static atomic_int stop;
static long wrong;
__attribute__((noipa)) long spin(void) {
    unsigned long a = 1, b = 1, n = 0;
    while (!stop) { a = a * 6364136223846793005u + 1; if (n++ & 1) b ^= a; else b ^= a; }
    for (unsigned long c = 1; n--;) { c = c * 6364136223846793005u + 1; b ^= c; }
    return b != 1;
}
static void *run(void *unused) { (void)unused; wrong += spin(); return 0; }
int main(void) {
    pthread_t t;
    puts("started"); fflush(stdout);
    pthread_create(&t, 0, run, 0);
    getchar();
    stop = 1;
    pthread_join(t, 0);
    printf("%ld\n", wrong);
    return 0;
}
"#;
