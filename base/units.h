#ifndef BASE_UNITS_H
#define BASE_UNITS_H
/* Durations and sizes as people write them. Pure. */

#include <stddef.h>
#include <stdint.h>

#define UNITS_TIME_WORDS "s, m, h and d, such as 90s, 5m or 1h30m"
#define UNITS_SIZE_WORDS "K, M, G and T (of 1,024; also KiB, MiB, GiB and TiB), such as 512M or 16G"
#define UNITS_BYTES 32

/* Reads "90", "90s", "5m", "1h30m", "7d": seconds, or whole numbers with units, the larger unit first, each at most once. 0, or
 * ERR_MALFORMED: something else, or more than `max_s`; then `*out` is unchanged. */
int units_read_time(const char *text, uint64_t max_s, uint64_t *out);

/* Reads "4096", "512M", "16 GiB": bytes, or one whole number with a unit. 0, or ERR_MALFORMED as above. */
int units_read_size(const char *text, uint64_t max_bytes, uint64_t *out);

/* Writes the shortest text that reads back as the same number: "1h30m", "16G", "100". */
void units_write_time(char out[UNITS_BYTES], uint64_t seconds);
void units_write_size(char out[UNITS_BYTES], uint64_t bytes);

#endif
