// Ends its first thread while two others go on, until a byte arrives on standard input, or one of them has done as many
// rounds as the first argument says.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int is_over;
static long rounds_to_do;

__attribute__((noinline)) long leaf(long value) {
    __asm__ volatile("");
    return value * 3 + 1;
}

static void *computes(void *unused) {
    long value = 0, rounds = 0;
    for (; !is_over; rounds++) value = leaf(value);
    printf("computed %d\n", rounds > 0);
    return 0;
}

static void *waits(void *other) {
    char byte;
    for (long value = 0, round = 0; round < rounds_to_do; round++) value = leaf(value);
    if (!rounds_to_do && read(0, &byte, 1) != 1) exit(1);
    is_over = 1;
    pthread_join(*(pthread_t *)other, 0);
    printf("waited\n");
    exit(17);
}

int main(int count, char **words) {
    rounds_to_do = count > 1 ? atol(words[1]) : 0;
    static pthread_t first, second;
    pthread_create(&first, 0, computes, 0);
    pthread_create(&second, 0, waits, &first);
    pthread_exit(0);
}
