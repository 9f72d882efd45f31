/* The library in which the program works if it is told to load one. */
#define NOINLINE __attribute__((noinline))
NOINLINE unsigned library_leaf(unsigned n) { __asm__ volatile(""); return n * 2654435761u ^ (n >> 7); }
NOINLINE unsigned library_work(unsigned n) {
    for (int i = 0; i < 40; i++) n = library_leaf(n);
    __asm__ volatile("");
    return n + 1;
}
