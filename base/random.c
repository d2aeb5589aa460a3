#include "base/random.h"

#include "base/check.h"

uint64_t random_mix(uint64_t value)
{
    uint64_t z = value + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void random_init(struct random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        random->state[i] = random_mix(seed);
        seed += 0x9e3779b97f4a7c15u;
    }
}

void random_init_stream(struct random *random, uint64_t seed, uint64_t stream)
{
    random_init(random, random_mix(seed) ^ (stream * 0xd1342543de82ef95u + 1));
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t random_u64(struct random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    CHECK(bound > 0);
    uint64_t threshold = (0 - bound) % bound; /* values below the threshold would be over-represented */
    uint64_t x = random_u64(random);
    while (x < threshold) {
        x = random_u64(random);
    }
    return x % bound;
}

double random_double(struct random *random)
{
    return (double)(random_u64(random) >> 11) * 0x1.0p-53;
}
