/* Works until it is killed. */
#include <stdio.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
NOINLINE unsigned leaf(unsigned n) { __asm__ volatile(""); return n * 2654435761u ^ (n >> 7); }
NOINLINE unsigned work(unsigned n) { for (int i = 0; i < 40; i++) n = leaf(n); __asm__ volatile(""); return n + 1; }
int main(void) {
    puts("started"); fflush(stdout);
    alarm(120);
    for (unsigned n = 1;;) n = work(n);
}
