#include "node/core/requests/secrets.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/core/copies/acks.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/requests/trials.h"

#define PAGES_MAX 256
#define NAMES_MAX 256 /* of secrets that are set */

static const hash256 no_blob = {{0}};

static struct core_pending *put_page(struct node_core *core, const char *name, uint32_t page,
                                     const struct fact_secret *fact)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_secret_pack(&writer, fact);
    return core_put(core, FACT_SECRET, fact_key_secret(name, page), &writer);
}

/* The clock of the next value. */
static uint64_t next_lamport(const struct node_core *core, const char *name)
{
    uint64_t own = 0;
    struct lamport_top others = view_secret_top(&core->view, name, &core->options.self);
    for (const struct view_secret *row = core->view.secrets; row != NULL; row = row->next) {
        bool is_own = strcmp(row->name, name) == 0 && node_id_equal(row->writer, core->options.self);
        own = is_own && row->lamport > own ? row->lamport : own;
    }
    return lamport_next(&others, own);
}

static uint32_t count_names(const struct node_core *core)
{
    uint32_t count = 0;
    for (const struct view_secret *row = view_secret_next(&core->view, NULL); row != NULL;
         row = view_secret_next(&core->view, row->name)) {
        count += view_secret_is_set(&core->view, row->name);
    }
    return count;
}

static bool refused(struct node_core *core, const struct node_event *event)
{
    const struct view_member *unable = requests_find_unable(core, FACT_READS_SECRETS);
    char text[NODE_REPLY_BYTES];
    if (unable != NULL) {
        format_text(text, sizeof text, "%s runs a version of Shoal that does not know secrets; update that node first.",
                    view_label(&core->view, unable->id).text);
        core_reply(core, event->u.request.client, ERR_REFUSED, 0, text);
        return true;
    }
    if (!view_secret_is_set(&core->view, event->u.request.label) && count_names(core) >= NAMES_MAX) {
        format_text(text, sizeof text,
                    "The mesh has %d secrets already; remove some that are of no use (shoal secret rm).", NAMES_MAX);
        core_reply(core, event->u.request.client, ERR_FULL, 0, text);
        return true;
    }
    return false;
}

void requests_secret(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    struct fact_secret fact = {.lamport = next_lamport(core, event->u.request.label), .set_s = core->wall_s};
    struct pack_reader reader;
    size_t sealed_bytes, copy_bytes;
    pack_reader_init(&reader, event->bytes, event->byte_count);
    (void)pack_read_array(&reader);
    pack_read_bin_exact(&reader, fact.value, sizeof fact.value);
    fact.sealed = pack_read_bin(&reader, &sealed_bytes);
    const uint8_t *copies = pack_read_bin(&reader, &copy_bytes);
    CHECK(!reader.failed && sealed_bytes <= FACT_SECRET_SEALED_MAX && copy_bytes % FACT_SECRET_COPY_BYTES == 0 &&
          copy_bytes > 0);
    fact.sealed_bytes = (uint32_t)sealed_bytes;
    uint32_t count = (uint32_t)(copy_bytes / FACT_SECRET_COPY_BYTES), most = fact_secret_copies_max(fact.sealed_bytes);
    if (refused(core, event)) {
        return;
    }
    if ((count + most - 1) / most > PAGES_MAX || core_ack_count(core) + (count + most - 1) / most > CORE_ACKS_MAX) {
        core_reply(core, client, ERR_AGAIN, 0, "Too many requests wait for a second node; try again in some seconds.");
        return;
    }
    for (uint32_t page = 0, done = 0; done < count; page++, done += fact.copy_count) {
        fact.copies = copies + (size_t)done * FACT_SECRET_COPY_BYTES;
        fact.copy_count = count - done < most ? count - done : most;
        if (!core_ack_begin(core, client, put_page(core, event->u.request.label, page, &fact), no_blob, no_blob)) {
            return; /* the client has been told; a node without a copy gets one later */
        }
    }
}

void requests_secret_remove(struct node_core *core, const struct node_event *event)
{
    const char *name = event->u.request.label;
    if (!view_secret_is_set(&core->view, name)) {
        char text[NODE_REPLY_BYTES];
        format_text(text, sizeof text, "There is no secret %s; `shoal secret ls` lists them.", name);
        core_reply(core, event->u.request.client, ERR_NOT_FOUND, 0, text);
        return;
    }
    const struct fact_secret fact = {.lamport = next_lamport(core, name), .removed = true, .set_s = core->wall_s};
    (void)core_ack_begin(core, event->u.request.client, put_page(core, name, 0, &fact), no_blob, no_blob);
}

/* ---- nodes that have come later
 * ------------------------------------------------------------------------------------------ */

/* A member that programs may run on some day. */
static bool wants_copy(const struct view_member *member)
{
    return member->admitted && !member->left && !view_member_is_out(member);
}

/* Lists the members without a copy. False: none lacks one, or this node has none to give. */
static bool find_lacking(const struct node_core *core, const struct view_secret *now, struct node_secret_due *out)
{
    struct fact_secret fact;
    *out = (struct node_secret_due){0};
    if (now->removed || view_secret_copy(&core->view, now, core->options.self, &fact) == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        bool has_copy = wants_copy(member) && view_secret_copy(&core->view, now, member->id, &fact) != NULL;
        if (wants_copy(member) && !has_copy && out->count < NODE_SECRET_DUE_MAX) {
            out->nodes[out->count] = member->id;
            memcpy(out->public_keys[out->count++], member->public_key, PUBLIC_KEY_BYTES);
        }
        out->rank +=
            has_copy && core_node_alive(core, member->id) && node_id_compare(member->id, core->options.self) < 0;
    }
    memcpy(out->name, now->name, sizeof out->name);
    memcpy(out->value, now->value, sizeof out->value);
    return out->count > 0;
}

