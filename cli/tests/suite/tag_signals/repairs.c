// A handler looks up the faulting instruction in a table, as runtimes do, and continues elsewhere in the same function.
// With an argument, the fault is not in the table, and the handler names the function. With OWN_RESTORER, handlers
// return to code without unwind information.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

long safe_read(const long *place);
extern const char safe_read_repair[];
__asm__(
    ".text\n.globl safe_read\n.type safe_read,@function\nsafe_read:\n"
    " mov (%rdi),%rax\n ret\n.globl safe_read_repair\nsafe_read_repair: mov $-1,%rax\n ret\n"
    ".size safe_read,.-safe_read\n"
    // Only the bytes by which unwinders recognise the code.
    "nop\nown_restorer: mov $15,%rax\n syscall\n"
);
extern const char own_restorer[];
__attribute__((noipa)) long get(const long *place) { return *place; }

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (*rip == (greg_t)safe_read) { *rip = (greg_t)safe_read_repair; return; }
    Dl_info found;
    int is_known = dladdr((void *)*rip, &found) && found.dli_sname;
    printf("fault in %s\n", is_known ? found.dli_sname : "unknown code");
    fflush(stdout);
    _exit(77);
}

static void handle(void) {
#ifdef OWN_RESTORER
    struct { void *handler; unsigned long flags; const void *restorer; unsigned long mask; } action = {
        (void *)handler, SA_SIGINFO | 0x04000000, own_restorer, 0 };
    syscall(SYS_rt_sigaction, SIGSEGV, &action, 0, 8);
#else
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, 0);
#endif
}

int main(int count, char **words) {
    (void)words;
    handle();
    long known = 5, sum = 0;
    for (int i = 0; i < 10; i++) sum += safe_read(&known) + safe_read(0);
    printf("%ld\n", sum);
    fflush(stdout);
    if (count > 1) printf("%ld\n", get(0));
    return 0;
}
