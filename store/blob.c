#include "store/blob.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/pack.h"
#include "base/rendezvous.h"

int blob_cut_plan(uint64_t total_bytes, uint32_t chunk_bytes, struct blob_cut *out)
{
    if (chunk_bytes > BLOB_CHUNK_BYTES_MAX) {
        return ERR_USAGE;
    }
    bool may_grow = chunk_bytes == 0;
    uint64_t size = may_grow ? BLOB_CHUNK_BYTES : chunk_bytes;
    while (may_grow && size < BLOB_CHUNK_BYTES_MAX && total_bytes > size * BLOB_CHUNKS_MAX) {
        size *= 2;
    }
    if (total_bytes > size * BLOB_CHUNKS_MAX) {
        return ERR_FULL;
    }
    *out = (struct blob_cut){.total_bytes = total_bytes,
                             .chunk_bytes = (uint32_t)size,
                             .chunk_count = (uint32_t)((total_bytes + size - 1) / size)};
    return 0;
}

void blob_cut_chunk(const struct blob_cut *cut, uint32_t index, uint64_t *offset, uint32_t *bytes)
{
    CHECK(index < cut->chunk_count);
    *offset = (uint64_t)index * cut->chunk_bytes;
    uint64_t left = cut->total_bytes - *offset;
    *bytes = left < cut->chunk_bytes ? (uint32_t)left : cut->chunk_bytes;
}

/* The end of the part that begins at `start`. */
static uint64_t part_end(const struct blob_cut *cut, uint64_t start, size_t *next_cut)
{
    uint32_t least_bytes = cut->chunk_bytes / BLOB_CUTS_PER_CHUNK;
    while (*next_cut < cut->cut_count) {
        uint64_t at = cut->cuts[(*next_cut)++];
        uint64_t next = *next_cut < cut->cut_count ? cut->cuts[*next_cut] : cut->total_bytes;
        if (at > start && (at - start >= least_bytes || next - at >= least_bytes)) {
            return at;
        }
    }
    return cut->total_bytes;
}

static uint32_t equal_bytes(uint64_t part_bytes, uint32_t chunk_bytes)
{
    uint64_t count = (part_bytes + chunk_bytes - 1) / chunk_bytes;
    return (uint32_t)((part_bytes + count - 1) / count);
}

bool blob_cut_next(const struct blob_cut *cut, struct blob_cut_walk *walk)
{
    uint64_t offset = walk->offset + walk->bytes;
    if (offset == cut->total_bytes) {
        return false;
    }
    if (offset == walk->part_end) {
        walk->part_end = part_end(cut, offset, &walk->next_cut);
        walk->equal_bytes =
            cut->cut_count == 0 ? cut->chunk_bytes : equal_bytes(walk->part_end - offset, cut->chunk_bytes);
    }
    uint64_t left = walk->part_end - offset;
    walk->offset = offset;
    walk->bytes = left < walk->equal_bytes ? (uint32_t)left : walk->equal_bytes;
    return true;
}

/* The number of chunks of a plan with cuts. */
static uint64_t cut_chunks(const struct blob_cut *cut)
{
    uint64_t count = 0, start = 0;
    size_t next_cut = 0;
    while (start < cut->total_bytes) {
        uint64_t end = part_end(cut, start, &next_cut);
        uint32_t each = equal_bytes(end - start, cut->chunk_bytes);
        count += (end - start + each - 1) / each;
        start = end;
    }
    return count;
}

int blob_cut_plan_at(uint64_t total_bytes, const uint64_t *cuts, size_t cut_count, struct blob_cut *out)
{
    for (size_t i = 0; i < cut_count; i++) {
        if (cuts[i] >= total_bytes || (i > 0 && cuts[i] <= cuts[i - 1])) {
            return ERR_USAGE;
        }
    }
    struct blob_cut plain, cut;
    int rc = blob_cut_plan(total_bytes, 0, &plain);
    if (rc != 0) {
        return rc;
    }
    *out = plain;
    cut = plain;
    cut.cuts = cuts;
    cut.cut_count = cut_count;
    for (; cut_count > 0 && cut.chunk_bytes <= BLOB_CHUNK_BYTES_MAX; cut.chunk_bytes *= 2) {
        uint64_t count = cut_chunks(&cut);
        if (count <= BLOB_CHUNKS_MAX) {
            cut.chunk_count = (uint32_t)count;
            *out = cut;
            break;
        }
    }
    return 0;
}

