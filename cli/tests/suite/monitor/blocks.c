// Blocks its first thread in the kernel, where no signal interrupts it, until a byte arrives on standard input: in vfork(2),
// or where write(2) reads a page whose fault is resolved by another thread (userfaultfd(2)). Then it prints a line.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int faults;
static char *page;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_over;

// Executes code of its own all the time.
static void *works(void *unused) {
    unsigned long rounds = 0;
    for (; !is_over; rounds++) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    return (void *)rounds;
}

static void *resolves(void *unused) {
    char byte;
    if (read(0, &byte, 1) != 1) return 0;
    struct uffdio_zeropage zero = {.range = {(unsigned long)page, 4096}};
    return ioctl(faults, UFFDIO_ZEROPAGE, &zero) ? page : 0;
}

static int faults_in_the_kernel(void) {
    pthread_t resolver;
    int ends[2];
    struct uffdio_api api = {.api = UFFD_API};
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || pipe(ends)) return 77;
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(unsigned long)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(faults, UFFDIO_REGISTER, &all)) return 77;
    pthread_create(&resolver, 0, resolves, 0);
    long written = write(ends[1], page, 1);
    pthread_join(resolver, 0);
    printf("written %ld\n", written);
    return 0;
}

static int waits_for_a_child(void) {
    int status;
    pid_t child = vfork();
    if (!child) {
        char byte;
        _exit(read(0, &byte, 1) == 1 ? 7 : 8);
    }
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    return 0;
}

int main(int count, char **words) {
    pthread_t worker;
    void *rounds;
    pthread_create(&worker, 0, works, 0);
    int status = count > 1 && !strcmp(words[1], "fault") ? faults_in_the_kernel() : waits_for_a_child();
    is_over = 1;
    pthread_join(worker, &rounds);
    printf("%s\n", rounds ? "worked" : "did not work");
    return status;
}
