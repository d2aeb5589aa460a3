/* IDX files: the first byte says 'i' images or 'l' labels, plain; 'I' or 'L', the same bytes packed with gzip; 'g' images from
 * bytes that are a gzip file already, or not quite. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"
#include "tests/unit/idx_files.h"
#include "train/trainer/idx.h"

#define CLASSES 10
#define LABELS 4

static void read_images(void)
{
    struct idx_images images;
    char error[IDX_ERROR_BYTES] = "";
    if (idx_images_read(scratch_directory(), "data", &images, error) == 0) {
        uint64_t sum = 0, count = (uint64_t)images.count * images.rows * images.columns;
        CHECK(count > 0 && count <= IDX_BYTES_MAX);
        for (uint64_t i = 0; i < count; i++) {
            sum += images.pixels[i];
        }
        CHECK(sum <= 255 * count);
        idx_images_free(&images);
    } else {
        CHECK(error[0] != '\0');
    }
}

static void read_labels(void)
{
    struct idx_labels labels;
    char error[IDX_ERROR_BYTES] = "";
    if (idx_labels_read(scratch_directory(), "data", LABELS, CLASSES, &labels, error) == 0) {
        CHECK(labels.count == LABELS);
        for (uint32_t i = 0; i < LABELS; i++) {
            CHECK(labels.labels[i] < CLASSES);
        }
        idx_labels_free(&labels);
    } else {
        CHECK(error[0] != '\0');
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    char kind = (char)data[0], path[128];
    bool packed = kind == 'I' || kind == 'L';
    idx_file_write(scratch_directory(), kind == 'g' ? "data.gz" : "data", data + 1, size - 1, packed);
    if (kind == 'l' || kind == 'L') {
        read_labels();
    } else {
        read_images();
    }
    (void)snprintf(path, sizeof path, "%s/data%s", scratch_directory(), packed || kind == 'g' ? ".gz" : "");
    CHECK(unlink(path) == 0);
}

void fuzz_seeds(void)
{
    uint8_t images[1 + 16 + 18] = {'i'}, labels[1 + 8 + LABELS] = {'l'};
    bytes_put_u32(images + 1, 0x803);
    bytes_put_u32(images + 5, 2);
    bytes_put_u32(images + 9, 3);
    bytes_put_u32(images + 13, 3);
    bytes_put_u32(labels + 1, 0x801);
    bytes_put_u32(labels + 5, LABELS);
    fuzz_seed(images, sizeof images);
    fuzz_seed(labels, sizeof labels);
    idx_file_write(scratch_directory(), "seed", images + 1, sizeof images - 1, true);
    char path[128];
    uint8_t packed[512] = {'g'};
    (void)snprintf(path, sizeof path, "%s/seed.gz", scratch_directory());
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t count = fread(packed + 1, 1, sizeof packed - 1, file);
    (void)fclose(file);
    CHECK(unlink(path) == 0);
    fuzz_seed(packed, count + 1);
    images[0] = 'I';
    labels[0] = 'L';
    fuzz_seed(images, sizeof images);
    fuzz_seed(labels, sizeof labels);
}
