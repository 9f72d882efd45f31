// Forks or vforks in a signal handler, wherever it interrupts functions in assembly with known registers. A child of
// fork returns from the handler, continues where its parent was interrupted, and gets its own signals there.
//
// Each process prints one line: its number, its calls of `leaf` and `tick`, the number of forks within the functions,
// and what was wrong: registers, or an address that handlers see and that is in no file's code. A child counts the
// interrupted call if it returned in the child.
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

__asm__(
    ".text\n"
    ".globl leaf\n.type leaf,@function\nleaf:\n"
    " lea 0(%rsi),%rsi\n test %rsi,%rsi\n mov %r8,%r9\n ret\n"
    ".size leaf,.-leaf\n"
    // A loop that uses flags and memory below the stack pointer.
    ".globl loops\n.type loops,@function\nloops:\n"
    " mov %r11,-8(%rsp)\n mov $3,%ecx\n"
    "8: lea -1(%rcx),%rcx\n cmp $1,%rcx\n mov %rcx,%r10\n jae 8b\n"
    " cmp %r11,-8(%rsp)\n jne 7f\n ret\n7: hlt\n"
    ".size loops,.-loops\n"
    // Calls the functions rdi times, counts at rsi, and returns whether registers were lost.
    ".globl drive\n.type drive,@function\ndrive:\n"
    " push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rdi,%r12\n mov %rsi,%r15\n mov $5,%esi\n"
    " movabs $0x1111111111111111,%r11\n movabs $0x2222222222222222,%rax\n movabs $0x3333333333333333,%rdx\n"
    " mov %r11,%r13\n mov %rax,%r14\n mov %rdx,%rbx\n"
    "1: call leaf\n incq (%r15)\n call loops\n"
    " cmp %r11,%r13\n jne 2f\n cmp %rax,%r14\n jne 2f\n cmp %rdx,%rbx\n jne 2f\n cmp $5,%rsi\n jne 2f\n"
    " dec %r12\n jnz 1b\n xor %eax,%eax\n jmp 3f\n"
    "2: mov $1,%eax\n"
    "3: pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n ret\n"
    ".globl drive_end\ndrive_end:\n"
    ".size drive,.-drive\n");
extern const char leaf[], drive_end[];
long drive(long turns, volatile long *calls);

enum { FORKS = 40 };
static volatile long calls, ticks, wrong, within, signals;
static volatile long calls_before, forks, is_child;
static struct itimerval often = { { 0, 500 }, { 0, 500 } };

__attribute__((noipa)) void tick(void) { ticks++; }

static struct { unsigned long start, end; } code[16];
static int codes;

static int add_code(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum && codes < 16; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
        code[codes].start = info->dlpi_addr + header->p_vaddr;
        code[codes++].end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
    }
    return 0;
}

static int is_code(unsigned long address) {
    for (int i = 0; i < codes; i++) if (code[i].start <= address && address < code[i].end) return 1;
    return 0;
}

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    long rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    signals++;
    wrong += !is_code(rip);
    if (is_child || forks == FORKS) return;
    within += (long)leaf <= rip && rip < (long)drive_end;
    if (forks++ % 2) {
        int status;
        pid_t child = vfork();
        if (child == 0) { for (int i = 0; i < 3; i++) tick(); _exit(5); }
        wrong += waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 5;
        return;
    }
    pid_t child = fork();
    wrong += child < 0;
    if (child != 0) return;
    is_child = 1;
    calls_before = calls;
    ticks = within = signals = 0;
    setitimer(ITIMER_REAL, &often, 0);
}

static int end(void) {
    char line[100];
    int length = snprintf(line, sizeof line, "%d %ld %ld %ld %ld\n", getpid(), calls - calls_before, ticks, within, wrong);
    return write(1, line, length) != length || wrong;
}

int main(void) {
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };
    dl_iterate_phdr(add_code, 0);
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    while (is_child ? signals < 20 : forks < FORKS) wrong += drive(1000, &calls);
    if (is_child) return end();
    for (;;) {
        int status;
        if (wait(&status) < 0) break;
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return end();
}
