// Sorts, formats, parses, allocates and copies, so that much of the C library is executed with all sizes of operands.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
struct item { char name[20]; double value; struct item *next; };
int main(void) {
    int numbers[60];
    for (int i = 0; i < 60; i++) numbers[i] = i * 7919 % 1009;
    qsort(numbers, 60, sizeof *numbers, compare);
    struct item *first = 0;
    for (int i = 0; i < 20; i++) {
        struct item *one = malloc(sizeof *one + (size_t)i * 8);
        snprintf(one->name, sizeof one->name, "%d-%x-%s", i, numbers[i], i & 1 ? "odd" : "even");
        one->value = strtod("3.25e2", 0) / (i + 1);
        one->next = first;
        first = one;
    }
    static char text[2000];
    double sum = 0;
    for (struct item *one = first; one; one = one->next) {
        if (strlen(text) + strlen(one->name) < sizeof text) strcat(text, one->name);
        sum += one->value;
    }
    char *found = strstr(text, "4-");
    memmove(text + 3, text, 500);
    printf("%s %.3f %d %ld\n", text, sum, numbers[59], (long)(found - text));
    while (first) {
        struct item *next = first->next;
        free(first);
        first = next;
    }
    return 6;
}
