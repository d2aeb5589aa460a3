/* Artifacts: the files of trials in $SHOAL_OUTPUT_DIR. They come and go through descriptors that the daemon passes, so
 * neither process holds more of a file than a piece. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/document.h"
#include "base/err.h"
#include "node/http/answer.h"
#include "node/http/ask.h"
#include "node/http/guard.h"
#include "node/http/mlflow/keys.h"
#include "node/http/mlflow/work.h"

#define PREFIX "/api/2.0/mlflow-artifacts/artifacts/"
#define REQUEST_BYTES (KEYS_PATH_BYTES + 1024)

/* ---- places ----------------------------------------------------------------------------------------------------- */

static bool read_place(struct work *work, const char *text, struct work_run *run, struct artifact_place *out)
{
    if (!keys_artifact(text, out) || !work_read_run_id(work, out->run, run)) {
        return work_fail_argument(
            work, "Invalid path: '%.300s'. It has to be EXPERIMENT/RUN/artifacts/PATH, and must not lead out.", text);
    }
    return true;
}

/* Writes a request about a file. */
static void begin(const struct work *work, struct pack_writer *writer, const char *op, const struct work_run *run,
                  const char *path, const char *file)
{
    work_begin_trial(work, writer, op, run, 1u + (file != NULL));
    pack_text(writer, "path");
    pack_text(writer, path);
    if (file != NULL) {
        pack_text(writer, "file");
        pack_text(writer, file);
    }
}

