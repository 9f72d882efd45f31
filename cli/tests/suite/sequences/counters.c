// Threads increment counters of processors in restartable sequences until the standard input ends, while signals
// interrupt them. Prints how many increments were lost, and how many handlers have seen an address within a section.
//
// The section has a descriptor in the file (DESCRIBED), one that is made on the stack, or is a copy in memory that is
// mapped at run time (COPIED).
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <unistd.h>
#include <ucontext.h>

enum { THREADS = 4, PROCESSORS = 4096 };

// rdi: area of the thread, rsi: counters, rdx: descriptor. Returns whether a counter was incremented.
__asm__(".text\n.globl increment\n.type increment, @function\nincrement:\n"
        "mov %rdx, 8(%rdi)\n"
        "section_start:\n"
        "mov 4(%rdi), %ecx\n shl $6, %rcx\n add %rsi, %rcx\n mov (%rcx), %rax\n mov $200, %r8d\n"
        "1: dec %r8d\n jnz 1b\n inc %rax\n mov %rax, (%rcx)\n"
        "section_end:\n mov $1, %eax\n ret\n"
        ".byte 0x0f, 0xb9, 0x3d\n .long 0x53053053\n"
        "section_abort:\n xor %eax, %eax\n ret\n"
        "increment_end:\n.size increment, .-increment\n");
extern char increment[], section_start[], section_end[], section_abort[], increment_end[];

#ifdef DESCRIBED
__asm__(".pushsection __rseq_cs, \"aw\"\n.balign 32\nstatic_descriptor: .long 0, 0\n"
        ".quad section_start, section_end - section_start, section_abort\n.popsection\n");
extern char static_descriptor[];
#endif

static struct { volatile long value; char padding[56]; } counters[PROCESSORS];
static volatile int is_over;
static volatile long inside;
static char *code = increment;

static void handle(int number, siginfo_t *information, void *context) {
    unsigned long at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    unsigned long start = (unsigned long)(code + (section_start - increment));
    if (at - start < (unsigned long)(section_end - section_start)) inside++;
}

__attribute__((noinline)) static int work(void *area) {
    struct { unsigned version, flags; unsigned long start, bytes, abort; } descriptor
        __attribute__((aligned(32))) = {
            0, 0, (unsigned long)(code + (section_start - increment)), section_end - section_start,
            (unsigned long)(code + (section_abort - increment)) };
    void *used = &descriptor;
#ifdef DESCRIBED
    used = static_descriptor;
#endif
    __asm__ volatile("" ::"r"(used) : "memory");
    int is_done = ((int (*)(void *, void *, void *))code)(area, counters, used);
    // The kernel may read a descriptor until its address is replaced.
    ((void *volatile *)area)[1] = 0;
    return is_done;
}

static void *count(void *sum) {
    void *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    while (!is_over) *(long *)sum += work(area);
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    long sums[THREADS] = {0}, expected = 0, found = 0;
    char byte;
    if (__rseq_size == 0) { puts("no sequences"); return 0; }
#ifdef COPIED
    code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, increment, increment_end - increment);
#endif
    struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigaction(SIGUSR1, &action, 0);
    for (int at = 0; at < THREADS; at++) pthread_create(threads + at, 0, count, sums + at);
    puts("counting");
    fflush(stdout);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    while (read(0, &byte, 1) == 1) pthread_kill(threads[byte % THREADS], SIGUSR1);
    is_over = 1;
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], 0), expected += sums[at];
    for (int at = 0; at < PROCESSORS; at++) found += counters[at].value;
    printf("lost %ld, inside %ld\n", expected - found, inside);
    return found != expected || expected == 0;
}
