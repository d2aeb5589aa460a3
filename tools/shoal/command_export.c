/* export: an experiment as a file that needs no daemon. The documents come from the daemon, the file from node/export.
 */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/document.h"
#include "node/export/export.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/client.h"

struct exporting {
    struct cli *cli;
    struct client client;
    char experiment[CLIENT_EXPERIMENT_TEXT_BYTES];
    msgpack_object show, config, metrics[EXPORT_CURVES_MAX];
    msgpack_zone **zones; /* of the documents */
    size_t zone_count;
    struct export_documents documents;
};

static bool keep_zone(struct exporting *exporting, msgpack_zone *zone)
{
    size_t bytes = (exporting->zone_count + 1) * sizeof *exporting->zones;
    msgpack_zone **grown = zone != NULL ? realloc(exporting->zones, bytes) : NULL;
    if (grown == NULL) {
        msgpack_zone_free(zone);
        return false;
    }
    exporting->zones = grown;
    exporting->zones[exporting->zone_count++] = zone;
    return true;
}

/* Asks about the experiment, or about one of its trials (`trial` not negative), and keeps the answers, joined. */
static int ask(struct exporting *exporting, const char *op, long long trial, msgpack_object *out)
{
    struct client *client = &exporting->client;
    struct reply reply = {.end = false};
    *out = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    client_begin(client, op, trial >= 0 ? 3 : 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, exporting->experiment);
    if (trial >= 0) {
        pack_text(&client->request, "trial");
        pack_u64(&client->request, (uint64_t)trial);
        pack_text(&client->request, "points");
        pack_u64(&client->request, EXPORT_POINTS);
    }
    int code = client_send(client, -1);
    while (code == CLI_DONE && !reply.end) {
        code = client_next(client, CLIENT_ANSWER_MS, false, &reply);
        msgpack_object parts[2] = {*out, reply.document};
        bool is_first = out->type == MSGPACK_OBJECT_NIL;
        msgpack_zone *zone = code == CLI_DONE ? client_keep(client) : NULL;
        bool is_kept = code == CLI_DONE && keep_zone(exporting, zone) &&
                       document_join(zone, is_first ? &parts[1] : parts, is_first ? 1 : 2, out) == 0;
        if (code == CLI_DONE && !is_kept) {
            return cli_fail(exporting->cli, CLI_REFUSED, "no memory is left for the experiment's documents");
        }
    }
    return code;
}

static int collect(struct exporting *exporting, bool wants_curves)
{
    uint64_t trials[EXPORT_CURVES_MAX];
    struct export_documents *documents = &exporting->documents;
    int code = ask(exporting, "show", -1, &exporting->show);
    if (code == CLI_DONE) {
        code = ask(exporting, "config", -1, &exporting->config);
    }
    if (code != CLI_DONE) {
        return code;
    }
    documents->show = &exporting->show;
    documents->config = &exporting->config;
    documents->now_s = (uint64_t)time(NULL);
    size_t count = wants_curves ? export_choose(&exporting->show, trials) : 0;
    for (size_t i = 0; i < count && code == CLI_DONE; i++) {
        code = ask(exporting, "metrics", (long long)trials[i], &exporting->metrics[i]);
        documents->curves[i].trial = trials[i];
        documents->curves[i].metrics = &exporting->metrics[i];
        documents->curve_count += code == CLI_DONE;
    }
    return code;
}

static int write_file(struct exporting *exporting, const char *path,
                      bool (*write)(FILE *out, const struct export_documents *documents))
{
    struct cli *cli = exporting->cli;
    if (strcmp(path, "-") == 0) {
        return write(cli->out, &exporting->documents) ? CLI_DONE
                                                      : cli_fail(cli, CLI_REFUSED, "no memory is left for the file");
    }
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return cli_fail(cli, CLI_REFUSED, "the file %.200s cannot be written: %s", path, strerror(errno));
    }
    bool is_whole = write(file, &exporting->documents);
    bool is_written = ferror(file) == 0;
    if (fclose(file) != 0 || !is_written) {
        return cli_fail(cli, CLI_REFUSED, "the file %.200s cannot be written: %s", path, strerror(errno));
    }
    if (!is_whole) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left for the file %.200s", path);
    }
    if (cli->json) {
        uint8_t bytes[PATH_MAX + 64];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_map(&writer, 1);
        pack_text(&writer, "file");
        pack_text(&writer, path);
        (void)document_write_packed_json(cli->out, bytes, writer.used_bytes);
    } else {
        (void)fprintf(cli->out, "%s\n", path);
    }
    return CLI_DONE;
}

int command_export(struct cli *cli, const struct arguments *arguments)
{
    static const struct {
        const char *option;
        bool (*write)(FILE *out, const struct export_documents *documents);
        bool wants_curves;
    } forms[] = {{"html", export_html, true}, {"csv", export_csv, false}, {"svg", export_svg, true}};
    struct exporting exporting = {.cli = cli};
    size_t wanted = 0;
    bool wants_curves = false;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        wanted += options_has(arguments, forms[i].option);
        wants_curves |= options_has(arguments, forms[i].option) && forms[i].wants_curves;
    }
    if (wanted == 0) {
        return cli_fail(cli, CLI_USAGE, "export needs to know what to write: --html FILE, --csv FILE or --svg FILE");
    }
    int code = client_open(cli, &exporting.client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(&exporting.client, arguments->operands[0], exporting.experiment);
    if (code == CLI_DONE) {
        code = collect(&exporting, wants_curves);
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0] && code == CLI_DONE; i++) {
        const char *path = options_value(arguments, forms[i].option);
        code = path != NULL ? write_file(&exporting, path, forms[i].write) : CLI_DONE;
    }
    client_close(&exporting.client);
    for (size_t i = 0; i < exporting.zone_count; i++) {
        msgpack_zone_free(exporting.zones[i]);
    }
    free(exporting.zones);
    return code;
}
