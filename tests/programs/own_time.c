// Preloaded: at its end a process appends its name and the processor time that it has used, in nanoseconds,
// to the file OWN_TIME.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
__attribute__((destructor)) static void say(void) {
    struct timespec used;
    const char *path = getenv("OWN_TIME");
    FILE *file = path ? fopen(path, "a") : 0;
    if (!file) return;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    fprintf(file, "%s %lld\n", program_invocation_short_name, used.tv_sec * 1000000000ll + used.tv_nsec);
    fclose(file);
}
