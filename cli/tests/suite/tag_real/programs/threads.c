// Threads that end in every way: by returning, by pthread_exit from inner frames, by being cancelled.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))
NOINLINE long leaf(long n) { return n * 3 + 1; }
NOINLINE static void clean(void *place) { ++*(long *)place; }
NOINLINE void leave(long n) { if (n) leave(n - 1); else pthread_exit((void *)leaf(n)); leaf(n); }
NOINLINE long sum(long n) { long s = 0; for (long i = 0; i < n; i++) s += leaf(i); return s; }
NOINLINE void wait_for_ever(void) { for (;;) pause(); }
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long cleaned[6], ready;
NOINLINE void say_ready(void) {
    pthread_mutex_lock(&lock);
    ready++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
static void *returns(void *n) { return (void *)sum((long)n * 100); }
static void *exits(void *n) {
    pthread_cleanup_push(clean, &cleaned[(long)n % 6]);
    sum((long)n);
    leave((long)n % 6);
    pthread_cleanup_pop(0);
    return 0;
}
static void *waits(void *n) {
    pthread_cleanup_push(clean, &cleaned[(long)n % 6]);
    sum((long)n);
    say_ready();
    wait_for_ever();
    pthread_cleanup_pop(0);
    return 0;
}
int main(void) {
    static void *(*const bodies[])(void *) = { returns, exits, waits };
    long total = 0;
    for (int round = 0; round < 4; round++) {
        pthread_t threads[6];
        ready = 0;
        for (long i = 0; i < 6; i++) pthread_create(&threads[i], 0, bodies[i % 3], (void *)(i + 1));
        pthread_mutex_lock(&lock);
        while (ready < 2) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        pthread_cancel(threads[2]);
        pthread_cancel(threads[5]);
        for (int i = 0; i < 6; i++) {
            void *value;
            pthread_join(threads[i], &value);
            total += (long)value;
        }
    }
    for (int i = 0; i < 6; i++) total += cleaned[i] * 1000;
    printf("%ld\n", total);
    leave(3);
}
