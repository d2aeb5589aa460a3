#include "tools/shoal/tails.h"

#include <stdlib.h>
#include <string.h>

static void fetch(struct client *client, const char *id, uint64_t trial, msgpack_object *tail, struct tails *tails)
{
    char *text = malloc(TAIL_BYTES_MAX);
    size_t used = 0;
    if (text == NULL) {
        return;
    }
    tails->texts[tails->count++] = text;
    client_begin(client, "tail", 2);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, trial);
    int code = client_send(client, -1);
    struct reply reply = {.end = false};
    while (code == CLI_DONE && !reply.end) {
        code = client_next(client, CLIENT_ANSWER_MS, false, &reply);
        const msgpack_object *bytes = code == CLI_DONE ? document_find(&reply.document, "bytes") : NULL;
        if (bytes != NULL && bytes->type == MSGPACK_OBJECT_BIN && bytes->via.bin.size <= TAIL_BYTES_MAX - used) {
            memcpy(text + used, bytes->via.bin.ptr, bytes->via.bin.size);
            used += bytes->via.bin.size;
        }
    }
    if (used > tail->via.str.size) {
        tail->via.str.ptr = text;
        tail->via.str.size = (uint32_t)used;
    }
}

/* The text under `tail` of a trial; NULL: there is none. */
static msgpack_object *tail_of(const msgpack_object *trial)
{
    msgpack_object_map pairs = document_pairs(trial);
    for (uint32_t i = 0; i < pairs.size; i++) {
        const msgpack_object *key = &pairs.ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == 4 && memcmp(key->via.str.ptr, "tail", 4) == 0) {
            return pairs.ptr[i].val.type == MSGPACK_OBJECT_STR ? &pairs.ptr[i].val : NULL;
        }
    }
    return NULL;
}

static void fetch_of(struct client *client, const char *id, const msgpack_object *trial, struct tails *tails)
{
    msgpack_object *tail = tail_of(trial);
    tails->zone = tail != NULL && tails->zone == NULL ? client_keep(client) : tails->zone;
    if (tail != NULL && tails->zone != NULL) {
        fetch(client, id, document_number(trial, "index"), tail, tails);
    }
}

void tails_fetch(struct client *client, const msgpack_object *experiment, struct tails *tails)
{
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    msgpack_object_array list = document_list(experiment, "trials");
    document_text(experiment, "id", id, sizeof id);
    for (uint32_t i = 0; i < list.size && tails->count < TAILS_MAX; i++) {
        fetch_of(client, id, &list.ptr[i], tails);
    }
}

void tails_fetch_one(struct client *client, const msgpack_object *experiment, const msgpack_object *trial, struct tails *tails)
{
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    document_text(experiment, "id", id, sizeof id);
    fetch_of(client, id, trial, tails);
}

void tails_free(struct tails *tails)
{
    while (tails->count > 0) {
        free(tails->texts[--tails->count]);
    }
    msgpack_zone_free(tails->zone);
    tails->zone = NULL;
}
