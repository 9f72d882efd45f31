// Restricts its system calls, or uses gs, and goes on.
#include <asm/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static long words[2] = { 5, 6 };
int main(int count, char **arguments) {
    puts("begins");
    fflush(stdout);
    if (!strcmp(arguments[1], "gs")) {
        syscall(SYS_arch_prctl, ARCH_SET_GS, words);
        long value;
        __asm__ volatile("movq %%gs:8, %0" : "=r"(value));
        unsigned long base = 0;
        syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
        printf("%ld %d\n", value, base == (unsigned long)words);
    } else {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
        for (int i = 0; i < 3; i++) printf("%d\n", getppid() > 0);
    }
    return 8;
}
