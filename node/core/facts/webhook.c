/* Records of webhooks and of what became of telling them. */

#include "node/core/facts/inside.h"

#include <string.h>

#include "base/err.h"
#include "node/core/facts/config.h"

#define AWAY_BYTES (NODE_ID_BYTES + 8)

struct fact_key fact_key_webhook(const uint8_t id[FACT_HOOK_BYTES])
{
    struct fact_key key = {.count = FACT_HOOK_BYTES};
    memcpy(key.bytes, id, FACT_HOOK_BYTES);
    return key;
}

struct fact_key fact_key_delivery(experiment_id experiment, const uint8_t subject[FACT_SUBJECT_BYTES])
{
    struct fact_key key = fact_key_experiment(experiment);
    memcpy(key.bytes + key.count, subject, FACT_SUBJECT_BYTES);
    key.count += FACT_SUBJECT_BYTES;
    return key;
}

void fact_webhook_pack(struct pack_writer *writer, const struct fact_webhook *fact)
{
    pack_array(writer, 6);
    pack_bool(writer, fact->removed);
    pack_text(writer, fact->host);
    if (fact->hook_bytes > 0) {
        pack_raw(writer, fact->hook, fact->hook_bytes);
    } else {
        pack_map(writer, 0);
    }
    pack_u64(writer, fact->created_s);
    pack_bin(writer, fact->live, (size_t)fact->live_count * EXPERIMENT_ID_BYTES);
    pack_bin(writer, fact->away, (size_t)fact->away_count * AWAY_BYTES);
}

int fact_webhook_read(const struct record *record, struct fact_webhook *out)
{
    struct pack_reader reader;
    struct fact_webhook fact;
    struct config_webhook hook;
    uint32_t extra;
    size_t hook_bytes = 0, live = 0, away = 0;
    fact_body_open(&reader, record, 6, &extra);
    fact.removed = pack_read_bool(&reader);
    pack_read_text_copy(&reader, fact.host, sizeof fact.host);
    fact.hook = pack_read_any(&reader, &hook_bytes);
    fact.hook_bytes = (uint32_t)hook_bytes;
    fact.created_s = pack_read_u64(&reader);
    fact.live = pack_read_bin(&reader, &live);
    fact.away = pack_read_bin(&reader, &away);
    fact.live_count = (uint32_t)(live / EXPERIMENT_ID_BYTES);
    fact.away_count = (uint32_t)(away / AWAY_BYTES);
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != FACT_HOOK_BYTES ||
        live % EXPERIMENT_ID_BYTES != 0 || away % AWAY_BYTES != 0) {
        return ERR_MALFORMED;
    }
    struct pack_reader map;
    pack_reader_init(&map, fact.hook, fact.hook_bytes);
    bool is_hook = config_webhook_read(&map, &hook);
    if (!fact.removed && is_hook == (fact.host[0] != '\0')) { /* one of both */
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_delivery_pack(struct pack_writer *writer, const struct fact_delivery *fact)
{
    pack_array(writer, 11);
    pack_u64(writer, fact->number);
    pack_u64(writer, fact->state);
    pack_u64(writer, fact->tries);
    pack_u64(writer, fact->status);
    pack_u64(writer, fact->tried_s);
    pack_u64(writer, fact->event);
    pack_bin(writer, fact->hook, sizeof fact->hook);
    pack_u64(writer, fact->trial);
    pack_u64(writer, fact->attempt);
    pack_u64(writer, fact->rank);
    pack_text(writer, fact->text);
}

int fact_delivery_read(const struct record *record, struct fact_delivery *out)
{
    struct pack_reader reader;
    struct fact_delivery fact;
    uint32_t extra;
    fact_body_open(&reader, record, 11, &extra);
    fact.number = pack_read_u64(&reader);
    fact.state = (enum fact_delivery_state)pack_read_u64_max(&reader, FACT_DELIVERY_STATES - 1);
    fact.tries = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.status = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.tried_s = pack_read_u64(&reader);
    fact.event = (enum fact_hook_event)pack_read_u64_max(&reader, FACT_HOOK_EVENTS - 1);
    pack_read_bin_exact(&reader, fact.hook, sizeof fact.hook);
    fact.trial = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.attempt = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.rank = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    pack_read_text_copy(&reader, fact.text, sizeof fact.text);
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != EXPERIMENT_ID_BYTES + FACT_SUBJECT_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}
