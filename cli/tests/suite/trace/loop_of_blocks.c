/* A loop of three blocks that has the same addresses in several of them. */
#include <stdio.h>

static int one[1024], other[1024];
static long sum;

int main(void)
{
    for (int round = 0; round < 1000; round++)
        for (int i = 0; i < 1023; i++) {
            one[i] += other[i];
            if (one[i] & 1)
                sum += one[i + 1];
            else
                sum -= other[i + 1] - 1;
            other[i] = sum;
        }
    printf("%ld\n", sum);
    return 0;
}
