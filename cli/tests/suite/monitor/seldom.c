// Has code that is seldom executed, which the compiler moves out of its function.
#include <stdio.h>
static volatile int rare;
__attribute__((cold, noinline)) void seldom(int n) { rare += n; }
__attribute__((noinline)) int hot(int n) {
    int sum = n;
    if (n % 10 == 3) { seldom(n); sum += rare; seldom(n+1); sum *= 3; }
    return sum ^ 5;
}
int main(void) { int s = 0; for (int i = 0; i < 100; i++) s += hot(i); printf("%d\n", s); return 7; }
