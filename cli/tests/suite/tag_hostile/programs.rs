//! Sources of programs that are difficult or hostile to tags.

/// Common code: seccomp filters, and a function to call.
pub const COMMON: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n) { __asm__ volatile(""); return n * 3 + 1; }
int (*volatile call)(int) = work;
#define LOAD BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define IF(number, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define ALWAYS(action) BPF_STMT(BPF_RET | BPF_K, action)
#define ALLOWED SECCOMP_RET_ALLOW
static void filter(struct sock_filter *code, unsigned short count) {
    struct sock_fprog program = { count, code };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { perror("seccomp"); _exit(9); }
}
static void say(const char *text) { if (write(1, text, strlen(text)) < 0) _exit(8); }
static void pause_ms(long ms) { struct timespec time = { ms / 1000, ms % 1000 * 1000000 }; nanosleep(&time, 0); }
"#;

/// Restricts itself as its argument says, prints that, and continues until its input ends. With two
/// arguments it first waits for a line.
pub const RESTRAINED: &str = r#"
int main(int count, char **words) {
    char byte;
    if (count > 2) { say("ready\n"); if (read(0, &byte, 1) != 1) return 7; }
    unsigned action = 0;
    switch (words[1][0]) {
    case 's': prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); break;
    case 'k': action = SECCOMP_RET_KILL_PROCESS; break;
    case 't': action = SECCOMP_RET_TRAP; break;
    case 'e': action = SECCOMP_RET_ERRNO | EPERM; break;
    case 'a': action = SECCOMP_RET_ALLOW; break;
    }
    if (action) {
        struct sock_filter code[] = { LOAD,
            IF(SYS_write, ALLOWED), IF(SYS_read, ALLOWED), IF(SYS_exit_group, ALLOWED), IF(SYS_exit, ALLOWED),
            IF(SYS_clock_nanosleep, ALLOWED), IF(SYS_rt_sigreturn, ALLOWED), ALWAYS(action) };
        filter(code, sizeof code / sizeof *code);
    }
    for (int i = 0; i < 100; i++) call(i);
    say("restrained\n");
    if (count > 2 && words[1][0] != 's') {
        // Sleeps while controllers read; then calls more than fits in the buffers.
        pause_ms(300);
        for (int i = 0; i < 200000; i++) call(i);
    }
    while (read(0, &byte, 1) == 1) call(1);
    say("end\n");
    syscall(words[1][0] == 's' ? SYS_exit : SYS_exit_group, 3);
}
"#;

/// Executes a program with a filter that allows everything.
pub const ALLOWS: &str = r#"
int main(int count, char **words) {
    (void)count;
    struct sock_filter code[] = { ALWAYS(ALLOWED) };
    filter(code, 1);
    execv(words[1], words + 1);
    return 6;
}
"#;

/// Lets another process answer `memfd_create` with a descriptor of the file that its argument
/// names.
pub const LIES: &str = r#"
static void send_number(int to, int number) {
    char byte = 0, control[CMSG_SPACE(sizeof number)];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET; header->cmsg_type = SCM_RIGHTS; header->cmsg_len = CMSG_LEN(sizeof number);
    memcpy(CMSG_DATA(header), &number, sizeof number);
    if (sendmsg(to, &message, 0) < 0) _exit(6);
}
static int receive(int from) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    int number = -1;
    if (recvmsg(from, &message, 0) >= 0) memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof number);
    return number;
}
int main(int count, char **words) {
    (void)count;
    int pair[2], victim = open(words[1], O_PATH);
    if (victim < 0 || dup2(victim, 42) != 42 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 5;
    pid_t child = fork();
    if (child == 0) {
        struct sock_filter code[] = { LOAD, IF(SYS_memfd_create, SECCOMP_RET_USER_NOTIF), ALWAYS(ALLOWED) };
        struct sock_fprog program = { sizeof code / sizeof *code, code };
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        if (listener < 0) _exit(4);
        send_number(pair[1], listener);
        close(listener);
        char byte;
        while (read(0, &byte, 1) == 1) call(1);
        _exit(3);
    }
    int listener = receive(pair[0]);
    printf("%d\n", child); fflush(stdout);
    close(pair[1]);
    if (fork() == 0) {
        struct seccomp_notif asked;
        for (;;) {
            memset(&asked, 0, sizeof asked);
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) { if (errno == EINTR) continue; _exit(0); }
            struct seccomp_notif_resp answer = { .id = asked.id, .val = 42 };
            ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
    }
    close(listener);
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
"#;

/// Overwrites the last record of its log and continues.
pub const SCRIBBLES: &str = r#"
int main(int count, char **words) {
    (void)count;
    for (int i = 0; i < 10; i++) call(i);
    uint64_t place;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(place));
    ((volatile uint32_t *)(place - 16))[3] = strtoul(words[1], 0, 0);
    for (int i = 0; i < 20000; i++) call(i);
    say("end\n");
    return 0;
}
"#;

/// Overwrites a counter and continues.
pub const COUNTS_WRONG: &str = r#"
int main(void) {
    uint64_t slot;
    for (int i = 0; i < 10; i++) call(i);
    __asm__ volatile("rdgsbase %0" : "=r"(slot));
    for (int i = 0; i < 8; i++) ((volatile uint64_t *)slot)[i] = ~0ull >> 1;
    say("end\n");
    return 0;
}
"#;

/// Sets `gs` in a way that is visible in its code, or not. Then sends itself a signal and checks
/// whether its memory was changed.
pub const TAKES_GS: &str = r#"
static volatile int handled;
static void handler(int number) { handled += number; }
static uint64_t mine[512];
#ifdef HIDDEN
static volatile long set_gs = 0x1001;
#else
#define set_gs 0x1001
#endif
int main(void) {
    signal(SIGUSR1, handler);
    for (int i = 0; i < 512; i++) mine[i] = 0x1111111111111111ull;
    for (int i = 0; i < 10; i++) call(i);
    syscall(SYS_arch_prctl, set_gs, mine);
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 1000; i++) call(i);
    int changed = 0;
    for (int i = 0; i < 512; i++) changed += mine[i] != 0x1111111111111111ull;
    uint64_t base;
    __asm__ volatile("rdgsbase %0" : "=r"(base));
    printf("%d %d %d\n", handled == SIGUSR1, changed, base == (uint64_t)mine);
    return 0;
}
"#;

