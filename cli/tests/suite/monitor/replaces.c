// A thread executes a function often, then slowly, while another thread replaces the function's code and counts that. The
// first one must never execute code that is older than the count that it has read before.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 4, PAGE = 4096, LONG = 8 << 20 };
static unsigned char buffer[LONG];
static volatile long iterations, length = 1, version, is_over;
static long (*volatile function)(void);

static void *work(void *unused) {
    long errors = 0;
    while (!is_over) {
        unsigned char *to = buffer;
        long bytes = length;
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory");
        long seen = version;
        errors += function() < seen;
        iterations++;
    }
    return (void *)errors;
}

int main(void) {
    int file = memfd_create("code", 0);
    for (int at = 0; at <= ROUNDS; at++) {
        // mov eax, at; ret
        unsigned char code[PAGE] = { 0xb8, at, 0, 0, 0, 0xc3 };
        if (write(file, code, PAGE) != PAGE) return 1;
    }
    int protection = PROT_READ | PROT_EXEC;
    void *page = mmap(0, PAGE, protection, MAP_PRIVATE, file, 0);
    function = (long (*)(void))page;
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    for (int round = 1; round <= ROUNDS; round++) {
        while (iterations < 100000L << 2 * round) usleep(1000);
        length = LONG;
        usleep(3000);
        mmap(page, PAGE, protection, MAP_PRIVATE | MAP_FIXED, file, (long)round * PAGE);
        version = round;
        long before = iterations;
        while (iterations < before + 2) usleep(1000);
        length = 1;
    }
    is_over = 1;
    void *errors;
    pthread_join(thread, &errors);
    printf("%ld\n", (long)errors);
    return 0;
}
