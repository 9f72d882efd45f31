// Is interrupted by timers that expire more often than a controller delivers signals. It prints a result, which is the same
// in each run, and how often something was wrong. Arguments: rounds, microseconds between signals, and "alone" to start no
// thread and no process.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks, rings, raised, wrong_causes, wrong_counts;
static volatile long started, interval, expirations, last_end, end_before;
static long wrong_masks, wrong_orders, wrong_calls;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void on_alarm(int number, siginfo_t *info, void *context) {
    (void)context;
    ticks++;
    if (info->si_signo != number || info->si_code != 0x80) wrong_causes++;
}

static void on_ring(int number, siginfo_t *info, void *context) {
    (void)context;
    rings++;
    // Each expiration before the end of the last call but one is in a signal or in its overrun, but for one that is being noted.
    // (Where a controller detaches, the kernel may queue a signal again behind the next one.)
    expirations += 1 + info->si_overrun;
    if (started && end_before > started && expirations + 1 < (end_before - started) / interval) wrong_counts++;
    end_before = last_end;
    last_end = now();
    if (info->si_signo != number || info->si_code != SI_TIMER || info->si_value.sival_int != 77) wrong_causes++;
}

static void on_raised(int number) { (void)number; raised++; }

static void checks_mask(void) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    if (sigismember(&mask, SIGALRM) || sigismember(&mask, SIGRTMIN)) wrong_masks++;
}

static void *thread(void *result) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, 0, &mask);
    *(int *)result = sigismember(&mask, SIGALRM);
    return result;
}

static unsigned long computes(unsigned long x, long rounds) {
    for (long i = 0; i < rounds; i++) x = x * 6364136223846793005UL + 1442695040888963407UL;
    return x;
}

static void waits_for(volatile sig_atomic_t *count, int more) {
    int until = *count + more;
    while (*count < until) pause();
}

int main(int count, char **words) {
    long rounds = count > 1 ? atol(words[1]) : 50, microseconds = count > 2 ? atol(words[2]) : 100;
    struct sigaction alarm = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct sigaction ring = { .sa_sigaction = on_ring, .sa_flags = SA_SIGINFO };
    sigaction(SIGALRM, &alarm, 0);
    sigaction(SIGRTMIN, &ring, 0);
    signal(SIGUSR1, on_raised);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 77 };
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, microseconds }, { 0, microseconds } }, 0);
    interval = microseconds * 1700;
    struct timespec often = { 0, interval };
    timer_settime(timer, 0, &(struct itimerspec){ often, often }, 0);
    started = now();
    unsigned long result = 1;
    int ends[2];
    if (pipe(ends)) return 1;
    for (long round = 0; round < rounds; round++) {
        result = computes(result, 20000);
        checks_mask();
        int before = raised;
        raise(SIGUSR1);
        if (raised != before + 1) wrong_orders++;
        char byte = (char)round, other = 0;
        if (write(ends[1], &byte, 1) != 1 || read(ends[0], &other, 1) != 1 || byte != other) wrong_calls++;
        if (poll(0, 0, 1) != 0 && errno != EINTR) wrong_calls++;
        if (round % 5 == 0) {
            waits_for(&ticks, 2);
            waits_for(&rings, 2);
            if (count > 3) continue;
            pid_t child = fork();
            if (child == 0) {
                sigset_t mask;
                sigprocmask(SIG_BLOCK, 0, &mask);
                _exit(sigismember(&mask, SIGALRM) || sigismember(&mask, SIGRTMIN));
            }
            int status = 0;
            while (waitpid(child, &status, 0) < 0) {}
            if (status != 0) wrong_masks++;
            pthread_t other_thread;
            int is_wrong = 0;
            // Another thread would count expirations at the same time.
            sigset_t rings_only;
            sigemptyset(&rings_only);
            sigaddset(&rings_only, SIGRTMIN);
            pthread_sigmask(SIG_BLOCK, &rings_only, 0);
            if (pthread_create(&other_thread, 0, thread, &is_wrong) || pthread_join(other_thread, 0) || is_wrong) wrong_masks++;
            pthread_sigmask(SIG_UNBLOCK, &rings_only, 0);
        }
    }
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, 0);
    timer_delete(timer);
    checks_mask();
    printf("%lx: %ld masks, %ld orders, %ld calls, %d causes, %d counts\n", result, wrong_masks, wrong_orders, wrong_calls,
           wrong_causes, wrong_counts);
    return wrong_masks || wrong_orders || wrong_calls || wrong_causes || wrong_counts;
}
