/* pattern_worker STEPS MARKER HEX: a worker whose gradients everybody knows. Each step all-reduces a buffer that repeats the
 * 16 floats of HEX (little-endian), checks that the sum is right and reports a metric named MARKER; every tenth step it saves
 * a checkpoint full of the pattern. What the mesh sends meanwhile is captured by the test and searched for both. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/shoal/shoal.h"

#define PATTERN_FLOATS 16
#define FLOATS (64 * 1024)

static int read_pattern(const char *hex, float pattern[PATTERN_FLOATS])
{
    unsigned char bytes[PATTERN_FLOATS * 4];
    if (strlen(hex) != 2 * sizeof bytes) {
        return -1;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'}, *end;
        bytes[i] = (unsigned char)strtoul(digits, &end, 16);
        if (*end != '\0') {
            return -1;
        }
    }
    memcpy(pattern, bytes, sizeof bytes);
    return 0;
}

static int run(struct shoal *shoal, unsigned long steps, const char *marker, const float pattern[PATTERN_FLOATS])
{
    static float gradient[FLOATS];
    float ranks = (float)shoal_size(shoal);
    for (unsigned long step = shoal_start_step(shoal) + 1; step <= steps; step++) {
        for (size_t i = 0; i < FLOATS; i++) {
            gradient[i] = pattern[i % PATTERN_FLOATS];
        }
        int code = step % 10 == 0 ? shoal_checkpoint_save(shoal, step, gradient, sizeof gradient) : 0;
        if (code == 0) {
            code = shoal_all_reduce_f32(shoal, gradient, FLOATS);
        }
        double value = (double)step;
        if (code == 0 && shoal_rank(shoal) == 0) {
            code = shoal_report(shoal, "training", step, &marker, &value, 1);
        }
        if (code != 0) {
            fprintf(stderr, "step %lu: %s\n", step, shoal_error(shoal));
            return 1;
        }
        for (size_t i = 0; i < FLOATS; i++) {
            if (gradient[i] != ranks * pattern[i % PATTERN_FLOATS]) {
                fprintf(stderr, "step %lu: element %zu is wrong\n", step, i);
                return 1;
            }
        }
    }
    return shoal_flush(shoal, 20000) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    float pattern[PATTERN_FLOATS];
    if (argc != 4 || read_pattern(argv[3], pattern) != 0) {
        fprintf(stderr, "usage: pattern_worker STEPS MARKER HEX\n");
        return 2;
    }
    struct shoal *shoal;
    char error[SHOAL_ERROR_BYTES];
    if (shoal_open(&shoal, error) != 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int status = run(shoal, strtoul(argv[1], NULL, 10), argv[2], pattern);
    shoal_close(&shoal);
    return status;
}
