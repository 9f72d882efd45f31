// Removes its library and a file of its own code, and replaces its program, while it executes them.
// Arguments: the library, a new file for code, the file that replaces the program.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int work(int (*step)(int)) {
    int sum = 0;
    for (int i = 0; i < 100; i++) sum += step(i);
    return sum;
}
int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW);
    int (*step)(int) = library ? dlsym(library, "step") : 0;
    // mov eax, 42; ret
    unsigned char code[4096] = { 0xb8, 42, 0, 0, 0, 0xc3 };
    int file = open(words[2], O_RDWR | O_CREAT | O_EXCL, 0600);
    if (!step || write(file, code, sizeof code) != sizeof code) return 1;
    int (*written)(void) = mmap(0, sizeof code, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    if (unlink(words[1]) || unlink(words[2]) || rename(words[3], words[0])) return 2;
    return work(step) == 50 && written() == 42 ? 7 : 3;
}
