// A library to be preloaded: when a process ends, it appends its name and its processor time in nanoseconds
// to the file that OWN_TIME names.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
__attribute__((destructor)) static void append_time(void) {
    struct timespec used;
    const char *path = getenv("OWN_TIME");
    FILE *file = path ? fopen(path, "a") : 0;
    if (!file) return;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    fprintf(file, "%s %lld\n", program_invocation_short_name, used.tv_sec * 1000000000ll + used.tv_nsec);
    fclose(file);
}
