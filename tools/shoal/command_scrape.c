/* scrape-config: where Prometheus finds the metrics of this mesh. */

#include <stdlib.h>

#include "base/document.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"

static void render_config(struct cli *cli, const msgpack_object *document)
{
    char certificate[4096];
    msgpack_object_array targets = document_list(document, "targets"), others = document_list(document, "others");
    (void)fputs("scrape_configs:\n"
                "  - job_name: shoal\n"
                "    authorization:\n"
                "      credentials_file: shoal.token # shoal token create --read-only --name prometheus >shoal.token\n",
                cli->out);
    document_text(document, "certificate", certificate, sizeof certificate);
    if (certificate[0] != '\0') {
        (void)fprintf(cli->out, "    scheme: https\n    tls_config: {ca_file: %s}\n", certificate);
    }
    (void)fputs("    static_configs:\n", cli->out);
    for (uint32_t i = 0; i < targets.size; i++) {
        (void)fputs("      - targets: ", cli->out);
        (void)document_write_json(cli->out, document_find(&targets.ptr[i], "targets"));
        (void)fputs("        labels: ", cli->out);
        (void)document_write_json(cli->out, document_find(&targets.ptr[i], "labels"));
    }
    for (uint32_t i = 0; i < others.size; i++) {
        char label[128];
        document_value_text(&others.ptr[i], label, sizeof label);
        (void)fprintf(cli->out,
                      "      # %s: shoal scrape-config there, or, if its door is open to others, a job with what "
                      "shoal connect %s says\n",
                      label, label);
    }
}

int command_scrape_config(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    struct client client;
    struct reply reply;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(&client, "scrape_targets", 0);
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && document_list(&reply.document, "targets").size == 0) {
        code = cli_fail(cli, CLI_REFUSED,
                        "this node has no HTTP door now; shoal events says why, and shoald --http HOST:PORT opens one");
    } else if (code == CLI_DONE && cli->json) {
        (void)document_write_json(cli->out, document_find(&reply.document, "targets"));
    } else if (code == CLI_DONE) {
        render_config(cli, &reply.document);
    }
    client_close(&client);
    return code;
}
