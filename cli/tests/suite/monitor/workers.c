// Sixteen threads at a time, in turns, that add to sums of their own and to a common one.
#include <pthread.h>
#include <stdio.h>

#define THREADS 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static unsigned long common, atomic;

__attribute__((noinline)) static unsigned long step(unsigned long n) { return n * 7 + 3; }

static void *works(void *seed) {
    unsigned long own = (unsigned long)seed;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 20000; i++) {
        own = step(own) % 1000003;
        __atomic_add_fetch(&atomic, 1, __ATOMIC_RELAXED);
        if (i % 64 == 0) {
            pthread_mutex_lock(&lock);
            common += own;
            pthread_mutex_unlock(&lock);
        }
    }
    return (void *)own;
}

int main(void) {
    unsigned long sum = 0;
    pthread_barrier_init(&start, 0, THREADS);
    for (int turn = 0; turn < 3; turn++) {
        pthread_t threads[THREADS];
        for (long i = 0; i < THREADS; i++) {
            if (pthread_create(&threads[i], 0, works, (void *)(i + turn))) return 1;
        }
        for (int i = 0; i < THREADS; i++) {
            void *own;
            pthread_join(threads[i], &own);
            sum += (unsigned long)own;
        }
    }
    printf("%lu %lu %lu\n", sum, common, atomic);
    return 6;
}
