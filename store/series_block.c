#include "store/series_block.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/bytes.h"
#include "base/err.h"

#define VERSION 1
#define FORM_PLAIN 0
#define FORM_ZSTD 1
#define HEAD_BYTES 18
#define NUMBER_BYTES_MAX 10
#define PLAIN_BYTES_MAX (8u << 20) /* more than any block has: a damaged head asks for no more memory */
#define LEVEL 3                    /* zstd's own default */

static size_t number_put(uint8_t *out, uint64_t number)
{
    size_t used = 0;
    while (number >= 0x80) {
        out[used++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    out[used++] = (uint8_t)number;
    return used;
}

/* False: the bytes end within the number, or it has more than 64 bits. */
static bool number_get(const uint8_t *bytes, size_t end, size_t *at, uint64_t *number)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = bytes[(*at)++];
        if (shift == 63 && byte > 1) {
            return false;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = value;
            return true;
        }
    }
    return false;
}

static size_t plain_write(const struct series_block_entry *entries, size_t entry_count, uint8_t *out)
{
    size_t used = 0;
    uint64_t before = entries[0].sequence;
    for (size_t i = 0; i < entry_count; i++) {
        used += number_put(out + used, entries[i].sequence - before);
        used += number_put(out + used, entries[i].count);
        before = entries[i].sequence;
    }
    for (size_t i = 0; i < entry_count; i++) {
        if (entries[i].count > 0) {
            memcpy(out + used, entries[i].bytes, entries[i].count);
        }
        used += entries[i].count;
    }
    return used;
}

int series_block_make(const struct series_block_entry *entries, size_t entry_count, uint8_t **out, size_t *out_bytes)
{
    size_t most = entry_count * 2 * NUMBER_BYTES_MAX;
    for (size_t i = 0; i < entry_count; i++) {
        most += entries[i].count;
    }
    size_t room = ZSTD_compressBound(most);
    uint8_t *plain = malloc(most), *block = malloc(HEAD_BYTES + room);
    if (plain == NULL || block == NULL) {
        free(plain);
        free(block);
        return ERR_MEMORY;
    }
    size_t plain_bytes = plain_write(entries, entry_count, plain);
    size_t bytes = ZSTD_compress(block + HEAD_BYTES, room, plain, plain_bytes, LEVEL);
    bool is_smaller = !ZSTD_isError(bytes) && bytes < plain_bytes;
    if (!is_smaller) {
        memcpy(block + HEAD_BYTES, plain, plain_bytes); /* the room is at least as large */
        bytes = plain_bytes;
    }
    block[0] = VERSION;
    block[1] = is_smaller ? FORM_ZSTD : FORM_PLAIN;
    bytes_put_u64(block + 2, entries[0].sequence);
    bytes_put_u32(block + 10, (uint32_t)entry_count);
    bytes_put_u32(block + 14, (uint32_t)plain_bytes);
    free(plain);
    *out = block;
    *out_bytes = HEAD_BYTES + bytes;
    return 0;
}

int series_block_first(const uint8_t *block, size_t block_bytes, uint64_t *sequence)
{
    if (block_bytes < 2 || (block[0] == VERSION && block_bytes < HEAD_BYTES)) {
        return ERR_CORRUPT;
    }
    if (block[0] != VERSION || block[1] > FORM_ZSTD) {
        return ERR_VERSION;
    }
    *sequence = bytes_get_u64(block + 2);
    return 0;
}

size_t series_block_bytes(const uint8_t *block, size_t block_bytes)
{
    uint64_t first;
    size_t plain_bytes = series_block_first(block, block_bytes, &first) == 0 ? bytes_get_u32(block + 14) : block_bytes;
    return plain_bytes < PLAIN_BYTES_MAX ? plain_bytes : PLAIN_BYTES_MAX;
}

/* Finds where the entries' bytes begin, and checks that the plain form has them all and no more. */
static bool plain_check(struct series_block *block)
{
    size_t at = 0;
    uint64_t sum = 0, sequence = block->sequence;
    for (uint32_t i = 0; i < block->left; i++) {
        uint64_t above, count;
        if (!number_get(block->plain, block->plain_bytes, &at, &above) || !number_get(block->plain, block->plain_bytes, &at, &count) ||
            above > UINT64_MAX - sequence || count > block->plain_bytes || (i > 0 && above == 0)) {
            return false;
        }
        sequence += above;
        sum += count;
    }
    block->heads_end = block->bytes_at = at;
    return sum == block->plain_bytes - at;
}

int series_block_open(const uint8_t *block, size_t block_bytes, struct series_block *out)
{
    struct series_block opened = {.plain = NULL};
    int code = series_block_first(block, block_bytes, &opened.sequence);
    if (code != 0) {
        return code;
    }
    opened.left = bytes_get_u32(block + 10);
    opened.plain_bytes = bytes_get_u32(block + 14);
    if (opened.plain_bytes > PLAIN_BYTES_MAX) {
        return ERR_CORRUPT;
    }
    opened.plain = malloc(opened.plain_bytes + 1);
    if (opened.plain == NULL) {
        return ERR_MEMORY;
    }
    size_t stored = block_bytes - HEAD_BYTES;
    bool is_whole;
    if (block[1] == FORM_ZSTD) {
        is_whole = ZSTD_decompress(opened.plain, opened.plain_bytes, block + HEAD_BYTES, stored) == opened.plain_bytes;
    } else {
        is_whole = stored == opened.plain_bytes;
        memcpy(opened.plain, block + HEAD_BYTES, is_whole ? stored : 0);
    }
    if (!is_whole || !plain_check(&opened)) {
        free(opened.plain);
        return ERR_CORRUPT;
    }
    *out = opened;
    return 0;
}

bool series_block_next(struct series_block *block, struct series_block_entry *out)
{
    uint64_t above, count;
    if (block->left == 0 || !number_get(block->plain, block->heads_end, &block->heads_at, &above) ||
        !number_get(block->plain, block->heads_end, &block->heads_at, &count)) {
        return false;
    }
    block->left--;
    block->sequence += above;
    *out = (struct series_block_entry){.sequence = block->sequence, .bytes = block->plain + block->bytes_at, .count = (size_t)count};
    block->bytes_at += (size_t)count;
    return true;
}

void series_block_close(struct series_block *block)
{
    free(block->plain);
    *block = (struct series_block){.plain = NULL};
}
