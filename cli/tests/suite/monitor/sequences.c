// Registers an area for restartable sequences, and prints why that fails. A thread of its own may have another one.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static __thread struct { char bytes[32]; } area __attribute__((aligned(32)));

static void *registers(void *unused) {
    long result = syscall(SYS_rseq, &area, sizeof area, 0, 0x53053053);
    printf("%s\n", result == 0 ? "registered" : errno == ENOSYS ? "not supported" : "refused");
    return unused;
}

int main(void) {
    pthread_t thread;
    registers(0);
    pthread_create(&thread, 0, registers, 0);
    pthread_join(thread, 0);
    return 0;
}
