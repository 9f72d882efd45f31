// Overwrites words of all memory that it shares with others and that is in use, while it goes on with its work.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define PAGE 4096
static volatile long counted[512];
__attribute__((noinline, noclone)) static void counts(long times) {
    for (long i = 0; i < times; i++) counted[i % 512] += i;
}
static uint64_t state = 88172645463325252ull;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; return state ^= state << 17; }
static struct { uintptr_t start, end; } shared[256];
// Overwrites four words of every second used page.
static long forges(int count) {
    long forged = 0;
    for (int i = 0; i < count; i++) {
        size_t pages = (shared[i].end - shared[i].start) / PAGE;
        unsigned char *used = malloc(pages);
        if (!used || mincore((void *)shared[i].start, pages * PAGE, used)) continue;
        for (size_t page = 0; page < pages; page++) {
            // The first pages have no words of accesses, but what the threads wait for.
            if (page < 64 || !(used[page] & 1) || next() % 2) continue;
            for (int word = 0; word < 4; word++, forged++) {
                uint32_t *place = (uint32_t *)(shared[i].start + page * PAGE + next() % PAGE / 4 * 4);
                *place = (uint32_t)next() >> (next() % 32);
            }
        }
        free(used);
    }
    return forged;
}
int main(void) {
    static char line[4096];
    int count = 0;
    long forged = 0;
    counts(2000000);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps) && count < 256) {
        char mode[5];
        if (sscanf(line, "%lx-%lx %4s", &shared[count].start, &shared[count].end, mode) == 3 && !strcmp(mode, "rw-s")) count++;
    }
    for (int turn = 0; turn < 10; turn++) {
        forged += forges(count);
        counts(1000000);
    }
    long sum = 0;
    for (int i = 0; i < 512; i++) sum += counted[i];
    printf("%ld %d\n", sum, forged > 100);
    return 5;
}
