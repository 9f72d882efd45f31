// Executes always the same instructions: loops, calls, repeated string instructions, masked accesses and gathers (with an
// argument), system calls, a signal handler, and a copy to a page that a handler makes writable. `_start` has no C library.
typedef unsigned long word;

static word buffer[2048] __attribute__((aligned(4096)));
static char pages[8192] __attribute__((aligned(4096)));
static volatile word handled;

static word call(word number, word a, word b, word c, word d) {
    register word fourth __asm__("r10") = d;
    word result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return result;
}

static void handles(int number) {
    handled += number;
    if (number == 11) call(10, (word)pages + 4096, 4096, 3, 0); // mprotect
}

void restores(void);
__asm__(".text\nrestores: mov $15, %eax\n syscall\n");

static void set_handler(int number) {
    word action[4] = {(word)handles, 0x04000000, (word)restores, 0}; // SA_RESTORER
    call(13, number, (word)action, 0, 8);
}

__attribute__((noinline)) static word sums(word times) {
    word sum = 0;
    for (word i = 0; i < times; i++) {
        sum += buffer[i * 7 % 2048] * 3;
        if (sum & 4) buffer[i % 1024] += sum;
    }
    return sum;
}

__attribute__((noinline)) static word recurses(word depth) {
    return depth < 2 ? depth : recurses(depth - 1) + recurses(depth - 2);
}

static void copies(void *to, const void *from, word bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}

__attribute__((noinline)) static void gathers(void) {
    __asm__ volatile("vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n vpsrlq $33, %%ymm1, %%ymm2\n vpslld $31, %%ymm1, %%ymm1\n"
                     "vpsllq $1, %%ymm1, %%ymm3\n vpxor %%ymm4, %%ymm4, %%ymm4\n vpsrld $20, %%ymm2, %%ymm2\n"
                     "vmovdqa %%ymm1, %%ymm5\n vpgatherdd %%ymm5, (%0,%%ymm2,4), %%ymm4\n"
                     "vpmaskmovd %%ymm4, %%ymm1, 64(%0)\n vpmaskmovd 32(%0), %%ymm3, %%ymm4\n vzeroupper\n" ::"r"(buffer)
                     : "memory", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5");
}

void body(word *stack) {
    word sum = 0;
    for (int i = 0; i < 2048; i++) buffer[i] = i * 5;
    set_handler(10);
    set_handler(11);
    // Two arguments ask for more, and three for some 90 million instructions.
    int more = stack[0] > 2, times = stack[0] > 3 ? 2500 : more ? 60 : 24, faults = 0;
    for (int i = 0; i < times; i++) {
        sum += sums(more ? 3000 : 100);
        copies(buffer + 100, buffer + 900, 700);
        if (stack[0] > 1) gathers();
        sum += recurses(8);
        if (i % 8 == 3) call(62, call(39, 0, 0, 0, 0), 10, 0, 0); // kill(getpid)
        if (i % 32 == 20) {
            faults++;
            call(10, (word)pages + 4096, 4096, 1, 0);
            copies(pages + 4096 - 64, buffer, 200);
        }
    }
    call(1, 1, (word) "done\n", 5, 0);
    call(231, sum == 0 ? 1 : handled % 10 != faults % 10 ? 2 : 0, 0, 0, 0);
}

__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call body\n");
