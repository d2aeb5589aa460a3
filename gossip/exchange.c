#include "gossip/exchange.h"

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"

#define BITMAP_BYTES (RECORDS_BUCKETS / 8)

_Static_assert(EXCHANGE_KEY_BYTES == sizeof(record_ident) + 16, "a key is an ident and a version");
_Static_assert(EXCHANGE_PULL_BYTES_MAX >= EXCHANGE_MESSAGE_BYTES_MAX / EXCHANGE_KEY_BYTES * sizeof(record_ident),
               "all keys of a message can be pulled at once");
_Static_assert(EXCHANGE_MESSAGE_BYTES_MAX >= RECORD_ENVELOPE_BYTES_MAX, "every record fits a message");
_Static_assert(EXCHANGE_MESSAGE_BYTES_MAX >= EXCHANGE_BUCKETS_BYTES, "the bucket hashes fit a message");

void exchange_buckets(const struct records *records, uint8_t out[EXCHANGE_BUCKETS_BYTES])
{
    for (size_t i = 0; i < RECORDS_BUCKETS; i++) {
        bytes_put_u64(out + 16 * i, records->bucket_hashes[i].words[0]);
        bytes_put_u64(out + 16 * i + 8, records->bucket_hashes[i].words[1]);
    }
}

static size_t clamp(size_t capacity)
{
    return capacity < EXCHANGE_MESSAGE_BYTES_MAX ? capacity : EXCHANGE_MESSAGE_BYTES_MAX;
}

/* Appends the keys of the bucket's published entries, beginning at the `skip`-th, at most `keys_max`. */
static uint8_t *append_keys(const struct records *records, uint32_t bucket, size_t skip, size_t keys_max, uint8_t *p)
{
    for (const struct records_entry *e = records->buckets[bucket]; e != NULL && keys_max > 0; e = e->next_in_bucket) {
        if (!e->published) {
            continue;
        }
        if (skip > 0) {
            skip--;
            continue;
        }
        memcpy(p, e->ident.bytes, sizeof e->ident.bytes);
        bytes_put_u64(p + 16, e->record.version.boot);
        bytes_put_u64(p + 24, e->record.version.seq);
        p += EXCHANGE_KEY_BYTES;
        keys_max--;
    }
    return p;
}

int exchange_on_buckets(const struct records *records, const uint8_t *bytes, size_t count, uint32_t rotate,
                        uint8_t *out, size_t capacity, size_t *out_bytes)
{
    if (count != EXCHANGE_BUCKETS_BYTES) {
        return ERR_MALFORMED;
    }
    uint32_t differing[RECORDS_BUCKETS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < RECORDS_BUCKETS; i++) {
        struct records_hash theirs = {{bytes_get_u64(bytes + 16 * i), bytes_get_u64(bytes + 16 * i + 8)}};
        if (!records_hash_equal(theirs, records->bucket_hashes[i])) {
            differing[n++] = i;
        }
    }
    if (n == 0 || clamp(capacity) < BITMAP_BYTES) {
        *out_bytes = 0;
        return 0;
    }

    size_t keys_max = (clamp(capacity) - BITMAP_BYTES) / EXCHANGE_KEY_BYTES;
    size_t keys = 0;
    for (uint32_t i = 0; i < n; i++) {
        keys += records->published_counts[differing[i]];
    }
    if (keys > 0 && keys_max == 0) {
        *out_bytes = 0;
        return 0;
    }
    size_t kept = keys > keys_max; /* room for at least one key of a bucket beyond the capacity */
    size_t room = keys_max - kept;
    uint32_t part = RECORDS_BUCKETS;
    memset(out, 0, BITMAP_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bucket = differing[(rotate % n + i) % n];
        if (records->published_counts[bucket] <= room) {
            room -= records->published_counts[bucket];
            out[bucket / 8] = (uint8_t)(out[bucket / 8] | 1u << bucket % 8);
        } else if (i == 0) {
            /* The bucket would never fit: each turn is spent on a slice. */
            size_t slices = (records->published_counts[bucket] + keys_max - 1) / keys_max;
            size_t slice = rotate / n % slices;
            uint8_t *end = append_keys(records, bucket, slice * keys_max, keys_max, out + BITMAP_BYTES);
            *out_bytes = (size_t)(end - out);
            return 0;
        } else if (part == RECORDS_BUCKETS) {
            part = bucket;
        }
    }
    /* In the order of buckets, so the keys ascend and the peer can merge. */
    uint8_t *p = out + BITMAP_BYTES;
    for (uint32_t bucket = 0; bucket < RECORDS_BUCKETS; bucket++) {
        if ((out[bucket / 8] >> bucket % 8 & 1) != 0) {
            p = append_keys(records, bucket, 0, records->published_counts[bucket], p);
        } else if (bucket == part) {
            p = append_keys(records, bucket, 0, room + kept, p);
        }
    }
    *out_bytes = (size_t)(p - out);
    CHECK(*out_bytes <= capacity);
    return 0;
}

struct answer {
    uint8_t *pull, *out;
    size_t pull_capacity, pull_bytes;
    size_t capacity, out_bytes;
    record_ident start; /* the first lap sends the records from here on, the second lap those before */
    bool is_second_lap;
    bool is_cut;
    record_ident next; /* is_cut: the first record that did not fit */
};

