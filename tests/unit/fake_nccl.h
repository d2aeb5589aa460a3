#ifndef TESTS_UNIT_FAKE_NCCL_H
#define TESTS_UNIT_FAKE_NCCL_H
/* What tests ask of the fake beside the functions of CUDA and NCCL (tests/unit/fake_nccl.c); found by dlsym. */

#include <stddef.h>

/* A kernel of the program on its default stream: fills device memory with `value`, but not before `polls` questions about any
 * event. */
int fake_fill(float *device, float value, size_t count, int polls);

/* Communicators that are neither destroyed nor aborted. */
int fake_alive(void);

/* How many were made by ncclCommInitRankConfig, and by ncclCommShrink. */
int fake_made(int by_shrinking);

/* Calls that broke a rule of NCCL's or CUDA's: nothing is queued behind a communicator that is not ready, and so on. */
int fake_misused(void);

#endif
