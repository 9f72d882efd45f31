// Damages its own state at random: overwrites all memory that it shares with its controller, unmaps it, closes and
// copies descriptors, sets gs, forbids system calls and the time stamp counter, redirects its system calls, executes
// itself in single steps, forges its auxiliary vector, reserves address space, makes threads whose stack pointers point
// anywhere, forks, executes itself again, and dies. The seed determines the actions, up to the order of its threads. The
// program ends by itself within a few seconds.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <time.h>
#include <unistd.h>

static uint64_t state;
static char *name, *seed, *mildness;
static volatile int handled;
static uint64_t mine[512];

static uint64_t number(void) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
}

__attribute__((noinline)) int work(int n) { __asm__ volatile(""); return n * 3 + 1; }
__attribute__((noinline)) int more(int n) { __asm__ volatile(""); return work(n) + work(n + 1); }
int (*volatile call)(int) = more;
static void handler(int signal) { handled += more(signal); }

struct range { uintptr_t start, end; int shared; };

// The memory that is shared with the controller, and the executable memory that the controller added.
static int ours(struct range *found, int room) {
    char text[1 << 16];
    int count = 0, file = open("/proc/self/maps", O_RDONLY);
    ssize_t size = 0, part;
    while (size < (ssize_t)sizeof text - 1 && (part = read(file, text + size, sizeof text - 1 - size)) > 0) size += part;
    close(file);
    text[size] = 0;
    for (char *line = text, *next; line && *line && count < room; line = next) {
        if ((next = strchr(line, '\n'))) *next++ = 0;
        struct range one = { 0, 0, strstr(line, "memfd:hmtt-tag") != 0 };
        unsigned long inode = 1;
        char may[8] = "";
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &one.start, &one.end, may, &inode) < 4) continue;
        if (one.shared || (!strcmp(may, "r-xp") && !inode && !strchr(line, '['))) found[count++] = one;
    }
    return count;
}

static void scribble(void) {
    struct range all[64];
    int count = ours(all, 64);
    for (int i = 0; i < count; i++) {
        if (!all[i].shared) continue;
        volatile uint64_t *words = (volatile uint64_t *)all[i].start;
        uint64_t gs, size = all[i].end - all[i].start;
        __asm__ volatile("rdgsbase %0" : "=r"(gs));
        for (int n = 0; n < 200; n++) {
            // The header, the patch records, this thread's slot, or any address.
            uint64_t where[] = { number() % 256, 4096 + number() % 65536, gs - all[i].start + number() % 262144, number() % size };
            uint64_t at = where[number() % 4];
            uint64_t value[] = { number(), ~0ull, 0, 2, number() % 4096, all[i].start + number() % size };
            if (at + 8 <= size) words[at / 8] = value[number() % 6];
        }
    }
}

static void tear(void) {
    struct range all[64];
    int count = ours(all, 64);
    if (!count) return;
    struct range one = all[number() % count];
    uint64_t pages = (one.end - one.start) / 4096, at = one.start + number() % pages * 4096;
    switch (number() % 4) {
    case 0: munmap((void *)at, 4096); break;
    case 1: mprotect((void *)at, 4096, PROT_READ); break;
    case 2: madvise((void *)at, 4096, MADV_REMOVE); break;
    case 3: mmap((void *)at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
    }
}

static void descriptors(void) {
    int from = number() % 64, to = 3 + number() % 61;
    if (number() % 2) close(to); else dup2(from, to);
}

static void restrain(void) {
    unsigned actions[] = { SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO | 1, SECCOMP_RET_ALLOW };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number() % 2 ? SYS_mmap : SYS_munmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, actions[number() % 4]),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static volatile char selector;
static void undo(int signal) { (void)signal; selector = 0; }

static void dispatch(void) {
    // PR_SET_SYSCALL_USER_DISPATCH, on or off.
    unsigned long on = number() % 4 != 0;
    signal(SIGSYS, undo);
    prctl(59, on, 0, 0, on ? &selector : 0);
    selector = 1;
    for (int i = 0; i < 2000; i++) call(i);
    selector = 0;
}

static void step(void) {
    signal(SIGTRAP, handler);
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "cc", "memory");
    for (int i = 0; i < 10; i++) call(i);
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "cc", "memory");
}

static void *thread(void *unused) {
    for (int i = 0; i < 2000; i++) call(i);
    return unused;
}

// Returns a field of /proc/self/stat.
static uint64_t field(const char *text, int wanted) {
    text = strrchr(text, ')') + 2;
    for (int n = 3; n < wanted; n++) text = strchr(text, ' ') + 1;
    return strtoull(text, 0, 10);
}

