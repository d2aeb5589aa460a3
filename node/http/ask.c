#include "node/http/ask.h"

#include <stdlib.h>

#include "base/document.h"
#include "base/err.h"
#include "node/daemon/wire/request.h"

#define REQUEST_BYTES 1024

void ask_begin(struct pack_writer *writer, const char *op, const char *secret, uint32_t arguments)
{
    pack_map(writer, 3u + (secret != NULL) + arguments);
    pack_text(writer, "v");
    pack_u64(writer, REQUEST_PROTOCOL_VERSION);
    pack_text(writer, "id");
    pack_u64(writer, 1);
    pack_text(writer, "op");
    pack_text(writer, op);
    if (secret != NULL) {
        pack_text(writer, "auth");
        pack_text(writer, secret);
    }
}

int ask_collect(struct channel *channel, msgpack_object *out)
{
    msgpack_object *replies = NULL;
    size_t count = 0;
    bool end = false;
    int code = 0;
    *out = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    while (!end && code == 0) {
        msgpack_object *grown = realloc(replies, (count + 1) * sizeof *replies);
        if (grown == NULL) {
            code = ERR_MEMORY;
            break;
        }
        replies = grown;
        code = channel_next(channel, CHANNEL_ANSWER_MS, &replies[count], NULL);
        if (code != 0 || document_has(&replies[count], "progress")) {
            continue;
        }
        if (!document_true(&replies[count], "ok")) {
            *out = replies[count];
            free(replies);
            return 0;
        }
        end = document_true(&replies[count], "end");
        count++;
    }
    code = code == 0 ? document_join(channel->zone, replies, count, out) : code;
    free(replies);
    return code;
}

static int send_and_collect(struct channel *channel, const struct pack_writer *writer, msgpack_object *out)
{
    *out = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    int code = channel_send(channel, writer->bytes, writer->used_bytes, -1);
    return code == 0 ? ask_collect(channel, out) : code;
}

int ask_document(struct channel *channel, const char *op, const char *secret, msgpack_object *out)
{
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    ask_begin(&writer, op, secret, 0);
    return send_and_collect(channel, &writer, out);
}

int ask_experiment(struct channel *channel, const char *op, const char *secret, const char *experiment, long long trial,
                   msgpack_object *out)
{
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    ask_begin(&writer, op, secret, 1u + (trial >= 0));
    pack_text(&writer, "experiment");
    pack_text(&writer, experiment);
    if (trial >= 0) {
        pack_text(&writer, "trial");
        pack_u64(&writer, (uint64_t)trial);
    }
    return send_and_collect(channel, &writer, out);
}
