// Checks the results of all that it does, answers each byte on standard input, and prints the number of failed checks at
// the end. With an argument, threads compute and signals arrive; otherwise all threads wait.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop;
static atomic_long handled, wrong;
static int numbers[2], never[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long said, heard;

// Whether registers, flags and the red zone keep their values for a while.
long holds(void);
__asm__(".text\n.globl holds\n.type holds, @function\nholds:\n"
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "movabs $0x1122334455667788, %rax\n"
        "mov %rax, -8(%rsp)\n mov %rax, -120(%rsp)\n movq %rax, %xmm7\n movq %rax, %xmm15\n"
        "lea 1(%rax), %rbx\n lea 2(%rax), %rdx\n lea 3(%rax), %rsi\n lea 4(%rax), %rdi\n lea 5(%rax), %rbp\n"
        "lea 6(%rax), %r8\n lea 7(%rax), %r9\n lea 8(%rax), %r10\n lea 9(%rax), %r11\n lea 10(%rax), %r12\n"
        "lea 11(%rax), %r13\n lea 12(%rax), %r14\n lea 13(%rax), %r15\n"
        "mov $20000, %ecx\n stc\n"
        "1: lea -1(%rcx), %rcx\n jrcxz 2f\n jmp 1b\n"
        "2: jnc 3f\n"
        "sub $1, %rbx\n cmp %rax, %rbx\n jne 3f\n sub $2, %rdx\n cmp %rax, %rdx\n jne 3f\n"
        "sub $3, %rsi\n cmp %rax, %rsi\n jne 3f\n sub $4, %rdi\n cmp %rax, %rdi\n jne 3f\n"
        "sub $5, %rbp\n cmp %rax, %rbp\n jne 3f\n sub $6, %r8\n cmp %rax, %r8\n jne 3f\n"
        "sub $7, %r9\n cmp %rax, %r9\n jne 3f\n sub $8, %r10\n cmp %rax, %r10\n jne 3f\n"
        "sub $9, %r11\n cmp %rax, %r11\n jne 3f\n sub $10, %r12\n cmp %rax, %r12\n jne 3f\n"
        "sub $11, %r13\n cmp %rax, %r13\n jne 3f\n sub $12, %r14\n cmp %rax, %r14\n jne 3f\n"
        "sub $13, %r15\n cmp %rax, %r15\n jne 3f\n cmp %rax, -8(%rsp)\n jne 3f\n cmp %rax, -120(%rsp)\n jne 3f\n"
        "movq %xmm7, %rbx\n cmp %rax, %rbx\n jne 3f\n movq %xmm15, %rbx\n cmp %rax, %rbx\n jne 3f\n"
        "mov $1, %eax\n jmp 4f\n"
        "3: xor %eax, %eax\n"
        "4: pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n.size holds, . - holds\n");

__attribute__((noipa)) long leaf(long n) { return n * 3 + 1; }
__attribute__((noipa)) long odd(long n);
__attribute__((noipa)) long even(long n) { return n == 0 ? 1 : odd(n - 1); }
__attribute__((noipa)) long odd(long n) { return n == 0 ? 0 : even(n - 1); }
__attribute__((noipa)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void handler(int number) { (void)number; handled += leaf(1) == 4; }

static void *computes(void *unused) {
    (void)unused;
    while (!stop) wrong += !holds() || fib(12) != 144 || !even(20) || leaf(5) != 16;
    return 0;
}

static void *sleeps(void *unused) {
    (void)unused;
    for (unsigned char n = 0; !stop; n++) {
        struct timespec time = { 0, 300000 + leaf(n) };
        while (nanosleep(&time, &time) != 0) wrong += errno != EINTR;
        wrong += write(numbers[1], &n, 1) != 1;
        pthread_mutex_lock(&lock);
        said++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    close(numbers[1]);
    return 0;
}

static void *reads(void *unused) {
    (void)unused;
    unsigned char n = 0, found;
    for (ssize_t bytes; (bytes = read(numbers[0], &found, 1)) != 0; n++) wrong += bytes != 1 || found != n;
    return 0;
}

static void *waits(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!stop) {
        if (heard == said) pthread_cond_wait(&changed, &lock);
        wrong += heard > said;
        heard = said;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static void *polls(void *unused) {
    (void)unused;
    struct pollfd one = { never[0], POLLIN, 0 };
    while (!stop) {
        int ready = poll(&one, 1, 2);
        wrong += ready > 0 || (ready < 0 && errno != EINTR) || leaf(2) != 7;
    }
    return 0;
}

int main(int count, char **words) {
    (void)words;
    void *(*all[])(void *) = { sleeps, reads, waits, polls, computes, computes };
    int threads = count > 1 ? 6 : 4;
    pthread_t thread[6];
    struct itimerval often = { { 0, 700 }, { 0, 700 } };
    if (pipe(numbers) || pipe(never)) return 1;
    signal(SIGALRM, handler);
    if (count > 1) setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < threads; i++) pthread_create(&thread[i], 0, all[i], 0);
    char byte = 's';
    for (;;) {
        wrong += write(1, &byte, 1) != 1;
        ssize_t bytes = read(0, &byte, 1);
        if (bytes == 0) break;
        wrong += bytes != 1;
        byte = (char)(byte + leaf(0));
    }
    stop = 1;
    // The thread that signals may have ended before this one waits.
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], 0);
    printf("%ld %d\n", (long)wrong, count == 1 || handled > 0);
    return 0;
}
