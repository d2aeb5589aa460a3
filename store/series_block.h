#ifndef STORE_SERIES_BLOCK_H
#define STORE_SERIES_BLOCK_H
/* A block: consecutive entries of one series, compressed together by zstd. On disk only, never sent. Private to store/.
 *
 *     u8 version (1), u8 form (0 plain, 1 zstd), u64 sequence of the first entry, u32 entries, u32 bytes of the plain form,
 *     then the plain form, compressed if the form is 1
 *
 * The plain form has for each entry two numbers in groups of seven bits, the lowest first (the top bit of a byte tells that
 * another one follows): what its sequence number is above that of the entry before (above the block's first for the first
 * entry: 0), and its bytes. The bytes of all entries follow in the same order. Numbers of 8 bytes and 4 bytes are big-endian. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One entry; `bytes` is borrowed. */
struct series_block_entry {
    uint64_t sequence;
    const uint8_t *bytes;
    size_t count;
};

/* Makes a block of at least one entry with ascending sequence numbers. The caller frees `*out`. ERR_MEMORY. */
int series_block_make(const struct series_block_entry *entries, size_t entry_count, uint8_t **out, size_t *out_bytes);

/* The sequence number of the first entry. ERR_CORRUPT: too short; ERR_VERSION: of a later program. */
int series_block_first(const uint8_t *block, size_t block_bytes, uint64_t *sequence);

/* The bytes of the plain form, no more than any block has; of a block that cannot be read, its own. */
size_t series_block_bytes(const uint8_t *block, size_t block_bytes);

/* Entries of an open block, one after another. */
struct series_block {
    uint8_t *plain;
    size_t heads_at, heads_end, bytes_at, plain_bytes;
    uint32_t left;
    uint64_t sequence;
};

/* Expands a block; the caller closes it. ERR_CORRUPT, ERR_VERSION, ERR_MEMORY. */
int series_block_open(const uint8_t *block, size_t block_bytes, struct series_block *out);

/* Gives the next entry, whose bytes are valid until series_block_close. False: there is none. */
bool series_block_next(struct series_block *block, struct series_block_entry *out);

/* Frees what series_block_open took. A zeroed block may be closed, too. */
void series_block_close(struct series_block *block);

#endif
