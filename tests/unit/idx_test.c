#include "train/trainer/idx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/random.h"
#include "tests/unit/idx_files.h"

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

static char directory[64];
static char error[IDX_ERROR_BYTES];

static int make_directory(void **state)
{
    (void)state;
    idx_directory_make(directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    idx_directory_remove(directory);
    return 0;
}

/* 3 images of 2 x 4, pixels 0 ... 23, with a changed number in the head where `at` is not 0. */
static size_t images_bytes(uint8_t out[64], size_t at, uint32_t value)
{
    static const uint32_t head[4] = {0x803, 3, 2, 4};
    for (size_t i = 0; i < 4; i++) {
        bytes_put_u32(out + 4 * i, head[i]);
    }
    if (at < 16) {
        bytes_put_u32(out + at, value);
    }
    for (size_t i = 0; i < 24; i++) {
        out[16 + i] = (uint8_t)i;
    }
    return 40;
}

static void expect_images_error(int code, const char *text)
{
    struct idx_images images = {.count = 99};
    int result = idx_images_read(directory, IMAGES, &images, error);
    if (strstr(error, text) == NULL) {
        print_error("%s\n", error);
    }
    assert_int_equal(result, code);
    assert_non_null(strstr(error, text));
    assert_non_null(strstr(error, IMAGES)); /* every error names the file */
    assert_null(strchr(error, '\n'));
    assert_int_equal(images.count, 99); /* untouched on failure */
}

static void test_plain_and_packed_files_read_the_same(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        uint8_t bytes[64];
        size_t count = images_bytes(bytes, 99, 0);
        idx_file_write(directory, IMAGES, bytes, count, packed != 0);
        struct idx_images images;
        assert_int_equal(idx_images_read(directory, IMAGES, &images, error), 0);
        assert_int_equal(images.count, 3);
        assert_int_equal(images.rows, 2);
        assert_int_equal(images.columns, 4);
        assert_memory_equal(images.pixels, bytes + 16, 24);
        idx_images_free(&images);
        assert_null(images.pixels);
    }
}

static void test_a_wrong_head_is_named(void **state)
{
    (void)state;
    uint8_t bytes[64];
    size_t count = images_bytes(bytes, 0, 0x801);
    idx_file_write(directory, IMAGES, bytes, count, false);
    expect_images_error(ERR_MALFORMED, "magic number is 0x00000801; an IDX file of images begins with 0x00000803");
    count = images_bytes(bytes, 8, 0);
    idx_file_write(directory, IMAGES, bytes, count, false);
    expect_images_error(ERR_MALFORMED, "dimension 2 is 0");
    count = images_bytes(bytes, 4, 0xffffffff);
    idx_file_write(directory, IMAGES, bytes, count, false);
    expect_images_error(ERR_MALFORMED, "dimension 1 is 4294967295");
    count = images_bytes(bytes, 12, 0x40000000); /* the product does not wrap */
    idx_file_write(directory, IMAGES, bytes, count, false);
    expect_images_error(ERR_MALFORMED, "dimension 3 is 1073741824");
}

static void test_counts_must_match_the_data(void **state)
{
    (void)state;
    uint8_t bytes[64];
    size_t count = images_bytes(bytes, 4, 4);
    idx_file_write(directory, IMAGES, bytes, count, false);
    expect_images_error(ERR_CORRUPT, "announces 32 bytes of data, the file holds 24");
    count = images_bytes(bytes, 4, 2);
    idx_file_write(directory, IMAGES, bytes, count, false);
    expect_images_error(ERR_MALFORMED, "data after the 16 bytes");
    for (size_t cut = 0; cut < 16; cut++) {
        (void)images_bytes(bytes, 99, 0);
        idx_file_write(directory, IMAGES, bytes, cut, false);
        expect_images_error(ERR_CORRUPT, cut < 4 ? "within the magic number" : "of head");
    }
}

static void test_labels_are_checked(void **state)
{
    (void)state;
    uint8_t bytes[11] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 9, 4};
    struct idx_labels labels;
    idx_file_write(directory, LABELS, bytes, 11, false);
    assert_int_equal(idx_labels_read(directory, LABELS, 3, 10, &labels, error), 0);
    assert_int_equal(labels.count, 3);
    assert_memory_equal(labels.labels, bytes + 8, 3);
    idx_labels_free(&labels);
    assert_int_equal(idx_labels_read(directory, LABELS, 4, 10, &labels, error), ERR_MALFORMED);
    assert_non_null(strstr(error, "3 labels for 4 images"));
    assert_int_equal(idx_labels_read(directory, LABELS, 3, 9, &labels, error), ERR_MALFORMED);
    assert_non_null(strstr(error, "label 1 is 9; labels are 0 to 8"));
}

static void test_a_missing_file_is_named(void **state)
{
    (void)state;
    struct idx_images images;
    assert_int_equal(idx_images_read("/nonexistent", "x-images", &images, error), ERR_NOT_FOUND);
    assert_non_null(strstr(error, "/nonexistent/x-images: there is no such file"));
}

/* Cut a packed file at every length, and flip bytes: an error or the right data, never anything else. */
static void test_damaged_gzip_is_noticed(void **state)
{
    (void)state;
    static uint8_t plain[16 + 5000], packed[8192];
    struct random random;
    random_init(&random, 1);
    bytes_put_u32(plain, 0x803);
    bytes_put_u32(plain + 4, 50);
    bytes_put_u32(plain + 8, 10);
    bytes_put_u32(plain + 12, 10);
    for (size_t i = 16; i < sizeof plain; i++) {
        plain[i] = (uint8_t)random_below(&random, 8);
    }
    idx_file_write(directory, IMAGES, plain, sizeof plain, true);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s.gz", directory, IMAGES);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t packed_bytes = fread(packed, 1, sizeof packed, file);
    (void)fclose(file);
    assert_true(packed_bytes > 1000 && packed_bytes < sizeof packed);
    for (size_t cut = 0; cut < packed_bytes; cut += 1 + cut / 16) {
        idx_file_write(directory, IMAGES ".gz", packed, cut, false);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "cut short: the file ends at byte %zu", cut);
        expect_images_error(ERR_CORRUPT, expected);
    }
    for (size_t at = 0; at < packed_bytes; at += 7) {
        packed[at] ^= 0x24;
        idx_file_write(directory, IMAGES ".gz", packed, packed_bytes, false);
        packed[at] ^= 0x24;
        struct idx_images images;
        int result = idx_images_read(directory, IMAGES, &images, error);
        if (result == 0) { /* a byte of gzip's own head, such as its time stamp */
            assert_true(at < 10);
            assert_memory_equal(images.pixels, plain + 16, 5000);
            idx_images_free(&images);
        } else {
            assert_true(result == ERR_CORRUPT || result == ERR_MALFORMED);
            assert_non_null(strstr(error, IMAGES));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain_and_packed_files_read_the_same, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_a_wrong_head_is_named, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_counts_must_match_the_data, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_labels_are_checked, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_damaged_gzip_is_noticed, make_directory, remove_directory),
        cmocka_unit_test(test_a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
