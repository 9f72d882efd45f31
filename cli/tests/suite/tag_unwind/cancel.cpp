// Cancels threads at any instruction, and prints how many destructors have run.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
static const int THREADS = 40;
static std::atomic<int> destroyed{0}, started{0};
struct Guard { NOINLINE ~Guard() { destroyed++; } };
NOINLINE unsigned leaf(unsigned n) { asm volatile(""); return n * 2654435761u ^ (n >> 7); }
NOINLINE unsigned spin() { unsigned n = 1; for (;;) n = leaf(n); return n; }
NOINLINE void *run(void *) {
    Guard guard;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    started++;
    spin();
    return nullptr;
}
int main() {
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        int before = started;
        pthread_create(&thread, nullptr, run, nullptr);
        while (started == before) sched_yield();
        usleep(100 + rand() % 300);
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
    std::printf("%d of %d\n", (int)destroyed, THREADS);
}