/* ---- manifests ---- */

int blob_encode(const struct blob_manifest *manifest, uint8_t *out, size_t capacity_bytes, size_t *out_bytes)
{
    if (manifest->chunk_count > BLOB_CHUNKS_MAX) {
        return ERR_USAGE;
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        if (manifest->chunks[i].bytes == 0 || manifest->chunks[i].bytes > BLOB_CHUNK_BYTES_MAX) {
            return ERR_USAGE;
        }
        sum += manifest->chunks[i].bytes;
    }
    if (sum != manifest->total_bytes) {
        return ERR_USAGE;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, out, capacity_bytes);
    pack_array(&writer, 4);
    pack_u64(&writer, BLOB_VERSION);
    pack_u64(&writer, manifest->total_bytes);
    pack_array(&writer, manifest->chunk_count);
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        pack_u64(&writer, manifest->chunks[i].bytes);
    }
    /* The hashes are one binary value. They do not lie side by side in memory, so the head (bin 32) and the hashes are
     * written one by one. */
    uint32_t hash_bytes_all = manifest->chunk_count * HASH_BYTES;
    uint8_t head[5] = {0xc6};
    bytes_put_u32(head + 1, hash_bytes_all);
    pack_raw(&writer, head, sizeof head);
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        pack_raw(&writer, manifest->chunks[i].hash.bytes, HASH_BYTES);
    }
    if (writer.failed) {
        return ERR_FULL;
    }
    *out_bytes = writer.used_bytes;
    return 0;
}

/* The parts of a manifest that has been checked completely. */
struct parts {
    struct pack_reader sizes; /* positioned at the first size */
    const uint8_t *hashes;
    uint32_t chunk_count;
    uint64_t total_bytes;
};

static int parts_read(const uint8_t *bytes, size_t count, struct parts *out)
{
    struct parts parts;
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t fields = pack_read_array(&reader);
    uint64_t version = pack_read_u64(&reader);
    if (reader.failed || fields == 0) {
        return ERR_MALFORMED;
    }
    if (version != BLOB_VERSION) {
        return ERR_VERSION;
    }
    parts.total_bytes = pack_read_u64_max(&reader, BLOB_BYTES_MAX);
    parts.chunk_count = pack_read_array(&reader);
    if (reader.failed || fields != 4 || parts.chunk_count > BLOB_CHUNKS_MAX) {
        return ERR_MALFORMED;
    }
    parts.sizes = reader;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < parts.chunk_count; i++) {
        uint64_t size = pack_read_u64_max(&reader, BLOB_CHUNK_BYTES_MAX);
        if (reader.failed || size == 0) {
            return ERR_MALFORMED;
        }
        sum += size;
    }
    size_t hash_bytes_all;
    parts.hashes = pack_read_bin(&reader, &hash_bytes_all);
    if (!pack_at_end(&reader) || hash_bytes_all != (size_t)parts.chunk_count * HASH_BYTES || sum != parts.total_bytes) {
        return ERR_MALFORMED;
    }
    *out = parts;
    return 0;
}

int blob_decode_counts(const uint8_t *bytes, size_t count, uint32_t *chunk_count, uint64_t *total_bytes)
{
    struct parts parts;
    int rc = parts_read(bytes, count, &parts);
    if (rc != 0) {
        return rc;
    }
    *chunk_count = parts.chunk_count;
    *total_bytes = parts.total_bytes;
    return 0;
}

