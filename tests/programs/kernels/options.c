// Prices European options by the formula of Black and Scholes: `options COUNT`.
//
// Options are an array of structures that is read in order, several times, and prices are another array. The normal
// distribution is the polynomial of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct option {
    float spot, strike, rate, volatility, years;
    int is_put;
};

static unsigned long state = 1;

// A number from 0 to 1 (xorshift64*).
static float uniform(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (float)((state * 0x2545f4914f6cdd1dul) >> 40) / (1 << 24);
}

static float normal(float x) {
    float k = 1 / (1 + 0.2316419f * fabsf(x));
    float sum = k * (0.319381530f +
                     k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228f * expf(-0.5f * x * x) * sum;
    return x < 0 ? tail : 1 - tail;
}

static float price(const struct option *one) {
    float deviation = one->volatility * sqrtf(one->years);
    float d1 = (logf(one->spot / one->strike) +
                (one->rate + 0.5f * one->volatility * one->volatility) * one->years) / deviation;
    float d2 = d1 - deviation;
    float discounted = one->strike * expf(-one->rate * one->years);
    if (one->is_put)
        return discounted * normal(-d2) - one->spot * normal(-d1);
    return one->spot * normal(d1) - discounted * normal(d2);
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    struct option *options = malloc(count * sizeof *options);
    float *prices = malloc(count * sizeof *prices);
    if (count < 1 || !options || !prices)
        return 1;
    for (int i = 0; i < count; i++) {
        options[i].spot = 50 + 100 * uniform();
        options[i].strike = 50 + 100 * uniform();
        options[i].rate = 0.01f + 0.05f * uniform();
        options[i].volatility = 0.1f + 0.5f * uniform();
        options[i].years = 0.1f + 2 * uniform();
        options[i].is_put = uniform() < 0.5f;
    }
    double sum = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < count; i++)
            prices[i] = price(&options[i]);
        for (int i = 0; i < count; i++)
            sum += prices[i];
    }
    printf("%.3f\n", sum);
    return 0;
}
