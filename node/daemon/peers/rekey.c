/* This daemon becomes another node, because its key is in use twice (node/core/roof/twin.c). On disk: `key.next` is
 * made first; then the table `meta` gets `was`, which counts only beside the new key; then `key.next` is renamed to
 * `key`. After a crash the directory belongs either to the old node or to the new node. The protocol thread writes to
 * the disk itself here: the node that yields answers no probes any more, so no peer waits. */

#include <string.h>

#include "base/err.h"
#include "node/daemon/peers/peers.h"

#define WAS "was"

void daemon_new_key_effect(struct daemon *daemon, const struct node_effect *effect)
{
    char error[256];
    struct keys keys;
    struct node_event event = {.kind = NODE_EVENT_KEY};
    event.u.key.ok = keys_next(daemon->dir, effect->u.new_key.afresh, &keys, error) == 0;
    if (event.u.key.ok) {
        memcpy(event.u.key.public_key, keys.sign_public, sizeof event.u.key.public_key);
        keys_wipe(&keys);
    } else {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_TWIN), "%s", error);
    }
    daemon_event(daemon, &event);
}

/* Stores a MessagePack array: the old node id, the new node id, the address of the daemon that keeps the key. */
static int write_was(struct daemon *daemon, const struct node_effect *effect)
{
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 3);
    pack_bin(&writer, daemon->keys.id.bytes, NODE_ID_BYTES);
    pack_bin(&writer, effect->u.become.node.bytes, NODE_ID_BYTES);
    pack_text(&writer, effect->u.become.address);
    struct state_op op = {
        .table = STATE_META, .key = WAS, .key_bytes = strlen(WAS), .value = bytes, .value_bytes = writer.used_bytes};
    return writer.failed ? ERR_FULL : state_put_batch(daemon->state, &op, 1);
}

void daemon_rekey_effect(struct daemon *daemon, const struct node_effect *effect)
{
    char error[256];
    struct keys keys;
    int code = keys_next(daemon->dir, false, &keys, error);
    if (code == 0 && !node_id_equal(keys.id, effect->u.become.node)) {
        code = ERR_CORRUPT;
        bytes_copy_text(error, sizeof error, "The new key for this node was changed on disk.");
    }
    keys_wipe(&keys);
    if (code == 0) {
        code = write_was(daemon, effect);
        bytes_copy_text(error, sizeof error, err_text(code));
    }
    if (code == 0) {
        code = keys_replace(daemon->dir, error);
    }
    if (code != 0 && !daemon->rekey_failed) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_TWIN),
                       "cannot become another node yet, and will try again: %s", error);
    }
    daemon->rekey_failed = code != 0;
    daemon->rekeys = code == 0;
    daemon->stopping |= code == 0;
}

void daemon_load_was(struct daemon *daemon)
{
    uint8_t bytes[256];
    size_t count;
    if (state_get(daemon->state, STATE_META, WAS, strlen(WAS), bytes, sizeof bytes, &count) != 0) {
        return;
    }
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    node_id was, now;
    char address[FACT_ADDRESS_BYTES];
    uint32_t fields = pack_read_array(&reader);
    pack_read_bin_exact(&reader, was.bytes, NODE_ID_BYTES);
    pack_read_bin_exact(&reader, now.bytes, NODE_ID_BYTES);
    pack_read_text_copy(&reader, address, sizeof address);
    if (reader.failed || fields != 3 || !node_id_equal(now, daemon->keys.id)) {
        return;
    }
    daemon->was = was;
    bytes_copy_text(daemon->was_address, sizeof daemon->was_address, address);
    char hex[13];
    bytes_to_hex(hex, now.bytes, 2);
    size_t length = strnlen(daemon->name, sizeof daemon->name - 6);
    /* The daemon that keeps the key keeps the name, too. */
    (void)format_text(daemon->name + length, sizeof daemon->name - length, "-%s", hex);
    bytes_to_hex(hex, was.bytes, 6);
    daemon_line_of(daemon, event_of_node(EVENT_NODE_TWIN, was),
                   "THIS NODE WAS %s until another daemon with the same key was found at %s: the data directory had been "
                   "copied; this node has a new key now, vouched for by the old key",
                   hex, address);
}

void daemon_begin_anew(struct daemon *daemon)
{
    const struct daemon_options options = daemon->options;
    struct daemon_line *lines = daemon->lines;
    uint64_t line_seq = daemon->line_seq, line_count = daemon->line_count;
    char dir[KEEP_PATH_BYTES];
    bytes_copy_text(dir, sizeof dir, daemon->dir);
    memset(daemon, 0, sizeof *daemon);
    daemon->options = options;
    daemon->lines = lines;
    daemon->line_seq = line_seq;
    daemon->line_count = line_count;
    daemon->lock_fd = -1;
    daemon->listen_fd = -1;
    daemon->started_ms = daemon_now_ms();
    bytes_copy_text(daemon->dir, sizeof daemon->dir, dir);
}
