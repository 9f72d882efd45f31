// Accesses memory in many ways, with the same number of accesses in each run. With an argument, signals interrupt it, and if
// that is "often", more often than they can be delivered.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

struct node { struct node *next; long values[3]; char tag; };

static struct node nodes[64];
static int table[256];
static volatile long sink;

__attribute__((noipa)) long sums(int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) sum += table[i & 255] * (long)table[(i * 7) & 255];
    return sum;
}

__attribute__((noipa)) long walks(const struct node *node) {
    long sum = 0;
    for (; node; node = node->next) sum += node->values[1] + node->tag;
    return sum;
}

__attribute__((noipa)) void updates(int n) {
    for (int i = 0; i < n; i++) table[(i * i) & 255] += i;
}

__attribute__((noipa)) long recurses(long n) { return n < 2 ? n : recurses(n - 1) + recurses(n - 2); }

__attribute__((noipa)) void copies(char *to, const char *from, unsigned long bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

__attribute__((noipa)) long finds(const char *in, char wanted, unsigned long bytes) {
    __asm__ volatile("repne scasb" : "+D"(in), "+c"(bytes) : "a"(wanted) : "memory", "cc");
    return (long)bytes;
}

__attribute__((noipa)) double floats(int n) {
    static double values[32];
    for (int i = 0; i < n; i++) values[i & 31] = values[(i + 5) & 31] * 0.5 + i;
    return values[7];
}

static volatile sig_atomic_t handled;
static void handles(int number) { handled += number; }

int main(int count, char **words) {
    if (count > 1) {
        int interval = words[1][0] == 'o' ? 50 : 200;
        struct itimerval often = { { 0, interval }, { 0, interval } };
        signal(SIGALRM, handles);
        setitimer(ITIMER_REAL, &often, 0);
    }
    static char one[300], other[300];
    for (int i = 0; i < 64; i++) {
        nodes[i].next = i < 63 ? &nodes[(i * 5 + 1) & 63] : 0;
        nodes[i].values[1] = i;
        nodes[i].tag = (char)i;
    }
    for (int i = 0; i < 63; i++) nodes[i].next = &nodes[i + 1];
    for (int i = 0; i < 256; i++) table[i] = i * 3;
    one[250] = 'x';
    for (int i = 0; i < 20; i++) updates(5000);
    for (int i = 0; i < 2000; i++) copies(other, one, sizeof one);
    copies(other, one, 0);
    sink = sums(10000) + walks(nodes) + recurses(15) + finds(other, 'x', sizeof other);
    if (count > 1) setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, 0);
    printf("%ld %f\n", sink, floats(1000));
    return 4;
}
