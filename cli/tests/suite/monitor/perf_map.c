// Works for a third of a second of processor time, prints its number, and with an argument writes a perf map of its own.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;

__attribute__((noinline)) static void works(unsigned long times) {
    for (unsigned long at = 0; at < times; at++) sum += at;
}

int main(int count, char **words) {
    (void)words;
    while (clock() < CLOCKS_PER_SEC / 3) works(100000ul * count);
    if (count > 1) {
        char name[64];
        snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)getpid());
        FILE *file = fopen(name, "w");
        if (!file || fputs("1000 10 own\n", file) < 0 || fclose(file)) return 1;
    }
    printf("%d\n", (int)getpid());
    return 7;
}
