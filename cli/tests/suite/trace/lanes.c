// Loads and stores elements under masks and at the addresses in vectors. Prints where, and a sum of what it has loaded. An argument asks
// for instructions of AVX-512.
#include <stdio.h>
#include <string.h>

static unsigned char area[16384] __attribute__((aligned(4096)));
static int signs[8] = {-1, 0, -1, -1, 0, 0, 0, -1};
static long long_signs[2] = {0, -1};
static int indexes[16] = {1, -1, 100, 2, 3, 4, 5, 6, 7, 8, 9, -200, 11, 12, 13, 14};
static long long_indexes[8] = {2, 5, -3, 7, 0, 1, 4, 9};
static unsigned char bytes[16] = {0x80, 0xff, 0x7f, 0, 0, 0x90};

static void avx2(void) {
    __asm__ volatile(
        "vmovdqu %1, %%ymm1\n vmovdqu %3, %%ymm3\n vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n"
        "vmaskmovps %%ymm0, %%ymm1, 64(%0)\n"
        "vpmaskmovd 128(%0), %%ymm1, %%ymm0\n"
        "vmovdqu %2, %%xmm2\n vpmaskmovq 256(%0), %%xmm2, %%xmm4\n"
        "vpxor %%xmm5, %%xmm5, %%xmm5\n vmaskmovps %%ymm0, %%ymm5, 320(%0)\n vpmaskmovq 320(%0), %%ymm5, %%ymm6\n"
        "vpgatherdd %%ymm1, 1024(%0,%%ymm3,4), %%ymm0\n"
        "vmovdqu %4, %%ymm3\n vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n"
        "vgatherqpd %%xmm1, 1024(%0,%%xmm3,8), %%xmm0\n"
        "vmovdqu %5, %%xmm1\n lea 512(%0), %%rdi\n maskmovdqu %%xmm1, %%xmm0\n" ::"r"(area),
        "m"(signs), "m"(*(const long(*)[2])long_signs), "m"(indexes), "m"(long_indexes), "m"(bytes)
        : "rdi", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6");
}

static void avx512(void) {
    __asm__ volatile(
        "mov $0x8003, %%eax\n kmovw %%eax, %%k1\n kxorw %%k2, %%k2, %%k2\n"
        "mov $0x8000000000000101, %%rax\n kmovq %%rax, %%k3\n"
        "vmovdqu32 2048(%0), %%zmm0%{%%k1%}%{z%}\n"
        "vmovdqu32 %%zmm0, 2048(%0)%{%%k1%}\n"
        "vmovdqu32 %%zmm0, 2048(%0)%{%%k2%}\n"
        "vmovdqu8 2112(%0), %%zmm1%{%%k3%}%{z%}\n"
        "vpaddd 2176(%0)%{1to16%}, %%zmm0, %%zmm0%{%%k1%}\n"
        "vpaddd 2176(%0)%{1to16%}, %%zmm0, %%zmm0%{%%k2%}\n"
        "vpcompressd %%zmm0, 2240(%0)%{%%k1%}\n"
        "vpexpandd 2240(%0), %%zmm0%{%%k1%}%{z%}\n"
        "vmovss 2304(%0), %%xmm0%{%%k1%}%{z%}\n"
        "vmovss 2304(%0), %%xmm0%{%%k2%}%{z%}\n"
        "vpermd 2368(%0), %%zmm0, %%zmm0%{%%k2%}\n"
        "vbroadcastf32x4 2432(%0), %%zmm0%{%%k1%}\n"
        "vmovdqu64 %1, %%zmm17\n mov %0, %%r15\n kmovw %%k1, %%k4\n"
        "vpscatterdd %%zmm0, 3072(%%r15,%%zmm17,4)%{%%k4%}\n"
        "kmovw %%k1, %%k4\n vpgatherdd 3072(%0,%%zmm17,4), %%zmm0%{%%k4%}\n"
        "vmovdqu64 %2, %%zmm3\n kxnorw %%k4, %%k4, %%k4\n"
        "vpgatherqq 3072(%0,%%zmm3,8), %%zmm0%{%%k4%}\n"
        "mov %0, %%rax\n kmovw %%k1, %%k4\n addr32 vpgatherdd 3072(%%eax,%%zmm17,2), %%zmm0%{%%k4%}\n" ::"r"(area),
        "m"(indexes), "m"(long_indexes)
        : "rax", "r15", "memory", "xmm0", "xmm1", "xmm3");
}

// A loop whose masks and indexes change.
static void loops(void) {
    int all[8], chosen[8];
    for (int time = 0; time < 3000; time++) {
        for (int lane = 0; lane < 8; lane++) {
            all[lane] = (time + 7 * lane) & 1023;
            chosen[lane] = time >> lane & 1 ? -1 : 0;
        }
        __asm__ volatile("vmovdqu %1, %%ymm3\n vmovdqu %2, %%ymm1\n vmovdqu %%ymm1, %%ymm2\n"
                         "vpgatherdd %%ymm1, 8192(%0,%%ymm3,4), %%ymm0\n vmaskmovps %%ymm0, %%ymm2, 12288(%0)" ::"r"(area),
                         "m"(all), "m"(chosen)
                         : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
    }
}

int main(int count, char **words) {
    printf("%lx\n", (unsigned long)area);
    fflush(stdout);
    avx2();
    if (count > 1)
        avx512();
    loops();
    unsigned sum = 0;
    for (unsigned at = 0; at < sizeof area; at++)
        sum = sum * 31 + ((unsigned char volatile *)area)[at];
    printf("%u\n", sum);
    return words[0] == 0;
}
