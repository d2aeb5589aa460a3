#include "node/daemon/wire/event.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

bool event_is_wanted(const struct event_choice *choice, const struct event_about *about, uint64_t wall_ms)
{
    return wall_ms >= choice->since_ms && (choice->kind[0] == '\0' || event_kind_is(about->kind, choice->kind)) &&
           (experiment_id_is_none(choice->experiment) || experiment_id_equal(choice->experiment, about->experiment));
}

void event_pack(struct pack_writer *writer, const struct journal_event *event)
{
    const struct event_about *about = &event->about;
    char hex[2 * NODE_ID_BYTES + 1];
    bool has_experiment = !experiment_id_is_none(about->experiment), has_node = !node_id_is_none(about->node);
    pack_map(writer, 4u + has_experiment + about->has_trial + (about->attempt != 0) + has_node + about->has_slot);
    pack_text(writer, "seq");
    pack_u64(writer, event->seq);
    pack_text(writer, "wall_ms");
    pack_u64(writer, event->wall_ms);
    pack_text(writer, "text");
    pack_text(writer, event->text);
    pack_text(writer, "kind");
    pack_text(writer, event_kind_name(about->kind));
    if (has_experiment) {
        bytes_to_hex(hex, about->experiment.bytes, EXPERIMENT_ID_BYTES);
        pack_text(writer, "experiment");
        pack_text(writer, hex);
    }
    if (about->has_trial) {
        pack_text(writer, "trial");
        pack_u64(writer, about->trial);
    }
    if (about->attempt != 0) {
        pack_text(writer, "attempt");
        pack_u64(writer, about->attempt);
    }
    if (has_node) {
        bytes_to_hex(hex, about->node.bytes, NODE_ID_BYTES);
        pack_text(writer, "node");
        pack_text(writer, hex);
    }
    if (about->has_slot) {
        pack_text(writer, "slot");
        pack_u64(writer, about->slot);
    }
}

/* Reads the number of a key. False: it is not there, or is none. */
static bool find_u32(const struct pack_reader *map, const char *key, uint32_t *out)
{
    struct pack_reader value = pack_find(map, key);
    uint64_t number = value.failed ? 0 : pack_read_u64_max(&value, UINT32_MAX);
    *out = value.failed ? 0 : (uint32_t)number;
    return !value.failed;
}

static void find_id(const struct pack_reader *map, const char *key, uint8_t *out, size_t bytes)
{
    char hex[2 * NODE_ID_BYTES + 1] = "";
    struct pack_reader value = pack_find(map, key);
    if (!value.failed) {
        pack_read_text_copy(&value, hex, sizeof hex);
    }
    if (value.failed || strlen(hex) != 2 * bytes || bytes_from_hex(out, bytes, hex) != 0) {
        memset(out, 0, bytes);
    }
}

int event_read(const uint8_t *bytes, size_t count, struct event_held *out)
{
    struct pack_reader map, seq, wall_ms, text, kind;
    size_t text_bytes = 0, kind_bytes = 0;
    pack_reader_init(&map, bytes, count);
    seq = pack_find(&map, "seq");
    wall_ms = pack_find(&map, "wall_ms");
    text = pack_find(&map, "text");
    kind = pack_find(&map, "kind");
    struct event_held read = {.event.seq = pack_read_u64_max(&seq, JOURNAL_SEQ_MAX),
                              .event.wall_ms = pack_read_u64_max(&wall_ms, JOURNAL_SEQ_MAX)};
    const char *words = pack_read_text(&text, &text_bytes);
    const char *word = pack_read_text(&kind, &kind_bytes);
    if (seq.failed || wall_ms.failed || text.failed || kind.failed || read.event.seq == 0) {
        return ERR_MALFORMED;
    }
    size_t kept = text_bytes < sizeof read.text ? text_bytes : sizeof read.text - 1;
    for (size_t i = 0; i < kept; i++) { /* what a terminal would obey does not come from another node */
        read.text[i] = (unsigned char)words[i] < 0x20 || words[i] == 0x7f ? '?' : words[i];
    }
    struct event_about *about = &read.event.about;
    about->kind = event_kind_of(word, kind_bytes);
    about->kind = about->kind < EVENT_KIND_COUNT ? about->kind : EVENT_OTHER;
    find_id(&map, "experiment", about->experiment.bytes, EXPERIMENT_ID_BYTES);
    find_id(&map, "node", about->node.bytes, NODE_ID_BYTES);
    about->has_trial = find_u32(&map, "trial", &about->trial);
    about->has_slot = find_u32(&map, "slot", &about->slot);
    (void)find_u32(&map, "attempt", &about->attempt);
    *out = read;
    out->event.text = out->text;
    return 0;
}

size_t event_question_pack(const struct event_choice *choice, uint8_t out[EVENT_QUESTION_BYTES])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, EVENT_QUESTION_BYTES);
    pack_array(&writer, 4);
    pack_u64(&writer, choice->since_ms);
    pack_u64(&writer, choice->tail);
    pack_text(&writer, choice->kind);
    pack_bin(&writer, choice->experiment.bytes, EXPERIMENT_ID_BYTES);
    return writer.failed ? 0 : writer.used_bytes;
}

int event_question_read(const uint8_t *bytes, size_t count, struct event_choice *out)
{
    struct pack_reader reader;
    struct event_choice read = {0};
    pack_reader_init(&reader, bytes, count);
    uint32_t elements = pack_read_array(&reader);
    read.since_ms = pack_read_u64(&reader);
    read.tail = pack_read_u64(&reader);
    pack_read_text_copy(&reader, read.kind, sizeof read.kind);
    pack_read_bin_exact(&reader, read.experiment.bytes, EXPERIMENT_ID_BYTES);
    if (reader.failed || elements < 4) {
        return ERR_MALFORMED;
    }
    *out = read;
    return 0;
}