static void answer_pull(struct answer *answer, const uint8_t *ident)
{
    if (!answer->is_second_lap && answer->pull_capacity - answer->pull_bytes >= sizeof(record_ident)) {
        memcpy(answer->pull + answer->pull_bytes, ident, sizeof(record_ident));
        answer->pull_bytes += sizeof(record_ident);
    }
}

/* Leaves out a record without room; a later, shorter record may still fit. */
static void answer_record(struct answer *answer, const struct records_entry *entry)
{
    bool is_before = record_ident_compare(entry->ident, answer->start) < 0;
    if (!entry->published || entry->envelope_bytes > answer->capacity || is_before != answer->is_second_lap) {
        return;
    }
    if (answer->capacity - answer->out_bytes >= entry->envelope_bytes) {
        memcpy(answer->out + answer->out_bytes, entry->envelope, entry->envelope_bytes);
        answer->out_bytes += entry->envelope_bytes;
    } else if (!answer->is_cut) {
        answer->is_cut = true;
        answer->next = entry->ident;
    }
}

static int keys_check(const uint8_t *bytes, size_t count)
{
    if (count < BITMAP_BYTES || count > EXCHANGE_MESSAGE_BYTES_MAX ||
        (count - BITMAP_BYTES) % EXCHANGE_KEY_BYTES != 0) {
        return ERR_MALFORMED;
    }
    for (size_t at = BITMAP_BYTES + EXCHANGE_KEY_BYTES; at < count; at += EXCHANGE_KEY_BYTES) {
        if (memcmp(bytes + at - EXCHANGE_KEY_BYTES, bytes + at, sizeof(record_ident)) >= 0) {
            return ERR_MALFORMED;
        }
    }
    return 0;
}

bool exchange_keys_are_all(const uint8_t *bytes, size_t count)
{
    for (size_t at = BITMAP_BYTES; at < count; at += EXCHANGE_KEY_BYTES) {
        if ((bytes[bytes[at] / 8] >> bytes[at] % 8 & 1) == 0) {
            return false;
        }
    }
    return true;
}

/* Merges one bucket's list with the peer's keys in [key, end). Both ascend by ident. */
static void merge_bucket(const struct records_entry *mine, bool whole, const uint8_t *key, const uint8_t *end,
                         struct answer *answer)
{
    while (mine != NULL || key < end) {
        int order = mine == NULL ? 1 : key == end ? -1 : memcmp(mine->ident.bytes, key, sizeof mine->ident.bytes);
        if (order < 0) {
            if (whole) {
                answer_record(answer, mine);
            }
        } else if (order > 0) {
            MARK(missing_record_pulled);
            answer_pull(answer, key);
        } else {
            struct record_version theirs = {bytes_get_u64(key + 16), bytes_get_u64(key + 24)};
            int newer = record_version_compare(mine->record.version, theirs);
            if (newer > 0) {
                answer_record(answer, mine);
            } else if (newer < 0) {
                MARK(newer_version_pulled);
                answer_pull(answer, key);
            }
        }
        if (order <= 0) {
            mine = mine->next_in_bucket;
        }
        if (order >= 0) {
            key += EXCHANGE_KEY_BYTES;
        }
    }
}

static void merge_keys(const struct records *records, const uint8_t *bytes, size_t count, struct answer *answer)
{
    const uint8_t *key = bytes + BITMAP_BYTES;
    for (uint32_t bucket = 0; bucket < RECORDS_BUCKETS; bucket++) {
        const uint8_t *end = key;
        while (end < bytes + count && *end == bucket) {
            end += EXCHANGE_KEY_BYTES;
        }
        bool whole = (bytes[bucket / 8] >> bucket % 8 & 1) != 0;
        if (whole || key < end) {
            merge_bucket(records->buckets[bucket], whole, key, end, answer);
        }
        key = end;
    }
}

int exchange_on_keys(const struct records *records, const uint8_t *bytes, size_t count, record_ident *start, uint8_t *pull,
                     size_t pull_capacity, size_t *pull_bytes, uint8_t *out, size_t capacity, size_t *out_bytes)
{
    if (keys_check(bytes, count) != 0) {
        return ERR_MALFORMED;
    }
    struct answer answer = {.pull = pull, .pull_capacity = clamp(pull_capacity), .out = out, .capacity = clamp(capacity),
                            .start = *start};
    merge_keys(records, bytes, count, &answer);
    answer.is_second_lap = true;
    merge_keys(records, bytes, count, &answer);
    *start = answer.is_cut ? answer.next : *start;
    *pull_bytes = answer.pull_bytes;
    *out_bytes = answer.out_bytes;
    return 0;
}

int exchange_on_pull(const struct records *records, const uint8_t *bytes, size_t count, record_ident *start, uint8_t *out,
                     size_t capacity, size_t *out_bytes)
{
    if (count > EXCHANGE_MESSAGE_BYTES_MAX || count % sizeof(record_ident) != 0) {
        return ERR_MALFORMED;
    }
    struct answer answer = {.out = out, .capacity = clamp(capacity), .start = *start};
    for (int lap = 0; lap < 2; lap++) {
        answer.is_second_lap = lap == 1;
        for (size_t at = 0; at < count; at += sizeof(record_ident)) {
            record_ident ident;
            memcpy(ident.bytes, bytes + at, sizeof ident.bytes);
            const struct records_entry *entry = records_find(records, ident);
            if (entry != NULL) {
                answer_record(&answer, entry);
            }
        }
    }
    *start = answer.is_cut ? answer.next : *start;
    *out_bytes = answer.out_bytes;
    return 0;
}
