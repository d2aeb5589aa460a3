/* The board's files of programs: the snapshots of a trial's outputs, which the daemon hands over. */

#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/err.h"
#include "store/snapshot.h"
#include "tools/shoal/board_files.h"
#include "tools/shoal/board_inside.h"

#define PARTS_MAX 64
#define FILES_SHARE 20 /* at most a twentieth of the time is spent on the files of a running trial, */
#define FILES_MS 10000 /* with at most one look in this time */

struct part {
    uint64_t number, bytes;
};

/* Lists the snapshots of the trial's workers. `*hash` of their names; 0: there are none. */
static int list_parts(struct board *board, const struct board_experiment *experiment, uint64_t index,
                      struct part parts[PARTS_MAX], uint32_t *count, uint64_t *hash)
{
    struct client *client = &board->client;
    struct reply reply;
    *count = 0;
    *hash = 0;
    client_begin(client, "output_ls", 2);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, experiment->id);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, index);
    client->may_lack = true;
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    client->may_lack = false;
    msgpack_object_array list =
        code == CLI_DONE ? document_list(&reply.document, "outputs") : (msgpack_object_array){.size = 0};
    for (uint32_t i = 0; i < list.size && i < PARTS_MAX; i++) {
        char text[80];
        document_text(&list.ptr[i], "hash", text, sizeof text);
        *hash = bytes_hash64(text, strlen(text), *hash);
        parts[(*count)++] = (struct part){document_number(&list.ptr[i], "number"), document_number(&list.ptr[i], "bytes")};
    }
    return code == CLI_NO_SUCH_THING ? CLI_DONE : code;
}

/* Gets the snapshot of one worker, for which the daemon may need another node, and copies the files. */
static int copy_part(struct board *board, const struct board_experiment *experiment, uint64_t index, const struct part *part,
                     const char *path, struct snapshot *snapshots, uint32_t lower)
{
    struct client *client = &board->client;
    struct reply reply = {.fd = -1};
    client_begin(client, "output_get", 3);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, experiment->id);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, index);
    pack_text(&client->request, "number");
    pack_u64(&client->request, part->number);
    int code = client_send(client, -1);
    if (code == CLI_DONE) {
        code = client_next(client, -1, true, &reply); /* without a time limit: it may be gigabytes */
    }
    if (code == CLI_REFUSED ||
        code == CLI_NO_SUCH_THING) { /* the sentence is written; points are worth as much without files */
        board->counts.lacking++;
        return CLI_DONE;
    }
    if (code != CLI_DONE) {
        return code;
    }
    int read = reply.fd >= 0 ? snapshot_read(reply.fd, document_number(&reply.document, "bytes"), &snapshots[lower])
                             : ERR_MALFORMED;
    if (read != 0) {
        code =
            cli_fail(board->cli, CLI_REFUSED,
                     "the daemon's answer cannot be read (%s); are shoal and shoald of the same version?", err_text(read));
    } else {
        code = board_files_copy(board->cli, reply.fd, &snapshots[lower], snapshots, lower, path, &board->counts.files);
    }
    if (reply.fd >= 0) {
        (void)close(reply.fd);
    }
    return code;
}

int board_copy_files(struct board *board, struct board_experiment *experiment, struct board_trial *trial, uint64_t index,
                     bool is_over)
{
    struct part parts[PARTS_MAX];
    struct snapshot snapshots[PARTS_MAX] = {0};
    uint32_t count;
    uint64_t hash, begun_ms = board_now_ms(), bytes = 0;
    char path[PATH_MAX];
    if (!is_over && begun_ms < trial->files_next_ms) {
        return CLI_DONE;
    }
    int code = list_parts(board, experiment, index, parts, &count, &hash);
    if (code != CLI_DONE || hash == trial->files_hash) {
        return code;
    }
    for (uint32_t i = 0; i < count; i++) {
        bytes += parts[i].bytes;
    }
    bool is_large = bytes > BOARD_FILES_BYTES_MAX && !board->wish->has_large;
    board->counts.large += is_large && !trial->is_large;
    trial->is_large |= is_large;
    if (snprintf(path, sizeof path, "%s/program", trial->events.path) >= (int)sizeof path) {
        return cli_fail(board->cli, CLI_REFUSED, "the path %.200s... is too long; use a shorter --logdir", path);
    }
    for (uint32_t i = 0; i < count && code == CLI_DONE && !is_large; i++) {
        code = copy_part(board, experiment, index, &parts[i], path, snapshots, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        snapshot_free(&snapshots[i]);
    }
    trial->files_hash = code == CLI_DONE ? hash : 0;
    uint64_t took_ms = board_now_ms() - begun_ms;
    trial->files_next_ms = begun_ms + (FILES_SHARE * took_ms > FILES_MS ? FILES_SHARE * took_ms : FILES_MS);
    return code;
}
