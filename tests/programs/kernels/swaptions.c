// Prices swaptions by simulating forward rates in the model of Heath, Jarrow and Morton: `swaptions TRIALS`.
//
// Each trial fills a matrix of forward rates, time by maturity, from random factors, and discounts the payoff along it.
// Normal numbers are those of the polar method of Marsaglia.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 24, FACTORS = 3, SWAPTIONS = 4 };

static const double YEARS = 6, DT = YEARS / STEPS;
static unsigned long state = 88172645463325252ul;

// A number from 0 to 1 (xorshift64*).
static double uniform(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (double)((state * 0x2545f4914f6cdd1dul) >> 11) / (1ul << 53);
}

static double normal(void) {
    for (;;) {
        double x = 2 * uniform() - 1, y = 2 * uniform() - 1, s = x * x + y * y;
        if (s > 0 && s < 1)
            return x * sqrt(-2 * log(s) / s);
    }
}

// The drift without arbitrage: that of each factor follows from the integral of its volatility.
static void drift(double volatility[FACTORS][STEPS], double total[STEPS]) {
    for (int j = 0; j < STEPS; j++)
        total[j] = 0;
    for (int f = 0; f < FACTORS; f++) {
        double integral = 0;
        for (int j = 0; j < STEPS; j++) {
            total[j] += volatility[f][j] * (integral + volatility[f][j] * DT / 2);
            integral += volatility[f][j] * DT;
        }
    }
}

// A path of forward rates: rates[i][j] is that of the time i for the time i + j.
static void path(double rates[STEPS][STEPS], double volatility[FACTORS][STEPS], const double total[STEPS]) {
    double root = sqrt(DT);
    for (int i = 1; i < STEPS; i++) {
        double shock[FACTORS];
        for (int f = 0; f < FACTORS; f++)
            shock[f] = normal();
        for (int j = 0; j < STEPS - i; j++) {
            double moved = total[j] * DT;
            for (int f = 0; f < FACTORS; f++)
                moved += volatility[f][j] * root * shock[f];
            rates[i][j] = rates[i - 1][j + 1] + moved;
        }
    }
}

// What a swap of fixed for floating payments is worth if it is entered at a step, discounted to the start.
static double payoff(double rates[STEPS][STEPS], int entry, double strike) {
    double discount = 1, bond = 1, annuity = 0;
    for (int i = 0; i < entry; i++)
        discount *= exp(-rates[i][0] * DT);
    for (int j = 0; j < STEPS - entry; j++) {
        bond *= exp(-rates[entry][j] * DT);
        annuity += bond * DT;
    }
    double value = 1 - bond - strike * annuity;
    return value > 0 ? discount * value : 0;
}

int main(int argc, char **argv) {
    int trials = argc > 1 ? atoi(argv[1]) : 100;
    static double rates[STEPS][STEPS], volatility[FACTORS][STEPS], total[STEPS];
    double sum = 0;
    for (int one = 0; one < SWAPTIONS; one++) {
        for (int j = 0; j < STEPS; j++) {
            rates[0][j] = 0.03 + 0.0005 * j + 0.002 * one;
            volatility[0][j] = 0.01;
            volatility[1][j] = 0.008 * exp(-0.2 * j * DT);
            volatility[2][j] = 0.004 * (1 - 0.3 * j * DT);
        }
        drift(volatility, total);
        double price = 0;
        for (int trial = 0; trial < trials; trial++) {
            path(rates, volatility, total);
            price += payoff(rates, STEPS / 3, 0.035);
        }
        sum += price / trials;
    }
    printf("%.9f\n", sum);
    return 0;
}
