/* The main of a fuzz target is libFuzzer's. TARGET --write-seeds DIR writes the seeds, one file each, and ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *directory;
static unsigned seed_count;

void fuzz_seed(const void *bytes, size_t count)
{
    char path[4096];
    CHECK(count <= FUZZ_INPUT_BYTES_MAX);
    (void)snprintf(path, sizeof path, "%s/seed-%03u", directory, seed_count++);
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fwrite(bytes, 1, count, file) == count);
    CHECK(fclose(file) == 0);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    if (*count == 3 && strcmp((*arguments)[1], "--write-seeds") == 0) {
        directory = (*arguments)[2];
        fuzz_seeds();
        exit(0);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_one(data, size);
    return 0;
}
