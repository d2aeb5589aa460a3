#include "node/http/export.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/document.h"
#include "base/err.h"
#include "node/export/export.h"
#include "node/http/answer.h"
#include "node/http/ask.h"

#define REQUEST_BYTES 1024

static const struct form {
    const char *name, *type;
    bool (*write)(FILE *out, const struct export_documents *documents);
    bool wants_curves;
} forms[] = {{"html", "text/html; charset=utf-8", export_html, true},
             {"csv", "text/csv; charset=utf-8", export_csv, false},
             {"svg", "image/svg+xml", export_svg, true}};

static const struct form *form_of(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (name == NULL || strcmp(name, forms[i].name) == 0) {
            return &forms[i];
        }
    }
    return NULL;
}

static int ask_curve(struct channel *channel, const char *secret, const char *experiment, uint64_t trial,
                     msgpack_object *out)
{
    uint8_t bytes[REQUEST_BYTES];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    ask_begin(&writer, "metrics", secret, 3);
    pack_text(&writer, "experiment");
    pack_text(&writer, experiment);
    pack_text(&writer, "trial");
    pack_u64(&writer, trial);
    pack_text(&writer, "points");
    pack_u64(&writer, EXPORT_POINTS);
    *out = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    int code = writer.failed ? ERR_USAGE : channel_send(channel, bytes, writer.used_bytes, -1);
    return code == 0 ? ask_collect(channel, out) : code;
}

/* False: the daemon has refused, or has not answered; `*reply` and `*code` tell how. */
static bool collect(struct channel *channel, const char *secret, const char *experiment, const struct form *form,
                    msgpack_object documents[EXPORT_CURVES_MAX + 2], struct export_documents *out,
                    msgpack_object *reply, int *code)
{
    static const char *const ops[] = {"show", "config"};
    uint64_t trials[EXPORT_CURVES_MAX];
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        *code = ask_experiment(channel, ops[i], secret, experiment, -1, &documents[i]);
        *reply = documents[i];
        if (*code != 0 || !document_true(reply, "ok")) {
            return false;
        }
    }
    *out = (struct export_documents){.show = &documents[0], .config = &documents[1], .now_s = (uint64_t)time(NULL)};
    size_t count = form->wants_curves ? export_choose(&documents[0], trials) : 0;
    for (size_t i = 0; i < count; i++) {
        *code = ask_curve(channel, secret, experiment, trials[i], &documents[2 + i]);
        *reply = documents[2 + i];
        if (*code != 0 || !document_true(reply, "ok")) {
            return false;
        }
        out->curves[i].trial = trials[i];
        out->curves[i].metrics = &documents[2 + i];
        out->curve_count++;
    }
    return true;
}

static struct MHD_Response *written(const struct form *form, const struct export_documents *documents, int *status)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool is_written = out != NULL && form->write(out, documents);
    if (out == NULL || fclose(out) != 0 || !is_written) {
        free(text);
        return NULL;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return NULL;
    }
    *status = 200;
    (void)MHD_add_response_header(response, "Content-Type", form->type);
    (void)MHD_add_response_header(response, "Content-Disposition", "attachment");
    answer_add_fields(response, ANSWER_POLICY_DATA, "no-store");
    return response;
}

struct MHD_Response *export_answer(const char *secret, const char *experiment, const char *as, int *status)
{
    const struct form *form = form_of(as);
    struct channel channel;
    msgpack_object documents[EXPORT_CURVES_MAX + 2], reply = {.type = MSGPACK_OBJECT_NIL};
    struct export_documents collected;
    int code = 0;
    if (form == NULL) {
        return answer_problem(400, 2, "`as` is html, csv or svg.", status);
    }
    if (channel_open(&channel) != 0) {
        return answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
    }
    struct MHD_Response *response = collect(&channel, secret, experiment, form, documents, &collected, &reply, &code)
                                        ? written(form, &collected, status)
                                        : answer_reply(code, &reply, status);
    channel_close(&channel);
    return response;
}
