// Interrupts functions in assembly with known instructions and registers. Handlers check that each address they see is
// one of these instructions or in another file's code, and that registers and the stack pointer have the values known
// for it. Other handlers repair faults at first instructions: they change registers or the address at which the thread
// continues, or leave by siglongjmp.
//
// Runs until its input ends, or for a given number of rounds. Prints the calls of each function, and what was wrong.
// With a second argument nothing is checked: after the end of the tracer, handlers may see other addresses.
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT_R11 0x1111111111111111
#define KEPT_RAX 0x2222222222222222
#define KEPT_RDX 0x3333333333333333

// The address of each instruction, and the number of bytes on the stack there beyond those of `drive`; 1 more: or 16
// bytes more; 0: registers are not known there.
__asm__(
    ".macro i depth, text:vararg\n"
    "9: \\text\n"
    ".pushsection .rodata.known,\"a\"\n .quad 9b - known, \\depth\n .popsection\n"
    ".endm\n"
    ".macro function name\n .p2align 4\n .globl \\name\n .type \\name,@function\n\\name:\n .endm\n"
    ".pushsection .rodata.known,\"a\"\n .p2align 3\n .globl known\nknown:\n .popsection\n"
    ".text\n"
    "function leaf\n"
    " i 9, lea 0(%rsi),%rsi\n i 9, test %rsi,%rsi\n i 9, mov %r8,%r9\n i 9, ret\n"
    ".size leaf,.-leaf\n"
    "function tail\n"
    " i 8, mov %rsi,%rdi\n i 8, mov %rdi,%r8\n i 8, jmp leaf\n"
    ".size tail,.-tail\n"
    "function outer\n"
    " i 8, push %rbx\n i 16, mov %rsi,%rbx\n i 16, call leaf\n i 16, call *%r15\n i 16, mov %rbx,%rsi\n"
    " i 16, pop %rbx\n i 8, ret\n"
    ".size outer,.-outer\n"
    // A loop that uses flags and memory below the stack pointer.
    "function loops\n"
    " i 8, mov %r11,-8(%rsp)\n i 8, mov $3,%ecx\n"
    "8: i 8, lea -1(%rcx),%rcx\n i 8, cmp $1,%rcx\n i 8, mov %rcx,%r10\n i 8, jae 8b\n"
    " i 8, cmp %r11,-8(%rsp)\n i 8, jne 7f\n i 8, ret\n7: i 8, hlt\n"
    ".size loops,.-loops\n"
    // The first instruction faults; handlers continue at the second.
    "function reads\n"
    " i 0, mov (%rdi),%rax\n.globl reads_behind\nreads_behind: i 0, lea 1(%rax),%rax\n i 0, ret\n"
    ".size reads,.-reads\n"
    "function divides\n"
    " i 0, div %rsi\n i 0, mov %rax,%rdi\n i 0, ret\n"
    ".size divides,.-divides\n"
    ".pushsection .rodata.known,\"a\"\n .globl known_end\nknown_end:\n .popsection\n"
    // Calls each function rdi times, stores its stack pointer at rsi, and returns whether registers were lost.
    "function drive\n"
    " push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rdi,%r12\n mov %rsp,(%rsi)\n lea leaf(%rip),%r15\n mov $5,%esi\n"
    " movabs $0x1111111111111111,%r11\n movabs $0x2222222222222222,%rax\n movabs $0x3333333333333333,%rdx\n"
    " mov %r11,%r13\n mov %rax,%r14\n mov %rdx,%rbx\n"
    "1: call leaf\n call tail\n call outer\n call loops\n"
    " cmp %r11,%r13\n jne 2f\n cmp %rax,%r14\n jne 2f\n cmp %rdx,%rbx\n jne 2f\n"
    " dec %r12\n jnz 1b\n xor %eax,%eax\n jmp 3f\n"
    "2: mov $1,%eax\n"
    "3: pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n ret\n"
    ".size drive,.-drive\n"
);
extern const struct { long at, depth; } known[], known_end[];
long drive(long turns, unsigned long *stack);
long reads(const long *place);
extern const char reads_behind[], divides[];

static atomic_long turns_done, reads_done, divides_done;
static atomic_long wrong, unknown, seen, signals;
static volatile int is_over;
static int is_checked = 1;
static __thread unsigned long stack;
static __thread sigjmp_buf start;
static __thread int faults;
static const long value = 40;

static struct { unsigned long start, end; } code[64];
static int codes;

static int add_code(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum && codes < 64; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
        code[codes].start = info->dlpi_addr + header->p_vaddr;
        code[codes++].end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
    }
    return 0;
}

