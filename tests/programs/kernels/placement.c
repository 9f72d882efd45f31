// Places the elements of a netlist by simulated annealing: `placement ELEMENTS`.
//
// Elements point to their neighbours and to their places. Two random ones exchange places if that shortens their wires, or
// with a probability that falls with the temperature (Kirkpatrick, Gelatt, Vecchi 1983).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIRES = 5, ROUNDS = 6 };

struct place {
    int x, y;
};

struct element {
    struct place *place;
    struct element *to[WIRES], *from[WIRES];
    int from_count;
    char name[20];
};

static unsigned long state = 2463534242ul;

static unsigned random32(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 0x2545f4914f6cdd1dul) >> 32);
}

static long distance(const struct place *one, const struct place *other) {
    return labs((long)one->x - other->x) + labs((long)one->y - other->y);
}

// The length of an element's wires if it were at a place.
static long length_at(const struct element *one, const struct place *at) {
    long sum = 0;
    for (int i = 0; i < WIRES; i++)
        sum += distance(at, one->to[i]->place);
    for (int i = 0; i < one->from_count; i++)
        sum += distance(at, one->from[i]->place);
    return sum;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    if (count < 2)
        return 1;
    int side = (int)ceil(sqrt(count));
    struct element **elements = malloc(count * sizeof *elements);
    struct place *places = malloc(count * sizeof *places);
    if (!elements || !places)
        return 1;
    for (int i = 0; i < count; i++) {
        elements[i] = calloc(1, sizeof **elements);
        if (!elements[i])
            return 1;
        places[i] = (struct place){i % side, i / side};
        elements[i]->place = &places[i];
        snprintf(elements[i]->name, sizeof elements[i]->name, "e%d", i);
    }
    for (int i = 0; i < count; i++)
        for (int wire = 0; wire < WIRES; wire++) {
            struct element *other = elements[random32() % count];
            elements[i]->to[wire] = other;
            if (other->from_count < WIRES)
                other->from[other->from_count++] = elements[i];
        }
    double temperature = side;
    unsigned long accepted = 0;
    for (int round = 0; round < ROUNDS; round++, temperature /= 2) {
        for (int move = 0; move < count; move++) {
            struct element *one = elements[random32() % count], *other = elements[random32() % count];
            struct place *from = one->place, *to = other->place;
            long before = length_at(one, from) + length_at(other, to);
            long after = length_at(one, to) + length_at(other, from);
            double chance = exp((double)(before - after) / temperature);
            if (after < before || random32() / 4294967296.0 < chance) {
                one->place = to;
                other->place = from;
                accepted++;
            }
        }
    }
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += length_at(elements[i], elements[i]->place);
    printf("%lu moves, length %ld\n", accepted, sum);
    return 0;
}
