// Moves particles that repel each other in a grid of cells: `particles COUNT`.
//
// The particles of a cell are a linked list through an array of structures. Density and forces are those of smoothed
// particle hydrodynamics (Mueller, Charypar, Gross 2003): each particle meets those of its own and the 26 cells around.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 12, STEPS = 3 };

struct particle {
    float position[3], velocity[3], force[3], density;
    int next;
};

static const float RADIUS = 1.0f / SIDE;
static int first[SIDE][SIDE][SIDE];
static unsigned long state = 7;

// A number from 0 to 1 (xorshift64*).
static float uniform(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (float)((state * 0x2545f4914f6cdd1dul) >> 40) / (1 << 24);
}

static int cell(float x) {
    int at = (int)(x * SIDE);
    return at < 0 ? 0 : at >= SIDE ? SIDE - 1 : at;
}

static void sort_into_cells(struct particle *all, int count) {
    for (int x = 0; x < SIDE; x++)
        for (int y = 0; y < SIDE; y++)
            for (int z = 0; z < SIDE; z++)
                first[x][y][z] = -1;
    for (int i = 0; i < count; i++) {
        float *at = all[i].position;
        int *list = &first[cell(at[0])][cell(at[1])][cell(at[2])];
        all[i].next = *list;
        *list = i;
    }
}

static void meet_density(struct particle *one, const struct particle *other, const float d[3], float square) {
    (void)other, (void)d;
    float near = RADIUS * RADIUS - square;
    one->density += near * near * near;
}

static void meet_force(struct particle *one, const struct particle *other, const float d[3], float square) {
    float distance = sqrtf(square) + 1e-6f, near = RADIUS - distance;
    float pressure = (one->density + other->density) * near * near / distance;
    for (int k = 0; k < 3; k++)
        one->force[k] += d[k] * pressure * 1e9f + (other->velocity[k] - one->velocity[k]) * near;
}

typedef void meeting(struct particle *, const struct particle *, const float *, float);

// Lets each particle meet those that are nearer than the radius.
static void meet(struct particle *all, int count, meeting *with) {
    for (int i = 0; i < count; i++) {
        float *at = all[i].position;
        int c[3] = {cell(at[0]), cell(at[1]), cell(at[2])};
        for (int x = c[0] - 1; x <= c[0] + 1; x++)
            for (int y = c[1] - 1; y <= c[1] + 1; y++)
                for (int z = c[2] - 1; z <= c[2] + 1; z++) {
                    if (x < 0 || y < 0 || z < 0 || x >= SIDE || y >= SIDE || z >= SIDE)
                        continue;
                    for (int j = first[x][y][z]; j >= 0; j = all[j].next) {
                        float d[3], square = 0;
                        for (int k = 0; k < 3; k++) {
                            d[k] = at[k] - all[j].position[k];
                            square += d[k] * d[k];
                        }
                        if (j != i && square < RADIUS * RADIUS)
                            with(&all[i], &all[j], d, square);
                    }
                }
    }
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    struct particle *all = calloc(count, sizeof *all);
    if (count < 1 || !all)
        return 1;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 3; k++)
            all[i].position[k] = uniform();
    double sum = 0;
    for (int step = 0; step < STEPS; step++) {
        sort_into_cells(all, count);
        for (int i = 0; i < count; i++)
            all[i].density = all[i].force[0] = all[i].force[1] = all[i].force[2] = 0;
        meet(all, count, meet_density);
        meet(all, count, meet_force);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < 3; k++) {
                all[i].velocity[k] += (all[i].force[k] - (k == 1 ? 9.8f : 0)) * 1e-3f;
                float to = all[i].position[k] + all[i].velocity[k] * 1e-3f;
                all[i].position[k] = to < 0 ? 0 : to > 1 ? 1 : to;
            }
    }
    for (int i = 0; i < count; i++)
        sum += all[i].density * 1e6 + all[i].position[0] + all[i].position[1];
    printf("%.6f\n", sum);
    return 0;
}
