#include "tools/shoal/original.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/document.h"
#include "node/core/facts/config.h"

/* Asks for a file of the experiment. */
static int get_file(struct client *client, const char *op, const char *id, struct reply *reply)
{
    *reply = (struct reply){.fd = -1};
    client_begin(client, op, 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    int code = client_send(client, -1);
    code = code == CLI_DONE ? client_next(client, -1, true, reply) : code; /* without a time limit: it may be gigabytes */
    if (code == CLI_DONE && reply->fd < 0) {
        code = cli_fail(client->cli, CLI_REFUSED, "the daemon's answer lacks the file; are shoal and shoald of the same version?");
    }
    return code;
}

/* Takes the text of the file out of the blob of a large experiment (config_blob_pack). False: it is no such blob. */
static bool unwrap(char *bytes, size_t count, size_t *text_bytes)
{
    struct pack_reader reader;
    pack_reader_init(&reader, (const uint8_t *)bytes, count);
    if (pack_read_array(&reader) < 2) {
        return false;
    }
    pack_skip(&reader);
    const char *text = pack_read_text(&reader, text_bytes);
    if (reader.failed) {
        return false;
    }
    memmove(bytes, text, *text_bytes);
    return true;
}

static int read_text(struct client *client, const char *id, struct original *out)
{
    struct reply reply;
    int code = get_file(client, "config_get", id, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    uint64_t bytes = document_number(&reply.document, "bytes");
    bool is_sound = bytes <= CONFIG_BLOB_BYTES_MAX;
    out->text = is_sound ? malloc(bytes + 1) : NULL;
    is_sound = out->text != NULL && pread(reply.fd, out->text, bytes, 0) == (ssize_t)bytes;
    out->text_bytes = bytes;
    if (is_sound && document_true(&reply.document, "large")) {
        is_sound = unwrap(out->text, bytes, &out->text_bytes);
    }
    (void)close(reply.fd);
    if (!is_sound) {
        return cli_fail(client->cli, CLI_REFUSED, "the configuration cannot be read; are shoal and shoald of the same version?");
    }
    return CLI_DONE;
}

int original_read(struct client *client, const char *id, struct original *out)
{
    struct reply reply;
    *out = (struct original){.text = NULL};
    (void)snprintf(out->id, sizeof out->id, "%s", id);
    client_begin(client, "ls", 0);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    msgpack_object_array list = {0};
    if (code == CLI_DONE) {
        list = document_list(&reply.document, "experiments");
    }
    for (uint32_t i = 0; i < list.size; i++) {
        char listed[CLIENT_EXPERIMENT_TEXT_BYTES];
        document_text(&list.ptr[i], "id", listed, sizeof listed);
        if (strcmp(listed, id) == 0) {
            document_text(&list.ptr[i], "name", out->name, sizeof out->name);
        }
    }
    code = code == CLI_DONE ? read_text(client, id, out) : code;
    if (code == CLI_DONE) {
        size_t before = out->text_bytes;
        out->text_bytes = origin_read(out->text, out->text_bytes, &out->origin);
        out->text[out->text_bytes] = '\0';
        out->has_origin = out->text_bytes < before;
    }
    return code;
}

void original_free(struct original *original)
{
    free(original->text);
    original->text = NULL;
    origin_free(&original->origin);
}

int original_code(struct client *client, const char *id, int *fd, uint64_t *bytes, bool *keeps_links)
{
    struct reply reply;
    int code = get_file(client, "code_get", id, &reply);
    if (code == CLI_DONE && lseek(reply.fd, 0, SEEK_SET) != 0) {
        (void)close(reply.fd);
        return cli_fail(client->cli, CLI_REFUSED, "the code cannot be read");
    }
    if (code == CLI_DONE) {
        *fd = reply.fd;
        *bytes = document_number(&reply.document, "bytes");
        if (keeps_links != NULL) {
            *keeps_links = document_true(&reply.document, "links");
        }
    }
    return code;
}
