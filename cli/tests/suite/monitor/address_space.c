// Uses its address space as programs do that notice what else is mapped. The argument says how.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (1l << 20)

// A value of /proc/self/status in MiB.
static long status(const char *name) {
    char line[200];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, name, strlen(name))) value = atol(line + strlen(name) + 1) >> 10;
    }
    fclose(file);
    return value;
}

static void *works(void *bytes) {
    memset(bytes, 1, MIB);
    return bytes;
}

static int threads(int count) {
    pthread_t started[8];
    for (int i = 0; i < count; i++) {
        if (pthread_create(&started[i], 0, works, malloc(MIB))) return 1;
    }
    for (int i = 0; i < count; i++) pthread_join(started[i], 0);
    return 0;
}

// Limits the address space to 400 MiB, and uses 250 of them.
static int limits(void) {
    struct rlimit limit = {400 * MIB, 400 * MIB};
    if (setrlimit(RLIMIT_AS, &limit)) return 1;
    char *bytes = malloc(200 * MIB);
    if (!bytes) return 2;
    memset(bytes, 1, MIB);
    void *more = mmap(0, 50 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED) return 3;
    munmap(more, 50 * MIB);
    return threads(1) ? 4 : 0;
}

// Locks all memory, in each way, and compares what is locked and filled.
static int locks(void) {
    static const int ways[] = {MCL_CURRENT, MCL_CURRENT | MCL_FUTURE, MCL_FUTURE, MCL_CURRENT | MCL_ONFAULT, 7};
    char *bytes = mmap(0, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED || status("VmSize:") > 1000) return 1;
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        errno = 0;
        int result = mlockall(ways[i]);
        // On a machine whose limit is lower, without the right to exceed it, all are refused.
        printf("%d: %d %d", ways[i], result, errno);
        if (threads(2)) return 2;
        long locked = status("VmLck:"), used = status("VmRSS:");
        int is_current = ways[i] & MCL_CURRENT && !result;
        if (is_current && locked < 16) return 3;
        if (locked > 200 || used > 200) return 4;
        if (is_current && !(ways[i] & MCL_ONFAULT) && used < 16) return 5;
        munlockall();
        madvise(bytes, 16 * MIB, MADV_DONTNEED);
        printf(" %ld\n", status("VmLck:"));
    }
    printf("%d %d\n", mlockall(0), errno);
    return 0;
}

// Maps most of the addresses that MAP_32BIT gives.
static int low(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_32BIT;
    void *bytes = mmap(0, 900 * MIB, PROT_NONE, flags, -1, 0);
    return bytes == MAP_FAILED;
}

// Executes so many functions that no arena contains them all.
static int executes(void) {
    enum { FUNCTIONS = 150000, BYTES = 16 };
    int access = PROT_READ | PROT_WRITE;
    unsigned char *code = mmap(0, FUNCTIONS * BYTES, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < FUNCTIONS; i++) {
        // lea eax, [rdi + 1]; ret
        memcpy(code + i * BYTES, "\x8d\x47\x01\xc3", 4);
    }
    mprotect(code, FUNCTIONS * BYTES, PROT_READ | PROT_EXEC);
    int sum = 0;
    for (int i = 0; i < FUNCTIONS; i++) sum = ((int (*)(int))(code + i * BYTES))(sum);
    printf("%d\n", sum);
    return 0;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    int result = 9;
    if (!strcmp(how, "size")) {
        printf("%ld\n", status("VmSize:"));
        result = 0;
    }
    if (!strcmp(how, "limits")) result = limits();
    if (!strcmp(how, "locks")) result = locks();
    if (!strcmp(how, "low")) result = low();
    if (!strcmp(how, "executes")) result = executes();
    printf("%s %d\n", how, result);
    return result;
}
