// A signal handler throws an exception that main catches. The fault is at the first instruction of
// a function.
#include <csignal>
#include <cstdio>

struct Pair { long first, second; };
__attribute__((noipa)) long get(Pair *pair) { return pair->second; }
__attribute__((noipa)) static void handler(int) { throw 42; }
int main() {
    std::signal(SIGSEGV, handler);
    Pair pair{1, 2};
    long sum = get(&pair);
    try { sum += get(nullptr); } catch (int thrown) { sum += thrown; }
    std::printf("%ld\n", sum);
    return 0;
}