/// Loads the segment register with 0, which also sets the address that `gs` stands for.
pub const LOADS_GS: &str = r#"
int main(void) {
    for (int i = 0; i < 10; i++) call(i);
    __asm__ volatile("mov %0, %%gs" : : "r"(0));
    for (int i = 0; i < 10; i++) call(i);
    say("end\n");
    return 3;
}
"#;

/// Has memory that looks like that of tags and lists millions of patch records, and an area of its
/// own code.
pub const FORGES: &str = r#"
#define RECORDS (1ul << 22)
int main(void) {
    const unsigned char code[] = { 0xb8, 42, 0, 0, 0, 0xc3 };
    unsigned char *own = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(own, code, sizeof code);
    mprotect(own, 4096, PROT_READ | PROT_EXEC);
    int (*answer)(void) = (int (*)(void))own;
    int file = syscall(SYS_memfd_create, "hmtt-tag-0123456789abcdef", 0);
    uint64_t bytes = 4ul << 30;
    if (file < 0 || ftruncate(file, bytes)) return 9;
    for (int copy = 0; copy < 64; copy++) {
        uint64_t *all = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        if (all == MAP_FAILED) return 8;
        if (copy) continue;
        memcpy(all, "hmtttags", 8);
        ((uint32_t *)all)[2] = 3;
        all[2] = 4096; all[3] = ~0ull; all[6] = 7;
        for (uint64_t at = 0; at < RECORDS; at++) {
            uint64_t *record = all + 512 + 4 * at;
            record[0] = (uint64_t)&work + at % 64;
            record[1] = 1 + at % 8;
            record[2] = at; record[3] = ~at;
        }
        uint64_t *record = all + 512 + 4 * 17;
        record[0] = (uint64_t)own; record[1] = 0; record[2] = 4096; record[3] = 0;
    }
    puts("started"); fflush(stdout);
    getchar();
    printf("%d %d\n", answer(), call(2));
    return 0;
}
"#;

/// Sets `gs` without showing it in its code, calls, and ends without another stop as its argument
/// says: by a return, in a thread that ends alone, by a signal that is not seen before, or while a
/// thread continues.
pub const ENDS_WITH_GS: &str = r#"
#include <pthread.h>
static uint64_t mine[512];
static uint64_t buffer[1 << 17] __attribute__((aligned(1 << 20)));
#define PLACE (uint64_t)(buffer + 1024)
static volatile long set_gs = 0x1001;
static void take(void) {
    syscall(SYS_arch_prctl, set_gs, mine);
    for (int i = 0; i < 1000; i++) call(i);
}
static void *thread(void *unused) { take(); return unused; }
static void *forever(void *unused) { for (;;) pause(); return unused; }
int main(int count, char **words) {
    (void)count;
    pthread_t one;
    // The address that a log would use is one at which a buffer has records.
    for (int i = 0; i < 512; i++) mine[i] = PLACE;
    if (words[1][0] == 'w') pthread_create(&one, 0, forever, 0);
    for (int i = 0; i < 10; i++) call(i);
    if (words[1][0] == 't') {
        pthread_create(&one, 0, thread, 0);
        pthread_join(one, 0);
        for (int i = 0; i < 1000; i++) call(i);
        return 4;
    }
    take();
    if (words[1][0] == 'k') kill(getpid(), SIGKILL);
    _exit(words[1][0] == 'r' ? 0 : 4);
}
"#;