static void check(const ucontext_t *context) {
    const greg_t *now = context->uc_mcontext.gregs;
    unsigned long rip = now[REG_RIP];
    signals++;
    if (!is_checked) { seen++; return; }
    unsigned long last = 0, i;
    for (i = 0; i < (unsigned long)(known_end - known); i++) {
        unsigned long at = (unsigned long)known + known[i].at;
        if (at > last) last = at;
        if (at != rip) continue;
        seen++;
        if (!known[i].depth) return;
        unsigned long depth = stack - now[REG_RSP], least = known[i].depth & ~1;
        if (!(depth == least || (known[i].depth & 1 && depth == least + 16)) || now[REG_R11] != KEPT_R11
            || now[REG_RAX] != KEPT_RAX || now[REG_RDX] != KEPT_RDX || now[REG_RSI] != 5) wrong++;
        return;
    }
    // The address is within those functions, but between two instructions.
    if (rip >= (unsigned long)known + known[0].at && rip <= last) unknown++;
    for (int c = 0; c < codes; c++) if (code[c].start <= rip && rip < code[c].end) return;
    unknown++;
}

static void turn(long times) {
    unsigned long before = stack;
    wrong += drive(times, &stack);
    stack = before;
    turns_done += times;
}

static void interrupted(int number, siginfo_t *info, void *context) {
    (void)info;
    check(context);
    if (number == SIGUSR2) return;
    if (signals % 4 == 0) turn(1);
    if (signals % 4 == 1) raise(SIGUSR2);
}

static void faulted(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *now = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (is_checked && now[REG_RIP] != (greg_t)reads) { unknown++; _exit(3); }
    switch (faults++ % 3) {
    case 0: now[REG_RDI] = (greg_t)&value; return;
    case 1: now[REG_RAX] = 40; now[REG_RIP] = (greg_t)reads_behind; return;
    default: siglongjmp(start, 41);
    }
}

static void divided(int number, siginfo_t *info, void *context) {
    (void)number;
    greg_t *now = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (is_checked && (now[REG_RIP] != (greg_t)divides || info->si_addr != divides)) { unknown++; _exit(4); }
    now[REG_RSI] = 2;
}

static void *work(void *words) {
    const long times = *(long *)words;
    stack_t other = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    sigaltstack(&other, 0);
    // More rounds run if few signals have arrived within the functions.
    for (volatile long done = 0; times ? done < times || (seen <= 20 && done < 100 * times) : !is_over; done++) {
        turn(100);
        volatile long result = sigsetjmp(start, 1);
        if (!result) result = reads(0);
        if (result != 41) wrong++;
        reads_done++;
        long quotient = 10, rest = 0, by = 0;
        __asm__ volatile("sub $128,%%rsp\n call divides\n add $128,%%rsp"
            : "+a"(quotient), "+d"(rest), "+S"(by) :: "rdi", "cc", "memory");
        if (quotient != 5) wrong++;
        divides_done++;
    }
    return 0;
}

static void *send(void *threads) {
    while (!is_over) {
        for (int i = 0; i < 2; i++) pthread_kill(((pthread_t *)threads)[i], SIGUSR1);
        usleep(150);
    }
    return 0;
}

int main(int count, char **words) {
    long times = count > 1 ? atol(words[1]) : 0;
    is_checked = count < 3;
    dl_iterate_phdr(add_code, 0);
    struct sigaction action = { .sa_sigaction = interrupted, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGUSR2, &action, 0);
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGALRM, &action, 0);
    action.sa_sigaction = divided;
    sigaction(SIGFPE, &action, 0);
    action.sa_sigaction = faulted;
    sigaction(SIGSEGV, &action, 0);
    puts("started");
    fflush(stdout);
    pthread_t threads[2], sender;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &times);
    pthread_create(&sender, 0, send, threads);
    struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
    setitimer(ITIMER_REAL, &often, 0);
    char byte;
    // Interrupted system calls are restarted.
    if (!times && read(0, &byte, 1) != 0) wrong++;
    if (times) for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    is_over = 1;
    pthread_join(sender, 0);
    if (!times) for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    setitimer(ITIMER_REAL, &never, 0);
    printf("leaf %ld\ntail %ld\nouter %ld\nloops %ld\nreads %ld\ndivides %ld\n", 4 * turns_done, turns_done,
        turns_done, turns_done, reads_done, divides_done);
    printf("wrong %ld\nunknown %ld\nenough %d\n", wrong, unknown, seen > 20);
    fprintf(stderr, "%ld signals, %ld there\n", signals, seen);
    return 0;
}
