// Each thread waits in another system call until the standard input ends. No signal is sent to these threads, so that no wait may
// fail with EINTR, and none may end before its time-out. Another thread waits for signals of its own, with which its waits do fail.
// Prints what is wrong, then "end".
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TIME_OUT_MS 150
static volatile int is_over, failures;
static const struct timespec time_out = { 0, TIME_OUT_MS * 1000000L };
static int epoll, pair[2], listening, semaphores;
static aio_context_t aio;

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static long waits_epoll(void) { struct epoll_event event; return epoll_wait(epoll, &event, 1, TIME_OUT_MS); }
static long waits_epoll2(void) {
    struct epoll_event event;
    return syscall(SYS_epoll_pwait2, epoll, &event, 1, &time_out, 0, 8);
}
static long waits_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, 0, &time_out);
}
static long waits_recv(void) { char byte; return recv(pair[0], &byte, 1, 0); }
static long waits_read(void) { char byte; return read(pair[0], &byte, 1); }
static long waits_accept(void) { return accept(listening, 0, 0); }
static long waits_semaphore(void) {
    struct sembuf operation = { 0, -1, 0 };
    return semtimedop(semaphores, &operation, 1, &time_out);
}
static long waits_aio(void) {
    struct io_event event;
    struct timespec time = time_out;
    return syscall(SYS_io_getevents, aio, 1L, 1L, &event, &time);
}
static long waits_poll(void) { return poll(0, 0, TIME_OUT_MS); }
static long waits_select(void) { struct timeval time = { 0, TIME_OUT_MS * 1000 }; return select(0, 0, 0, 0, &time); }
static long waits_sleep(void) { return nanosleep(&time_out, 0); }
static long waits_condition(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += time_out.tv_nsec;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&mutex);
    int result = pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    errno = result;
    return -1;
}

static struct { const char *name; long (*waits)(void); int error; } calls[] = {
    { "epoll_wait", waits_epoll, 0 },   { "epoll_pwait2", waits_epoll2, 0 },
    { "sigtimedwait", waits_signal, EAGAIN }, { "recv", waits_recv, EAGAIN },
    { "read", waits_read, EAGAIN },     { "accept", waits_accept, EAGAIN },
    { "semtimedop", waits_semaphore, EAGAIN }, { "io_getevents", waits_aio, 0 },
    { "poll", waits_poll, 0 },          { "select", waits_select, 0 },
    { "nanosleep", waits_sleep, 0 },    { "condition", waits_condition, ETIMEDOUT },
};
enum { CALLS = sizeof calls / sizeof *calls };

static void *wait_for(void *argument) {
    long number = (long)argument;
    while (!is_over) {
        long begin = now_us();
        long result = calls[number].waits();
        int error = result < 0 ? errno : 0;
        long waited = now_us() - begin;
        if (error == ENOSYS) return 0;
        if (result > 0 || error != calls[number].error) {
            printf("%s: %ld, %s\n", calls[number].name, result, strerror(error)), failures++;
        } else if (waited < TIME_OUT_MS * 1000L - 1000) {
            printf("%s: ended after %ld us\n", calls[number].name, waited), failures++;
        }
    }
    return 0;
}

static void handle(int number) { (void)number; }
static volatile long own;

static void *wait_for_handlers(void *unused) {
    struct epoll_event event;
    // On a slow machine the first wait may begin when all else is over.
    while (!is_over || own == 0) {
        if (epoll_wait(epoll, &event, 1, -1) == -1 && errno == EINTR) own++;
        else puts("own: not interrupted"), failures++;
    }
    return unused;
}

int main(void) {
    pthread_t threads[CALLS], handler;
    struct timeval time = { 0, TIME_OUT_MS * 1000 };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    char byte;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    signal(SIGWINCH, SIG_IGN);
    sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = handle }, 0);
    epoll = epoll_create1(0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    bind(listening, (struct sockaddr *)&address, sizeof address);
    listen(listening, 1);
    setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    syscall(SYS_io_setup, 1, &aio);
    for (long at = 0; at < CALLS; at++) pthread_create(threads + at, 0, wait_for, (void *)at);
    pthread_create(&handler, 0, wait_for_handlers, 0);
    puts("waiting");
    fflush(stdout);
    // An ignored signal never interrupts a call.
    while (read(0, &byte, 1) == 1) {
        for (int at = 0; at < CALLS; at++) pthread_kill(threads[at], SIGWINCH);
        pthread_kill(handler, SIGUSR1);
    }
    is_over = 1;
    for (int at = 0; at < CALLS; at++) pthread_join(threads[at], 0);
    // The last signal may arrive before the thread waits.
    for (int tries = 0; pthread_tryjoin_np(handler, 0) != 0 && tries < 60000; tries++)
        pthread_kill(handler, SIGUSR1), usleep(1000);
    semctl(semaphores, 0, IPC_RMID);
    puts(own > 0 ? "end" : "own: never interrupted");
    return failures != 0 || own == 0;
}