// Forges what /proc/PID/auxv shows: program headers, base of the dynamic linker, entry.
static void headers(void) {
    char text[4096] = "";
    Elf64_auxv_t all[64];
    int stat = open("/proc/self/stat", O_RDONLY), auxv = open("/proc/self/auxv", O_RDONLY);
    ssize_t size = read(stat, text, sizeof text - 1), bytes = read(auxv, all, sizeof all);
    close(stat), close(auxv);
    if (size <= 0 || bytes <= 0) return;
    int count = bytes / sizeof *all;
    uint64_t value[] = { number(), (uint64_t)mine, (uint64_t)&state - number() % 65536, ~0ull - number() % 65536, 0, number() % 4096 };
    for (int i = 0; i < count; i++) {
        unsigned long type = all[i].a_type;
        int known = type == AT_PHDR || type == AT_PHNUM || type == AT_BASE || type == AT_ENTRY || type == AT_SYSINFO_EHDR;
        if (known && number() % 2) all[i].a_un.a_val = value[number() % 6];
    }
    struct prctl_mm_map map = { field(text, 26), field(text, 27), field(text, 45), field(text, 46), field(text, 47),
        (uint64_t)sbrk(0), field(text, 28), field(text, 48), field(text, 49), field(text, 50), field(text, 51),
        (void *)all, bytes, -1 };
    prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
    prctl(PR_SET_DUMPABLE, 1);
}

static void *reserve(void) {
    int writes = number() % 2 ? PROT_READ | PROT_WRITE : PROT_READ | PROT_EXEC;
    void *start = mmap(0, 1ul << (20 + number() % 21), writes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start == MAP_FAILED ? mine : start;
}

// Waits for a while with a stack pointer that points anywhere.
static void *astray(void *stack) {
    struct timespec time = { 0, 100000000 };
    register struct timespec *argument __asm__("rdi") = &time;
    uint64_t own;
    __asm__ volatile("mov %%rsp, %1\n mov %2, %%rsp\n mov $35, %%eax\n xor %%esi, %%esi\n syscall\n mov %1, %%rsp"
        : "+r"(argument), "=&r"(own) : "r"(stack) : "rax", "rcx", "rsi", "r11", "memory");
    return 0;
}

static void threads(void) {
    pthread_t one;
    char *stack = number() % 2 ? reserve() : (char *)number();
    for (int count = number() % 64; count >= 0; count--) {
        int wait = number() % 2;
        if (!pthread_create(&one, 0, wait ? astray : thread, stack + number() % 4096 * 8)) pthread_detach(one);
    }
}

static void act(void) {
    pthread_t one;
    pid_t child;
    char next[32];
    // Milder seeds let programs live longer.
    switch (number() % (mildness[0] == 'm' ? 8 : 21)) {
    case 0: case 1: case 2: scribble(); break;
    case 3: descriptors(); break;
    case 4: kill(getpid(), SIGUSR1); break;
    case 5: if (!pthread_create(&one, 0, thread, 0)) pthread_detach(one); break;
    case 6:
        if ((child = fork()) == 0) { thread(0); scribble(); _exit(0); }
        if (child > 0 && number() % 2) waitpid(child, 0, 0);
        break;
    case 7: madvise(mine, 4096, MADV_DONTNEED); break;
    case 8: case 9: tear(); break;
    case 10: syscall(SYS_arch_prctl, (long)(0x1000 + number() % 2), mine); break;
    case 11: restrain(); break;
    case 12:
        snprintf(next, sizeof next, "%llu", (unsigned long long)(number() >> 8));
        if (number() % 4 == 0) execl(name, name, next, mildness, "again", (char *)0);
        break;
    case 13: if (number() % 4 == 0) kill(getpid(), SIGKILL); break;
    case 14: prctl(PR_SET_TSC, number() % 2 ? PR_TSC_SIGSEGV : PR_TSC_ENABLE); break;
    case 15: case 16: dispatch(); break;
    case 17: step(); break;
    case 18: headers(); break;
    case 19: reserve(); break;
    case 20: threads(); break;
    }
}

int main(int count, char **words) {
    name = words[0]; seed = words[1]; mildness = words[2];
    state = strtoull(seed, 0, 10) * 2 + 1;
    for (int i = 0; i < 8; i++) number();
    // A program that executes itself gets the remaining time.
    if (count < 4) alarm(3);
    signal(SIGUSR1, handler);
    signal(SIGCHLD, SIG_DFL);
    for (int turn = 0; turn < 60; turn++) {
        for (int i = 0; i < 500; i++) call(i);
        act();
        struct timespec time = { 0, (long)(number() % 8000000) };
        nanosleep(&time, 0);
    }
    return 0;
}
