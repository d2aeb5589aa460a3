#ifndef TRAIN_TRAINER_IDX_H
#define TRAIN_TRAINER_IDX_H
/* Reads the IDX files of MNIST and similar sets, plain or packed with gzip. Everything in them is checked; an error is one
 * sentence with the file's name and the place and kind of the fault. */

#include <stddef.h>
#include <stdint.h>

#define IDX_ERROR_BYTES 512
#define IDX_BYTES_MAX (1024u * 1024 * 1024) /* unpacked */

/* Grey images, one byte per pixel. */
struct idx_images {
    uint32_t count, rows, columns;
    uint8_t *pixels; /* [count][rows][columns]; free with idx_images_free */
};

/* A class for each image. */
struct idx_labels {
    uint32_t count;
    uint8_t *labels; /* [count]; free with idx_labels_free */
};

/* Reads DIRECTORY/NAME.gz if it exists, else DIRECTORY/NAME. The caller frees *out. ERR_NOT_FOUND, ERR_MALFORMED (not the
 * format), ERR_CORRUPT (damaged or cut short), ERR_IO, ERR_MEMORY; `error` then holds a sentence, *out is untouched. */
int idx_images_read(const char *directory, const char *name, struct idx_images *out, char error[IDX_ERROR_BYTES]);

/* The same for labels: there must be `expected_count` of them, each below `class_count`. */
int idx_labels_read(const char *directory, const char *name, uint32_t expected_count, uint32_t class_count,
                    struct idx_labels *out, char error[IDX_ERROR_BYTES]);

/* Free the arrays. NULL arrays are allowed. */
void idx_images_free(struct idx_images *images);
void idx_labels_free(struct idx_labels *labels);

#endif
