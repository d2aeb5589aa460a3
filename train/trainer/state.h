#ifndef TRAIN_TRAINER_STATE_H
#define TRAIN_TRAINER_STATE_H
/* The state that training carries from step to step, and its form in a checkpoint. The random generator needs no field: the
 * order of an epoch follows from (seed, epoch), and the epoch from the step.
 *
 * Checkpoint, version 1, big-endian head of TRAINER_HEAD_BYTES: "SHOALCKP", u32 version, u32 zero, 32 bytes of fingerprint, u64
 * parameter count, u64 step, u64 bits of the double loss_sum, u64 loss_count; then parameters and velocities, fp32
 * little-endian. */

#include <stddef.h>
#include <stdint.h>

#define TRAINER_HEAD_BYTES 80
#define TRAINER_FINGERPRINT_BYTES 32

/* The state; the arrays are the caller's. */
struct trainer_state {
    size_t parameter_count;
    float *parameters; /* [parameter_count], the caller's */
    float *velocities; /* [parameter_count], of SGD with momentum */
    uint64_t step;     /* applied so far */
    double loss_sum;   /* of the steps since the last report */
    uint64_t loss_count;
};

/* The size of the state's checkpoint. */
size_t trainer_state_bytes(const struct trainer_state *state);

/* Writes trainer_state_bytes(state) bytes to `out`. The fingerprint identifies model, data and hyperparameters. */
void trainer_state_encode(const struct trainer_state *state, const uint8_t fingerprint[TRAINER_FINGERPRINT_BYTES],
                          uint8_t *out);

/* Reads a checkpoint into a state whose parameter_count and arrays are set. ERR_MALFORMED, ERR_VERSION or ERR_REFUSED (another
 * fingerprint): the state is then untouched and *why is a static text for the end of a sentence, "is ...". */
int trainer_state_decode(struct trainer_state *state, const uint8_t fingerprint[TRAINER_FINGERPRINT_BYTES],
                         const uint8_t *bytes, size_t count, const char **why);

#endif
