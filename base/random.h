#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H
/* Seeded pseudo-random numbers, the same on every machine: xoshiro256** by Blackman and Vigna (2018), seeded through
 * splitmix64. Not for keys or tokens. */

#include <stdint.h>

struct random {
    uint64_t state[4];
};

void random_init(struct random *random, uint64_t seed);

/* A generator that depends on (seed, stream) only, so that streams do not disturb each other. */
void random_init_stream(struct random *random, uint64_t seed, uint64_t stream);

uint64_t random_u64(struct random *random);

/* Uniform in [0, bound), without bias; bound > 0. */
uint64_t random_below(struct random *random, uint64_t bound);

/* Uniform in [0, 1), 53 bits. */
double random_double(struct random *random);

/* One step of splitmix64: a good mix of one integer. */
uint64_t random_mix(uint64_t value);

#endif