/* Lists a directory: files with `prefix` before their names. A directory that is not there has none, as with MLflow. */
static bool list(struct work *work, const struct work_run *run, const char *path, const char *prefix, json_t **out)
{
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    msgpack_object document;
    pack_writer_init(&writer, bytes, sizeof bytes);
    begin(work, &writer, "files", run, path, NULL);
    if (!work_send(work, &writer, &document) && work->status != 404) {
        return false;
    }
    *out = json_array();
    msgpack_object_array files = document_list(&document, "files");
    for (uint32_t i = 0; i < files.size && work->status == 200; i++) {
        char name[1024], whole[2 * sizeof name];
        bool is_directory = document_true(&files.ptr[i], "is_directory");
        document_text(&files.ptr[i], "name", name, sizeof name);
        (void)snprintf(whole, sizeof whole, "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", name);
        json_t *row = json_pack("{s:s, s:b}", "path", whole, "is_dir", is_directory);
        if (row != NULL && !is_directory) {
            (void)json_object_set_new(row, "file_size",
                                      json_integer((json_int_t)document_number(&files.ptr[i], "bytes")));
        }
        if (row != NULL) { /* else its name is no UTF-8 */
            (void)json_array_append_new(*out, row);
        }
    }
    work->status = 200;
    return true;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------ */

#define CHECKPOINT_NAME_BYTES 65

/* Reads EXPERIMENT/RUN/checkpoints/NAME[/checkpoint]: a checkpoint that is a version of a model, as a directory with one file. False: it
 * is none. */
static bool read_checkpoint(const char *text, struct work_run *run, char name[CHECKPOINT_NAME_BYTES], bool *is_file)
{
    static const char middle[] = "/checkpoints/";
    struct work ignored = {.status = 200};
    char id[WORK_RUN_BYTES];
    size_t experiment = strspn(text, "0123456789");
    const char *at = text + experiment, *rest = strstr(text, middle);
    if (experiment == 0 || rest == NULL || (size_t)(rest - at) != WORK_RUN_BYTES || *at != '/') {
        return false;
    }
    memcpy(id, at + 1, sizeof id - 1);
    id[sizeof id - 1] = '\0';
    rest += sizeof middle - 1;
    size_t bytes = strspn(rest, "0123456789abcdef");
    if (bytes != CHECKPOINT_NAME_BYTES - 1 || !work_read_run_id(&ignored, id, run)) {
        return false;
    }
    memcpy(name, rest, bytes);
    name[bytes] = '\0';
    rest += bytes;
    *is_file = strcmp(rest, "/checkpoint") == 0;
    return *is_file || *rest == '\0' || strcmp(rest, "/") == 0;
}

bool artifacts_list_run(struct work *work)
{
    struct work_run run;
    struct artifact_place place;
    json_t *files;
    char decimal[WORK_ID_BYTES], id[WORK_RUN_BYTES], root[96], text[KEYS_PATH_BYTES + sizeof root],
        uri[sizeof root + 24];
    const char *path = work_argument(work, "path");
    path = path != NULL ? path : "";
    if (!work_read_run(work, &run)) {
        return false;
    }
    work_decimal(run.experiment, decimal);
    work_run_id(&run, id);
    (void)snprintf(root, sizeof root, "%s/%s/artifacts", decimal, id);
    int bytes = snprintf(text, sizeof text, "%s/%s", root, path);
    if (bytes < 0 || (size_t)bytes >= sizeof text) {
        return work_fail_argument(work, "The path is longer than %d bytes.", KEYS_PATH_BYTES);
    }
    if (!read_place(work, text, &run, &place) || !list(work, &run, place.path, path, &files)) {
        return false;
    }
    (void)snprintf(uri, sizeof uri, "mlflow-artifacts:/%s", root);
    work->answer = json_pack("{s:s, s:o}", "root_uri", uri, "files", files);
    return true;
}

bool artifacts_list(struct work *work)
{
    struct work_run run;
    struct artifact_place place;
    json_t *files;
    char name[CHECKPOINT_NAME_BYTES];
    bool is_file;
    const char *path = work_argument(work, "path");
    if (read_checkpoint(path != NULL ? path : "", &run, name, &is_file)) {
        work->answer = is_file ? json_pack("{s:[]}", "files") : json_pack("{s:[{s:s, s:b}]}", "files", "path", "checkpoint", "is_dir", 0);
        return true;
    }
    if (!read_place(work, path != NULL ? path : "", &run, &place) || !list(work, &run, place.path, "", &files)) {
        return false;
    }
    work->answer = json_pack("{s:o}", "files", files);
    return true;
}

bool artifacts_get(struct work *work)
{
    static const struct route route = {
        .method = "GET", .path = "", .op = "file_get", .kind = ROUTE_FILE, .type = "application/octet-stream"};
    struct work_run run;
    struct artifact_place place;
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    msgpack_object reply;
    int fd = -1;
    struct stat info;
    char name[CHECKPOINT_NAME_BYTES];
    bool is_file = false, is_checkpoint = read_checkpoint(work->rest, &run, name, &is_file);
    if (is_checkpoint ? !is_file && !work_fail_argument(work, "That is a directory; the file in it is checkpoint.")
                      : !read_place(work, work->rest, &run, &place)) {
        return false;
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    if (is_checkpoint) {
        work_begin_trial(work, &writer, "checkpoint_get", &run, 1);
        pack_text(&writer, "set");
        pack_text(&writer, name);
    } else {
        begin(work, &writer, route.op, &run, place.path, NULL);
    }
    if (!work_put(work, &writer) || !work_take_file(work, &reply, &fd)) {
        return false;
    }
    uint64_t offset = document_number(&reply, "offset"), count = document_number(&reply, "bytes");
    bool is_whole = fd >= 0 && fstat(fd, &info) == 0 && (uint64_t)info.st_size >= offset &&
                    (uint64_t)info.st_size - offset >= count;
    work->file = is_whole ? MHD_create_response_from_fd_at_offset64(count, fd, offset) : NULL;
    if (work->file == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return work_fail(work, 503, "TEMPORARILY_UNAVAILABLE",
                         "The file cannot be read now; try again in some seconds.");
    }
    (void)MHD_add_response_header(work->file, "Content-Type", route.type);
    (void)MHD_add_response_header(work->file, "Content-Disposition", "attachment");
    answer_add_fields(work->file, ANSWER_POLICY_DATA, "no-store");
    return true;
}

bool artifacts_delete(struct work *work)
{
    struct work_run run, own;
    struct artifact_place place;
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    msgpack_object reply;
    if (!read_place(work, work->rest, &run, &place) || !work_own_or_refuse(work, &own)) {
        return false;
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    begin(work, &writer, "trial_file_delete", &run, place.path, NULL);
    if (!work_send(work, &writer, &reply)) {
        return false;
    }
    work->answer = json_object();
    return true;
}

/* ---- uploads ---------------------------------------------------------------------------------------------------- */

struct mlflow_upload {
    struct work work;
    struct mlflow_call call;
    char path[KEYS_PATH_BYTES + 256], secret[GUARD_SECRET_BYTES];
    struct work_run run;
    struct artifact_place place;
    char file[32]; /* the daemon's name of it */
    int fd;        /* -1: the upload has failed */
};

bool mlflow_is_upload(const char *method, const char *path)
{
    return strcmp(method, "PUT") == 0 && strncmp(path, PREFIX, strlen(PREFIX)) == 0;
}

/* Asks for a new file. */
static bool open_file(struct mlflow_upload *upload)
{
    struct work *work = &upload->work;
    struct work_run own;
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    msgpack_object reply;
    if (strlen(upload->call.path) >= sizeof upload->path - 1) {
        return work_fail_argument(work, "The path is longer than %d bytes.", KEYS_PATH_BYTES);
    }
    if (!read_place(work, upload->path + strlen(PREFIX), &upload->run, &upload->place)) {
        return false;
    }
    if (upload->place.path[0] == '\0') {
        return work_fail_argument(work, "The path names no file.");
    }
    if (!work_own_or_refuse(work, &own)) {
        return false;
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    begin(work, &writer, "trial_file_put", &upload->run, upload->place.path, NULL);
    if (!work_put(work, &writer) || !work_take_file(work, &reply, &upload->fd)) {
        return false;
    }
    document_text(&reply, "file", upload->file, sizeof upload->file);
    return upload->fd >= 0 || work_fail(work, 503, "TEMPORARILY_UNAVAILABLE",
                                        "The file cannot be written now; try again in some seconds.");
}

struct mlflow_upload *mlflow_upload_begin(const struct mlflow_call *call)
{
    struct mlflow_upload *upload = calloc(1, sizeof *upload);
    if (upload == NULL || channel_open(&upload->work.channel) != 0) {
        free(upload);
        return NULL;
    }
    (void)snprintf(upload->path, sizeof upload->path, "%s", call->path);
    (void)snprintf(upload->secret, sizeof upload->secret, "%s", call->secret != NULL ? call->secret : "");
    upload->call = (struct mlflow_call){
        .method = call->method, .path = upload->path, .secret = call->secret != NULL ? upload->secret : NULL};
    upload->work.call = &upload->call;
    upload->work.status = 200;
    upload->fd = -1;
    (void)open_file(upload);
    return upload;
}

bool mlflow_upload_is_good(const struct mlflow_upload *upload)
{
    return upload->work.status == 200;
}

void mlflow_upload_take(struct mlflow_upload *upload, const char *bytes, size_t count)
{
    while (count > 0 && upload->work.status == 200) {
        ssize_t written = write(upload->fd, bytes, count);
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            (void)work_fail(&upload->work, 507, "RESOURCE_EXHAUSTED",
                            written < 0 && (errno == ENOSPC || errno == EDQUOT)
                                ? "The disk of this node is full."
                                : "The file cannot be written on this node.");
        }
    }
}

struct MHD_Response *mlflow_upload_end(struct mlflow_upload *upload, int *status)
{
    struct work *work = &upload->work;
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    msgpack_object reply;
    if (upload->fd >= 0 && close(upload->fd) != 0 && work->status == 200) {
        (void)work_fail(work, 507, "RESOURCE_EXHAUSTED", "The file cannot be written on this node.");
    }
    upload->fd = -1;
    if (work->status == 200) {
        pack_writer_init(&writer, bytes, sizeof bytes);
        begin(work, &writer, "trial_file_keep", &upload->run, upload->place.path, upload->file);
        if (work_send(work, &writer, &reply)) {
            work->answer = json_object();
        }
    }
    struct MHD_Response *response = work_answer(work, status);
    mlflow_upload_drop(upload);
    return response;
}

void mlflow_upload_drop(struct mlflow_upload *upload)
{
    if (upload->fd >= 0) {
        (void)close(upload->fd);
    }
    channel_close(&upload->work.channel);
    explicit_bzero(upload->secret, sizeof upload->secret);
    free(upload);
}
