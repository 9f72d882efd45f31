// Executes a program step by step, and writes for each step what the processor is about to execute with: rip, the general
// registers in the order of their numbers, and the bases of fs and gs, each in 8 bytes.
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    (void)count;
    FILE *output = fopen(words[1], "w");
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(words[2], words + 2);
        _exit(99);
    }
    int status;
    if (!output || waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 98;
    while (WIFSTOPPED(status)) {
        struct user_regs_struct r;
        ptrace(PTRACE_GETREGS, child, 0, &r);
        uint64_t all[] = { r.rip, r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
                           r.r12, r.r13, r.r14, r.r15, r.fs_base, r.gs_base };
        fwrite(all, sizeof all, 1, output);
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        if (waitpid(child, &status, 0) != child) return 97;
    }
    return fclose(output) ? 96 : WEXITSTATUS(status);
}
