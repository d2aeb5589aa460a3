#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H
/* Seeded pseudo-random numbers, the same on every machine: xoshiro256** by Blackman and Vigna (2018), seeded through
 * splitmix64. Not for keys or tokens. */

#include <stdint.h>

/* A generator; a plain value, so a copy of it gives the same numbers. */
struct random {
    uint64_t state[4];
};

/* Every seed, 0 included, gives a usable generator. */
void random_init(struct random *random, uint64_t seed);

/* A generator that depends on (seed, stream) only: numbers drawn from one stream do not change another stream. */
void random_init_stream(struct random *random, uint64_t seed, uint64_t stream);

/* Uniform over all 64-bit values. */
uint64_t random_u64(struct random *random);

/* Uniform in [0, bound), without bias; bound > 0. */
uint64_t random_below(struct random *random, uint64_t bound);

/* Uniform in [0, 1), with 53 random bits. */
double random_double(struct random *random);

/* One step of splitmix64: a good mix of one integer. */
uint64_t random_mix(uint64_t value);

#endif