int blob_decode(const uint8_t *bytes, size_t count, struct blob_chunk *chunks, uint32_t capacity,
                struct blob_manifest *out)
{
    struct parts parts;
    int rc = parts_read(bytes, count, &parts);
    if (rc != 0) {
        return rc;
    }
    if (parts.chunk_count > capacity) {
        return ERR_FULL;
    }
    for (uint32_t i = 0; i < parts.chunk_count; i++) {
        chunks[i].bytes = (uint32_t)pack_read_u64(&parts.sizes);
        memcpy(chunks[i].hash.bytes, parts.hashes + (size_t)i * HASH_BYTES, HASH_BYTES);
    }
    *out = (struct blob_manifest){.chunks = chunks, .chunk_count = parts.chunk_count, .total_bytes = parts.total_bytes};
    return 0;
}

bool blob_next(const struct blob_manifest *manifest, struct blob_piece *piece)
{
    /* A zeroed piece has no bytes, and no chunk is empty: bytes == 0 means that this is the first call. */
    uint32_t index = piece->bytes == 0 ? 0 : piece->index + 1;
    if (index >= manifest->chunk_count) {
        return false;
    }
    *piece = (struct blob_piece){.hash = manifest->chunks[index].hash,
                                 .offset = piece->offset + piece->bytes,
                                 .bytes = manifest->chunks[index].bytes,
                                 .index = index};
    return true;
}

bool blob_is_wanted(const struct blob_piece *piece, const struct blob_range *ranges, size_t range_count)
{
    bool is_wanted = range_count == 0;
    for (size_t i = 0; i < range_count && !is_wanted; i++) {
        bool begins_before = ranges[i].from < piece->offset + piece->bytes;
        is_wanted = begins_before && ranges[i].count > 0 &&
                    (ranges[i].from >= piece->offset || piece->offset - ranges[i].from < ranges[i].count);
    }
    return is_wanted;
}

/* ---- fetching ---- */

void blob_fetch_init(struct blob_fetch *fetch, const struct blob_manifest *manifest, struct blob_fetch_slot *slots,
                     uint32_t in_flight_max)
{
    CHECK(in_flight_max >= 1 && in_flight_max <= BLOB_IN_FLIGHT_MAX);
    *fetch = (struct blob_fetch){.manifest = manifest, .slots = slots, .in_flight_max = in_flight_max};
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        slots[i] = (struct blob_fetch_slot){.state = BLOB_FETCH_WANTED};
    }
}

/* Removes an asked slot from the counts of questions in flight. */
static void slot_land(struct blob_fetch *fetch, struct blob_fetch_slot *slot)
{
    CHECK(slot->state == BLOB_FETCH_ASKED);
    CHECK(fetch->in_flight > 0 && fetch->holders[slot->holder].in_flight > 0);
    fetch->in_flight--;
    fetch->holders[slot->holder].in_flight--;
}

int blob_fetch_present(struct blob_fetch *fetch, uint32_t index)
{
    if (index >= fetch->manifest->chunk_count) {
        return ERR_USAGE;
    }
    struct blob_fetch_slot *slot = &fetch->slots[index];
    if (slot->state == BLOB_FETCH_PRESENT) {
        return 0;
    }
    if (slot->state == BLOB_FETCH_ASKED) {
        slot_land(fetch, slot);
    }
    slot->state = BLOB_FETCH_PRESENT;
    fetch->present_count++;
    return 0;
}

static uint32_t holder_find(const struct blob_fetch *fetch, node_id node)
{
    uint32_t h = 0;
    while (h < fetch->holder_count && !node_id_equal(fetch->holders[h].node, node)) {
        h++;
    }
    return h;
}

int blob_fetch_add_holder(struct blob_fetch *fetch, node_id node)
{
    uint32_t h = holder_find(fetch, node);
    if (h < fetch->holder_count) {
        fetch->holders[h].gone = false;
        fetch->holders[h].strikes = 0;
        for (uint32_t i = 0; i < fetch->manifest->chunk_count; i++) {
            fetch->slots[i].refused &= (uint16_t) ~(1u << h);
        }
        return 0;
    }
    if (h == BLOB_HOLDERS_MAX) {
        return ERR_FULL;
    }
    fetch->holders[fetch->holder_count++] = (struct blob_holder){.node = node};
    return 0;
}

