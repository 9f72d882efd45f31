// A program that consists almost only of calls.
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int count, char **words) { printf("%ld\n", fib(count > 1 ? atol(words[1]) : 30)); return 0; }
