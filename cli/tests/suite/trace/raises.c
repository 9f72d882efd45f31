// Executes instructions that access no memory and raise a signal, again and again.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static sigjmp_buf back;
static volatile int handled;
static void leave(int signal) { handled++; siglongjmp(back, signal); }
static void count(int signal) { handled += signal == SIGTRAP; }
#define TURNS 5
#define RAISE(code) for (volatile int i = 0; i < TURNS; i++) if (!sigsetjmp(back, 1)) __asm__ volatile(code)
int main(void) {
    signal(SIGILL, leave);
    signal(SIGSEGV, leave);
    signal(SIGTRAP, count);
    RAISE("ud2");
    RAISE("ud1 %eax, %eax");
    RAISE("lock; nop");
    RAISE(".byte 0x06");
    RAISE("int $0x77");
    RAISE("hlt");
    RAISE("int3");
    RAISE(".byte 0xcd, 3");
    printf("%d\n", handled);
    return handled == 8 * TURNS ? 0 : 1;
}
