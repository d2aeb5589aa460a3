#include "node/core/requests/tokens.h"

#include <string.h>

#include "node/core/copies/acks.h"
#include "node/core/ground/publish.h"
#include "node/core/members/clocks.h"

#define TOKEN_BODY_BYTES (32u + FACT_NAME_BYTES)

static const hash256 no_blob = {{0}};

static void publish(struct node_core *core, const struct node_event *event, const struct fact_token *fact)
{
    uint8_t bytes[TOKEN_BODY_BYTES];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_token_pack(&writer, fact);
    (void)core_ack_begin(core, event->u.request.client,
                         core_put(core, FACT_TOKEN, fact_key_public_key(event->u.request.public_key), &writer), no_blob,
                         no_blob);
}

void requests_token(struct node_core *core, const struct node_event *event)
{
    struct fact_token fact = {.expires_s = event->u.request.expires_s,
                              .read_only = event->u.request.read_only,
                              .created_s = core_mesh_wall_s(core)};
    memcpy(fact.name, event->u.request.label, sizeof fact.name);
    publish(core, event, &fact);
}

void requests_token_revoke(struct node_core *core, const struct node_event *event)
{
    struct fact_key key = fact_key_public_key(event->u.request.public_key);
    const struct records_entry *own =
        records_find(&core->records, record_ident_of(core->options.self, FACT_TOKEN, key.bytes, key.count));
    struct fact_token fact = {0}; /* without a name and a time, if the token is another node's */
    if (own != NULL) {
        (void)fact_token_read(&own->record, &fact);
    }
    fact.revoked = true;
    publish(core, event, &fact);
}

bool core_find_door_token(const struct node_core *core, const uint8_t hash[HASH_BYTES], struct fact_token *out)
{
    struct fact_key key = fact_key_public_key(hash);
    uint64_t wall_s = core_mesh_wall_s(core);
    bool is_found = false;
    struct fact_token found = {0};
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        record_ident ident = record_ident_of(core->view.members[i]->id, FACT_TOKEN, key.bytes, key.count);
        const struct records_entry *entry = records_find(&core->records, ident);
        struct fact_token fact;
        if (entry == NULL || fact_token_read(&entry->record, &fact) != 0) {
            continue;
        }
        if (fact.revoked || fact.expires_s <= wall_s) {
            return false;
        }
        if (core->view.members[i]->admitted) {
            found = fact;
            is_found = true;
        }
    }
    if (is_found) {
        *out = found;
    }
    return is_found;
}
