// crowd ROUNDS THREADS: in each round so many threads are alive at once, of which each calls a function 50 times.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static long sum;

__attribute__((noinline)) static long leaf(long x) {
    __asm__ volatile("");
    return x * 3 + 1;
}

static void *works(void *seed) {
    long own = 0;
    pthread_barrier_wait(&all);
    for (int i = 0; i < 50; i++) own += leaf((long)seed + i);
    pthread_mutex_lock(&lock);
    sum += own;
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int rounds = atoi(words[1]), threads = atoi(words[2]);
    pthread_t *started = malloc(threads * sizeof *started);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    pthread_barrier_init(&all, 0, threads);
    for (int round = 0; round < rounds; round++) {
        for (long i = 0; i < threads; i++) {
            if (pthread_create(&started[i], &small, works, (void *)i)) return 3;
        }
        for (int i = 0; i < threads; i++) pthread_join(started[i], 0);
    }
    printf("%ld\n", sum);
    return 0;
}
