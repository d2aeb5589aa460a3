#include "train/trainer/state.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "parameters are stored as they lie in memory");

#define VERSION 1

static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'C', 'K', 'P'};

size_t trainer_state_bytes(const struct trainer_state *state)
{
    return TRAINER_HEAD_BYTES + 2 * state->parameter_count * sizeof(float);
}

void trainer_state_encode(const struct trainer_state *state, const uint8_t fingerprint[TRAINER_FINGERPRINT_BYTES],
                          uint8_t *out)
{
    uint64_t loss_bits;
    memcpy(&loss_bits, &state->loss_sum, sizeof loss_bits);
    memcpy(out, magic, 8);
    bytes_put_u32(out + 8, VERSION);
    bytes_put_u32(out + 12, 0);
    memcpy(out + 16, fingerprint, TRAINER_FINGERPRINT_BYTES);
    bytes_put_u64(out + 48, state->parameter_count);
    bytes_put_u64(out + 56, state->step);
    bytes_put_u64(out + 64, loss_bits);
    bytes_put_u64(out + 72, state->loss_count);
    size_t array_bytes = state->parameter_count * sizeof(float);
    memcpy(out + TRAINER_HEAD_BYTES, state->parameters, array_bytes);
    memcpy(out + TRAINER_HEAD_BYTES + array_bytes, state->velocities, array_bytes);
}

int trainer_state_decode(struct trainer_state *state, const uint8_t fingerprint[TRAINER_FINGERPRINT_BYTES],
                         const uint8_t *bytes, size_t count, const char **why)
{
    if (count < TRAINER_HEAD_BYTES || memcmp(bytes, magic, 8) != 0) {
        *why = "is not one of shoal-train";
        return ERR_MALFORMED;
    }
    if (bytes_get_u32(bytes + 8) != VERSION) {
        *why = "is of another version of shoal-train";
        return ERR_VERSION;
    }
    if (memcmp(bytes + 16, fingerprint, TRAINER_FINGERPRINT_BYTES) != 0) {
        *why = "is of another model, data set, seed or choice of hyperparameters";
        return ERR_REFUSED;
    }
    if (bytes_get_u64(bytes + 48) != state->parameter_count || count != trainer_state_bytes(state)) {
        *why = "does not have the length that its head announces";
        return ERR_MALFORMED;
    }
    uint64_t loss_bits = bytes_get_u64(bytes + 64);
    size_t array_bytes = state->parameter_count * sizeof(float);
    state->step = bytes_get_u64(bytes + 56);
    memcpy(&state->loss_sum, &loss_bits, sizeof loss_bits);
    state->loss_count = bytes_get_u64(bytes + 72);
    memcpy(state->parameters, bytes + TRAINER_HEAD_BYTES, array_bytes);
    memcpy(state->velocities, bytes + TRAINER_HEAD_BYTES + array_bytes, array_bytes);
    return 0;
}
