#ifndef TESTS_FUZZ_SEED_RECORDS_H
#define TESTS_FUZZ_SEED_RECORDS_H
/* The records of a small mesh: every kind at least once, of an experiment that has run. */

#include "tests/unit/facts_make.h"

#define SEED_RECORDS_MAX 70

/* Returns how many there are. */
uint32_t seed_records_make(struct made out[SEED_RECORDS_MAX]);

#endif
