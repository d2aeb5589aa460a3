#include "tests/unit/idx_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"

void idx_file_write(const char *directory, const char *name, const uint8_t *bytes, size_t count, bool packed)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s%s", directory, name, packed ? ".gz" : "");
    if (packed) {
        gzFile file = gzopen(path, "wb6");
        CHECK(file != NULL);
        CHECK(count == 0 || gzwrite(file, bytes, (unsigned)count) == (int)count);
        CHECK(gzclose(file) == Z_OK);
    } else {
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL);
        CHECK(fwrite(bytes, 1, count, file) == count);
        CHECK(fclose(file) == 0);
    }
}

static void write_pair(const char *directory, const char *prefix, uint32_t count, uint32_t side, bool packed,
                       struct random *random)
{
    size_t features = (size_t)side * side;
    uint8_t *images = malloc(16 + count * features), *labels = malloc(8 + (size_t)count);
    CHECK(images != NULL && labels != NULL);
    bytes_put_u32(images, 0x803);
    bytes_put_u32(images + 4, count);
    bytes_put_u32(images + 8, side);
    bytes_put_u32(images + 12, side);
    bytes_put_u32(labels, 0x801);
    bytes_put_u32(labels + 4, count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t label = (uint8_t)random_below(random, 10);
        labels[8 + i] = label;
        for (size_t k = 0; k < features; k++) {
            uint64_t pattern = random_mix(label * 1000 + k) % 160; /* a class is a pattern */
            images[16 + i * features + k] = (uint8_t)(pattern + random_below(random, 96));
        }
    }
    char name[64];
    (void)snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    idx_file_write(directory, name, images, 16 + count * features, packed);
    (void)snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    idx_file_write(directory, name, labels, 8 + (size_t)count, packed);
    free(images);
    free(labels);
}

void idx_set_write(const char *directory, uint32_t train_count, uint32_t test_count, uint32_t side, bool packed)
{
    struct random random;
    random_init(&random, 5);
    write_pair(directory, "train", train_count, side, packed, &random);
    write_pair(directory, "t10k", test_count, side, packed, &random);
}

void idx_directory_make(char out[64])
{
    strcpy(out, "/tmp/shoal-idx-XXXXXX");
    CHECK(mkdtemp(out) != NULL);
}

void idx_directory_remove(const char *directory)
{
    DIR *list = opendir(directory);
    CHECK(list != NULL);
    const struct dirent *entry;
    while ((entry = readdir(list)) != NULL) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        (void)unlink(path);
    }
    (void)closedir(list);
    CHECK(rmdir(directory) == 0);
}
