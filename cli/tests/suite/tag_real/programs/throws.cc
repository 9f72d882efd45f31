// Exceptions through frames with destructors: through deep stacks, rethrown, caught in the middle,
// from constructors and destructors, and through code of the library.
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

static long alive, destroyed;
struct Local {
    std::string text;
    NOINLINE explicit Local(int n) : text(20, 'a' + n % 26) { alive++; }
    NOINLINE ~Local() { alive--; destroyed++; }
};
struct Other : std::runtime_error { using std::runtime_error::runtime_error; };

NOINLINE static int thrower(int n) {
    if (n % 3 == 0) throw std::runtime_error("plain");
    if (n % 3 == 1) throw Other("other");
    throw n;
}
NOINLINE static int deep(int n, int kind) {
    Local local(n);
    return n > 0 ? deep(n - 1, kind) + 1 : thrower(kind);
}
NOINLINE static int rethrow(int n) {
    Local local(n);
    try { return deep(n, n); } catch (Other &) { throw; }
}
NOINLINE static int middle(int n) {
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        try { sum += rethrow(n + i); } catch (std::exception &e) { sum += e.what()[0]; }
    }
    return sum;
}
struct Half {
    Local first;
    NOINLINE explicit Half(int n) : first(n) { if (n & 1) thrower(n); }
};
NOINLINE static void build(int n) { Half half(n); }
struct Base { virtual ~Base() {} virtual int act(int n) = 0; };
struct Thrower : Base { int act(int n) override { return thrower(n); } };
struct Quiet : Base { int act(int n) override { return n; } };
NOINLINE static int virtually(Base &base, int n) { return base.act(n) + 1; }
NOINLINE static int nothrow_at_end(int n) noexcept {
    try { return middle(n); } catch (int value) { return value; }
}

int main() {
    long sum = 0, caught = 0;
    Thrower thrower_object;
    Quiet quiet;
    for (int i = 0; i < 60; i++) {
        sum += nothrow_at_end(i % 20);
        try { build(i); } catch (...) { caught++; }
        try { sum += virtually(i & 4 ? (Base &)thrower_object : quiet, i); } catch (...) { caught++; }
        std::vector<int> numbers{5, 3, i, 9};
        try {
            std::sort(numbers.begin(), numbers.end(), [i](int a, int b) {
                if (i % 7 == 0) thrower(i);
                return a < b;
            });
        } catch (std::exception &) { caught++; } catch (int) { caught++; }
        sum += numbers[0];
    }
    std::printf("%ld %ld %ld %ld\n", sum, caught, alive, destroyed);
    return alive == 0 ? 3 : 1;
}