static void slot_want_again(struct blob_fetch *fetch, uint32_t index)
{
    slot_land(fetch, &fetch->slots[index]);
    fetch->slots[index].state = BLOB_FETCH_WANTED;
    if (index < fetch->scan_from) {
        fetch->scan_from = index;
    }
}

int blob_fetch_holder_gone(struct blob_fetch *fetch, node_id node)
{
    uint32_t h = holder_find(fetch, node);
    if (h == fetch->holder_count) {
        return ERR_NOT_FOUND;
    }
    fetch->holders[h].gone = true;
    for (uint32_t i = 0; i < fetch->manifest->chunk_count && fetch->holders[h].in_flight > 0; i++) {
        if (fetch->slots[i].state == BLOB_FETCH_ASKED && fetch->slots[i].holder == h) {
            slot_want_again(fetch, i);
        }
    }
    return 0;
}

/* True if holder `a` is to be asked before holder `b`. With equal weights the larger id comes first. */
static bool holder_before(const struct blob_holder *a, const struct blob_holder *b, const hash256 *hash)
{
    if (a->strikes != b->strikes) {
        return a->strikes < b->strikes;
    }
    if (a->in_flight != b->in_flight) {
        return a->in_flight < b->in_flight;
    }
    uint64_t weight_a = rendezvous_weight(a->node, hash->bytes, sizeof hash->bytes);
    uint64_t weight_b = rendezvous_weight(b->node, hash->bytes, sizeof hash->bytes);
    if (weight_a != weight_b) {
        return weight_a > weight_b;
    }
    return node_id_compare(a->node, b->node) > 0;
}

int blob_fetch_next(struct blob_fetch *fetch, struct blob_ask *out)
{
    if (blob_fetch_done(fetch)) {
        return ERR_EXISTS;
    }
    uint32_t chunk_count = fetch->manifest->chunk_count;
    while (fetch->scan_from < chunk_count && fetch->slots[fetch->scan_from].state != BLOB_FETCH_WANTED) {
        fetch->scan_from++;
    }
    if (fetch->scan_from == chunk_count) {
        return ERR_AGAIN;
    }
    uint32_t index = fetch->scan_from;
    struct blob_fetch_slot *slot = &fetch->slots[index];
    const struct blob_chunk *chunk = &fetch->manifest->chunks[index];
    uint32_t best = fetch->holder_count;
    for (uint32_t h = 0; h < fetch->holder_count; h++) {
        bool can = !fetch->holders[h].gone && (slot->refused & (1u << h)) == 0;
        if (can &&
            (best == fetch->holder_count || holder_before(&fetch->holders[h], &fetch->holders[best], &chunk->hash))) {
            best = h;
        }
    }
    struct blob_ask ask = {.piece = {.hash = chunk->hash, .bytes = chunk->bytes, .index = index}};
    if (best == fetch->holder_count) {
        *out = ask;
        return ERR_NOT_FOUND;
    }
    if (fetch->in_flight >= fetch->in_flight_max) {
        return ERR_AGAIN;
    }
    slot->state = BLOB_FETCH_ASKED;
    slot->holder = (uint8_t)best;
    fetch->holders[best].in_flight++;
    fetch->in_flight++;
    ask.holder = fetch->holders[best].node;
    *out = ask;
    return 0;
}

int blob_fetch_answer(struct blob_fetch *fetch, uint32_t index, node_id node, enum blob_answer answer)
{
    uint32_t h = holder_find(fetch, node);
    if (h == fetch->holder_count || index >= fetch->manifest->chunk_count) {
        return ERR_STALE;
    }
    struct blob_fetch_slot *slot = &fetch->slots[index];
    if (slot->state != BLOB_FETCH_ASKED || slot->holder != h) {
        return ERR_STALE;
    }
    if (answer == BLOB_ANSWER_STORED) {
        fetch->holders[h].strikes = 0;
        return blob_fetch_present(fetch, index);
    }
    fetch->holders[h].strikes++;
    slot->refused |= (uint16_t)(1u << h);
    slot_want_again(fetch, index);
    return 0;
}

bool blob_fetch_done(const struct blob_fetch *fetch)
{
    return fetch->present_count == fetch->manifest->chunk_count;
}
