// A program without libraries and with a stack of its own, so that all of its addresses are the same in every run: random
// updates of a table, a permutation of bytes, and copies by string instructions.
static unsigned long table[4096];
static unsigned char bytes[20000], copy[20000];
static unsigned long rng = 88172645463325252ul;
__attribute__((used, aligned(4096))) static unsigned char stack[8192];

static unsigned long next(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

__attribute__((noinline)) static unsigned long walk(unsigned long n) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) {
        unsigned long k = next() % 4096;
        table[k] += i;
        sum += table[k / 3];
    }
    return sum;
}

__attribute__((noinline)) static void fill(unsigned char seed) {
    for (int i = 0; i < 20000; i++) bytes[i] = bytes[(i * 7919 + seed) % 20000] + seed;
    unsigned long count = 2500;
    void *from = bytes, *to = copy;
    __asm__ volatile("rep movsq" : "+c"(count), "+S"(from), "+D"(to) : : "memory");
}

__attribute__((used)) static void begin(void) {
    unsigned long sum = walk(20000);
    for (int i = 0; i < 3; i++) fill(sum + i);
    sum += walk(20000);
    __asm__ volatile("syscall" : : "a"(231), "D"(0) : "memory");
    __builtin_unreachable();
}

__asm__(".globl _start\n_start: lea stack+8192(%rip), %rsp\ncall begin\n");
