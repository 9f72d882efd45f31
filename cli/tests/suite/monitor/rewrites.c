// Executes code often, then changes it, several times. Threads execute other code meanwhile.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef long (*function)(long);
static volatile int is_over;

static void write_code(unsigned char *page, int value) {
    // lea rax, [rdi + value]; test al, 1; je +3; inc rax; ret
    unsigned char code[] = { 0x48, 0x8d, 0x87, 0, 0, 0, 0, 0xa8, 1, 0x74, 3, 0x48, 0xff, 0xc0, 0xc3 };
    memcpy(code + 3, &value, 4);
    memcpy(page, code, sizeof code);
}

static void *work(void *unused) {
    volatile long sum = 0;
    while (!is_over) sum += 3;
    return unused;
}

int main(void) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    long sum = 0;
    for (int round = 0; round < 12; round++) {
        if (round % 3 == 2) {
            munmap(page, 4096);
            page = mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        }
        write_code(page, round);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        for (int i = 0; i < 200000; i++) sum = ((function)page)(sum) & 0xffffffff;
        printf("%ld\n", sum);
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
    }
    is_over = 1;
    pthread_join(thread, 0);
    return 0;
}
