// Writes code at run time: in memory that is writable and executable in turns, that is both, that is replaced, and that is
// written at another address.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef int (*function)(void);
static void write_code(unsigned char *at, int value) {
    unsigned char code[] = { 0xb8, 0, 0, 0, 0, 0xc3 };
    memcpy(code + 1, &value, 4);
    memcpy(at, code, sizeof code);
}
int main(void) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (int i = 0; i < 20; i++) {
        write_code(page, i);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        for (int j = 0; j < 3; j++) sum = sum * 31 + ((function)page)();
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
    }
    printf("%ld\n", sum);
    for (int i = 0; i < 5; i++) {
        munmap(page, 4096);
        page = mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        write_code(page, 100 + i);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        sum = sum * 31 + ((function)page)();
        void *other = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        write_code(other, 200 + i);
        mprotect(other, 4096, PROT_READ | PROT_EXEC);
        mremap(other, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page);
        sum = sum * 31 + ((function)page)();
    }
    printf("%ld\n", sum);
    unsigned char *both = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 20; i++) {
        write_code(both, i);
        sum = sum * 31 + ((function)both)();
    }
    // Sets and clears AC, with which the processor faults at accesses that are not aligned. The code is not aligned either.
    unsigned char checks_alignment[] = {
        0x9c, 0x81, 0x0c, 0x24, 0, 0, 4, 0, 0x9d, 0x90, 0x90, 0x90,
        0x9c, 0x81, 0x24, 0x24, 0xff, 0xff, 0xfb, 0xff, 0x9d, 0xb8, 42, 0, 0, 0, 0xc3
    };
    for (int i = 0; i < 8; i++) {
        memcpy(both + 100 + i, checks_alignment, sizeof checks_alignment);
        sum = sum * 31 + ((function)(both + 100 + i))();
    }
    int file = memfd_create("code", 0);
    if (ftruncate(file, 4096)) return 1;
    unsigned char *writable = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    function executable = (function)mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    for (int i = 0; i < 20; i++) {
        write_code(writable, i);
        sum = sum * 31 + executable();
    }
    printf("%ld\n", sum);
    return 0;
}
