/* Takes its own backtrace when a timer says so, wherever it is then. Prints how many lack main.
   With a library's name, it works in that. With "wait" first, it begins when a line is read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#define NOINLINE __attribute__((noinline))
#define SAMPLES 400
extern const char __start_main_text[], __stop_main_text[];
static volatile int samples, without_main;
NOINLINE unsigned leaf(unsigned n) { __asm__ volatile(""); return n * 2654435761u ^ (n >> 7); }
NOINLINE unsigned work(unsigned n) { for (int i = 0; i < 40; i++) n = leaf(n); __asm__ volatile(""); return n + 1; }
NOINLINE static void sample(int signal) {
    void *frames[64];
    int count = backtrace(frames, 64), is_seen = 0;
    (void)signal;
    for (int i = 0; i < count; i++)
        is_seen |= (const char *)frames[i] > __start_main_text && (const char *)frames[i] <= __stop_main_text;
    samples++;
    without_main += !is_seen;
}
__attribute__((section("main_text"))) int main(int count, char **words) {
    unsigned (*turn)(unsigned) = work;
    unsigned n = 1;
    if (count > 1 && !strcmp(words[1], "wait")) {
        puts("started"); fflush(stdout);
        getchar();
        count--; words++;
    }
    void *frames[4];
    backtrace(frames, 4);
#ifdef LIBRARY
    if (count > 1) turn = (unsigned (*)(unsigned))dlsym(dlopen(words[1], RTLD_NOW), "library_work");
#endif
    signal(SIGALRM, sample);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
    while (samples < SAMPLES) n = turn(n);
    setitimer(ITIMER_REAL, &never, 0);
    printf("%d without main\n", without_main);
    return n == 0;
}
