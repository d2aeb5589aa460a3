#ifndef TESTS_UNIT_IDX_FILES_H
#define TESTS_UNIT_IDX_FILES_H
/* Writes data sets in MNIST's format for tests. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes bytes to DIRECTORY/NAME, or packed with gzip to DIRECTORY/NAME.gz. */
void idx_file_write(const char *directory, const char *name, const uint8_t *bytes, size_t count, bool packed);

/* Four files of images of `side` x `side` pixels in 10 classes that a small network can tell apart, with noise. */
void idx_set_write(const char *directory, uint32_t train_count, uint32_t test_count, uint32_t side, bool packed);

/* Makes a directory of its own under /tmp; `out` holds 64 chars. Removes it with its files. */
void idx_directory_make(char out[64]);
void idx_directory_remove(const char *directory);

#endif
