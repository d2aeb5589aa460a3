#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
/* A fuzz target is one file that defines fuzz_one and fuzz_seeds; the main is in driver_libfuzzer.c (clang) or in
 * driver_replay.c (any compiler). CHECK is how a target says that something is wrong. */

#include <stddef.h>
#include <stdint.h>

#define FUZZ_INPUT_BYTES_MAX (64u * 1024)

/* Decodes one input; a heap copy of its exact size, so that the address sanitizer sees a read behind its end. Nothing may
 * be left behind: the next call must not depend on this one. */
void fuzz_one(const uint8_t *data, size_t size);

/* Gives every seed to fuzz_seed: small inputs that are well-formed, made by our own encoders. */
void fuzz_seeds(void);

/* The driver's. At most FUZZ_INPUT_BYTES_MAX bytes, copied. */
void fuzz_seed(const void *bytes, size_t count);

#endif
