/* port-forward: connections to a port of a trial's node. */

#include <stdlib.h>
#include <string.h>

#include "tools/shoal/forward.h"

/* "PORT" or "PORT:REMOTE". */
static int read_ports(struct cli *cli, const char *text, uint16_t *local, uint16_t *remote)
{
    const char *colon = strchr(text, ':');
    size_t bytes = colon != NULL ? (size_t)(colon - text) : strlen(text);
    char first[16] = "";
    uint64_t own = 0, there = 0;
    if (bytes < sizeof first) {
        memcpy(first, text, bytes);
    }
    bool is_read = options_number(first, UINT16_MAX, &own) == 0 &&
                   (colon == NULL || options_number(colon + 1, UINT16_MAX, &there) == 0);
    there = colon == NULL ? own : there;
    if (!is_read || there == 0) {
        return cli_fail(cli, CLI_USAGE,
                        "'%.40s' is no PORT or PORT:REMOTE; write 8080, or 8080:6006 for port 6006 there and 8080 here",
                        text);
    }
    *local = (uint16_t)own;
    *remote = (uint16_t)there;
    return CLI_DONE;
}

int command_forward(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct forward forward;
    uint16_t local = 0, remote = 0;
    uint64_t rank = 0;
    const char *given = options_value(arguments, "rank");
    int code = target_read_one(cli, arguments->operands[0], false, &target);
    if (code == CLI_DONE && given != NULL && options_number(given, UINT32_MAX, &rank) != 0) {
        code = cli_fail(cli, CLI_USAGE, "--rank %.40s is no rank; shoal show tells how many there are", given);
    }
    code = code == CLI_DONE ? read_ports(cli, arguments->operands[1], &local, &remote) : code;
    code = code == CLI_DONE ? forward_open(cli, &target, rank, local, &forward) : code;
    if (code != CLI_DONE) {
        return code;
    }
    forward.port = remote;
    (void)fprintf(cli->out, cli->json ? "{\"url\":\"http://%s/\",\"address\":\"%s\",\"port\":%u}\n" : "http://%s/\n",
                  forward.address, forward.address, (unsigned)remote);
    (void)fflush(cli->out);
    code = forward_serve(&forward, NULL, NULL);
    forward_close(&forward);
    return code;
}
