#include "node/core/members/programs.h"

#include <string.h>

#include "node/core/ground/publish.h"
#include "node/core/members/members.h"

void core_programs_found(struct node_core *core, const uint8_t *body, uint32_t body_bytes)
{
    struct fact_key key = fact_key_empty();
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_PROGRAMS, key.bytes, key.count));
    bool is_known = entry != NULL && entry->record.body_bytes == body_bytes &&
                    memcmp(entry->record.body, body, body_bytes) == 0;
    if (!core->started || core->members->syncing || core->is_out || core->leaving || is_known ||
        body_bytes > RECORD_BODY_BYTES_MAX) {
        return;
    }
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    bool is_published;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_raw(&writer, body, body_bytes);
    (void)core_try_put(core, FACT_PROGRAMS, key, &writer, &is_published);
}