/* Changes with the members that are to have copies. */
static uint64_t roster_mark(const struct node_core *core)
{
    uint64_t mark = 1;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        mark = mark * 3 + wants_copy(core->view.members[i]);
    }
    return mark;
}

bool requests_secret_due(const struct node_core *core, struct node_secret_due *out)
{
    struct core_requests *requests = core->requests;
    const struct view_secret *row = view_secret_next(&core->view, NULL);
    if (!core->started || core->is_out || core->leaving || core->members->syncing || row == NULL) {
        return false;
    }
    uint64_t roster = roster_mark(core);
    if (requests->secrets_due == core->view.secret_count && requests->secrets_roster == roster) {
        return false;
    }
    for (; row != NULL; row = view_secret_next(&core->view, row->name)) {
        const struct view_secret *now = view_secret_find(&core->view, row->name);
        if (now != NULL && find_lacking(core, now, out)) {
            return true;
        }
    }
    requests->secrets_due = core->view.secret_count;
    requests->secrets_roster = roster;
    return false;
}

/* The copies that this node has written of the value on a page; `*out` is zero but for the head if it has written none
 * there. */
static void own_page(const struct node_core *core, const struct view_secret *now, uint32_t page,
                     struct fact_secret *out)
{
    struct fact_key key = fact_key_secret(now->name, page);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_SECRET, key.bytes, key.count));
    bool is_same = entry != NULL && fact_secret_read(&entry->record, out) == 0 && out->lamport == now->lamport &&
                   !out->removed && memcmp(out->value, now->value, sizeof out->value) == 0;
    if (!is_same) {
        *out = (struct fact_secret){0};
    }
}

void requests_secret_copies(struct node_core *core, const struct node_event *event)
{
    char name[FACT_NAME_BYTES] = "";
    uint8_t value[FACT_SECRET_VALUE_BYTES], copies[RECORD_BODY_BYTES_MAX], sealed[FACT_SECRET_SEALED_MAX];
    struct fact_secret source;
    struct pack_reader reader;
    size_t given_bytes;
    pack_reader_init(&reader, event->bytes, event->byte_count);
    (void)pack_read_array(&reader);
    pack_read_text_copy(&reader, name, sizeof name);
    pack_read_bin_exact(&reader, value, sizeof value);
    const uint8_t *given = pack_read_bin(&reader, &given_bytes);
    const struct view_secret *now = view_secret_find(&core->view, name);
    bool is_current = !reader.failed && now != NULL && !now->removed && memcmp(now->value, value, sizeof value) == 0 &&
                      view_secret_copy(&core->view, now, core->options.self, &source) != NULL;
    if (!is_current || core->is_out) {
        return;
    }
    struct view_secret wanted = *now; /* rows and records move with the first write */
    struct fact_secret fact = source;
    memcpy(sealed, source.sealed, source.sealed_bytes);
    uint32_t most = fact_secret_copies_max(source.sealed_bytes),
             left = (uint32_t)(given_bytes / FACT_SECRET_COPY_BYTES);
    for (uint32_t page = 0; page < PAGES_MAX && left > 0; page++) {
        struct fact_secret own;
        own_page(core, &wanted, page, &own);
        uint32_t added = own.copy_count >= most ? 0 : left < most - own.copy_count ? left : most - own.copy_count;
        if (added == 0) {
            continue;
        }
        size_t own_bytes = (size_t)own.copy_count * FACT_SECRET_COPY_BYTES;
        if (own_bytes > 0) {
            memcpy(copies, own.copies, own_bytes);
        }
        memcpy(copies + own_bytes, given, (size_t)added * FACT_SECRET_COPY_BYTES);
        fact.sealed = sealed;
        fact.copies = copies;
        fact.copy_count = own.copy_count + added;
        (void)put_page(core, name, page, &fact);
        given += (size_t)added * FACT_SECRET_COPY_BYTES;
        left -= added;
    }
}

/* ---- values that count no more
 * ------------------------------------------------------------------------------------------- */

void requests_secrets_housekeep(struct node_core *core)
{
    if (!core->started || core->is_out || core->members->syncing || core->requests->secrets_stale == core->view.secret_count) {
        return;
    }
    for (const struct view_secret *row = core->view.secrets; row != NULL; row = row->next) {
        const struct view_secret *now =
            node_id_equal(row->writer, core->options.self) ? view_secret_find(&core->view, row->name) : NULL;
        struct fact_secret fact;
        bool is_stale = now != NULL && row->lamport <= now->lamport && !view_secret_is_same(row, now) &&
                        fact_secret_read(&row->entry->record, &fact) == 0 && fact.sealed_bytes > 0;
        if (is_stale) {
            fact = (struct fact_secret){.lamport = now->lamport, .removed = now->removed, .set_s = fact.set_s};
            memcpy(fact.value, now->value, sizeof fact.value);
            (void)put_page(core, row->name, row->page, &fact);
            return; /* the next one in the next round */
        }
    }
    core->requests->secrets_stale = core->view.secret_count;
}
