/* status, nodes, slots: the mesh as this node knows it. */

#include <string.h>

#include "base/document.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"

static void write_refused(FILE *out, const msgpack_object *document)
{
    msgpack_object_map refused = document_pairs(document_find(document, "refused"));
    (void)fputs("refused      ", out);
    bool any = false;
    for (uint32_t i = 0; i < refused.size; i++) {
        const msgpack_object *name = &refused.ptr[i].key, *number = &refused.ptr[i].val;
        if (name->type == MSGPACK_OBJECT_STR && number->type == MSGPACK_OBJECT_POSITIVE_INTEGER && number->via.u64 > 0) {
            (void)fprintf(out, "%s%llu %.*s", any ? ", " : "", (unsigned long long)number->via.u64,
                          (int)(name->via.str.size > 40 ? 40 : name->via.str.size), name->via.str.ptr);
            any = true;
        }
    }
    (void)fputs(any ? "\n" : "nothing\n", out);
}

static void render_status(struct cli *cli, const msgpack_object *document)
{
    FILE *out = cli->out;
    const msgpack_object *mesh = document_find(document, "mesh"), *node = document_find(document, "node");
    char mesh_id[64], mesh_name[128], node_id[64], node_name[128], state[32], version[32], address[128];
    document_text(mesh, "id", mesh_id, sizeof mesh_id);
    document_text(mesh, "name", mesh_name, sizeof mesh_name);
    document_text(node, "id", node_id, sizeof node_id);
    document_node(node, "name", node_name, sizeof node_name);
    document_text(node, "state", state, sizeof state);
    document_text(document, "version", version, sizeof version);
    document_text(document, "address", address, sizeof address);
    char uptime[RENDER_UNIT_BYTES], memory[RENDER_UNIT_BYTES], nodes[PRINT_SUMMARY_BYTES];
    render_duration(uptime, document_number(document, "uptime_s"));
    render_bytes(memory, document_number(document, "memory_bytes"));
    (void)fprintf(out, "mesh         %s%s%s\n", mesh_name, mesh_name[0] != '\0' ? "  " : "", mesh_id);
    (void)fprintf(out, "node         %s  %s  ", node_name, node_id);
    render_text(out, cli->colours, render_state_colour(state), state);
    if (document_true(node, "drained")) {
        (void)fputs("  ", out);
        render_text(out, cli->colours, RENDER_YELLOW, "drained: it gets no new work");
    }
    (void)fprintf(out, "\naddress      %s", address);
    msgpack_object_array addresses = document_list(document, "addresses");
    for (uint32_t i = 1; i < addresses.size; i++) { /* the first one is `address` */
        if (addresses.ptr[i].type == MSGPACK_OBJECT_STR) {
            (void)fprintf(out, ", %.*s", (int)addresses.ptr[i].via.str.size, addresses.ptr[i].via.str.ptr);
        }
    }
    (void)fputc('\n', out);
    (void)fprintf(out, "daemon       version %s, up for %s, %s of memory\n", version, uptime, memory);
    print_nodes(document, nodes);
    (void)fprintf(out, "nodes        %s\n", nodes);
    bool all_live = document_number(document, "nodes_alive") >= document_number(document, "nodes");
    (void)fprintf(out, "slots        %llu of %llu free%s\n", (unsigned long long)document_number(document, "slots_free"),
                  (unsigned long long)document_number(document, "slots"), all_live ? "" : " on living nodes");
    (void)fprintf(out, "experiments  %llu live of %llu\n",
                  (unsigned long long)document_number(document, "experiments_live"),
                  (unsigned long long)document_number(document, "experiments"));
    if (document_has(document, "polite")) {
        (void)fprintf(out, "workers      %s\n",
                      document_true(document, "polite") ? "after this machine's other processes (shoald --polite on)"
                                                        : "beside this machine's other processes (shoald --polite off)");
    }
    if (document_has(document, "tells_webhooks") && !document_true(document, "tells_webhooks")) {
        (void)fputs("webhooks     not told by this node: it was built without libcurl (there is no program shoal-webhook)\n", out);
    }
    (void)fprintf(out, "records      %llu\n", (unsigned long long)document_number(document, "records"));
    write_refused(out, document);
    print_blocked(out, document, "blocked      ");
    print_waiting_experiments(out, document_list(document, "waiting"), "reason", "waiting      ");
    if (strcmp(state, "evicted") == 0 || strcmp(state, "void") == 0) {
        render_text(out, cli->colours, RENDER_RED,
                    "member       NO: this node is out of the mesh; end its daemon, and join with a new invite and data "
                    "directory\n");
    }
    const msgpack_object *scrub = document_find(document, "scrub");
    if (document_number(scrub, "damaged") > 0) {
        (void)fprintf(out, "scrub        %llu damaged chunks found, %llu blobs restored\n",
                      (unsigned long long)document_number(scrub, "damaged"),
                      (unsigned long long)document_number(scrub, "restored"));
    }
    char apart[RENDER_UNIT_BYTES];
    double ahead_s;
    if (document_double(document_find(document, "clock_ahead_s"), &ahead_s) && print_clock(ahead_s, apart)) {
        char warning[128];
        (void)snprintf(warning, sizeof warning, "clock        %s %smost members'; set it right\n", apart, ahead_s > 0 ? "of " : "");
        render_text(out, cli->colours, RENDER_YELLOW, warning);
    }
    const msgpack_object *twin = document_find(document, "twin"), *was = document_find(document, "was");
    document_text(twin, "address", address, sizeof address);
    if (address[0] != '\0') {
        char warning[256];
        const char *next =
            document_true(twin, "yields") ? "it is becoming another node" : "this one is becoming another node";
        (void)snprintf(warning, sizeof warning,
                       "key          IN USE TWICE: a daemon on a copy of this data directory runs at %s; %s\n", address, next);
        render_text(out, cli->colours, RENDER_RED, warning);
    }
    document_text(was, "address", address, sizeof address);
    if (address[0] != '\0') {
        document_text(was, "id", node_id, sizeof node_id);
        (void)fprintf(out, "was          %s, whose key another daemon has, seen at %s\n", node_id, address);
    }
    if (document_true(document, "syncing")) {
        render_text(out, cli->colours, RENDER_YELLOW,
                    "syncing      not all records are here yet: this node grants no slots\n");
    }
    if (document_true(document, "disk_full")) {
        render_text(out, cli->colours, RENDER_RED,
                    "disk         FULL: no new work here; make room in the data directory\n");
    }
    if (document_true(document, "memory_full")) {
        render_text(out, cli->colours, RENDER_RED,
                    "memory       FULL: nothing new begins anywhere; delete experiments that are over\n");
    }
}

int command_status(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "status", render_status);
}

/* ", speaks protocol 2 to 3" for a node that has no protocol version in common with this node; else empty. */
static void format_foreign(const msgpack_object *node, char *out, size_t size)
{
    const msgpack_object *protocol = document_find(node, "protocol");
    out[0] = '\0';
    if (protocol->type != MSGPACK_OBJECT_MAP || document_has(protocol, "common")) {
        return;
    }
    unsigned long long min = document_number(protocol, "min"), max = document_number(protocol, "max");
    int used = snprintf(out, size, ", speaks protocol %llu", min);
    if (max != min) {
        (void)snprintf(out + used, size - (size_t)used, " to %llu", max);
    }
}

static void render_nodes(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "NAME", false);
    table_column(&table, "STATE", false);
    table_column(&table, "DRAINED", false);
    table_column(&table, "ADDRESS", false);
    table_column(&table, "SLOTS", true);
    table_column(&table, "VERSION", false);
    table_column(&table, "ID", false);
    msgpack_object_array list = document_list(document, "nodes");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char text[128];
        print_cell_text(&table, item, document_has(item, "label") ? "label" : "name");
        document_text(item, "state", text, sizeof text);
        bool is_apart = document_find(item, "quarantined")->type == MSGPACK_OBJECT_MAP;
        char foreign[64];
        format_foreign(item, foreign, sizeof foreign);
        table_cell(&table, render_state_colour(is_apart || foreign[0] != '\0' ? "suspect" : text), "%s%s%s", text,
                   is_apart ? ", quarantined" : "", foreign);
        bool is_out = strcmp(text, "evicted") == 0 || strcmp(text, "void") == 0 || strcmp(text, "left") == 0;
        const char *drained = is_out                            ? "-"
                              : document_true(item, "emptied") ? "yes"
                              : document_true(item, "drained") ? "draining"
                                                                : "-";
        table_cell(&table, drained[0] != '-' ? RENDER_YELLOW : RENDER_PLAIN, "%s", drained);
        print_cell_text(&table, item, "address");
        print_cell_text(&table, item, "slots");
        print_cell_text(&table, item, "version");
        print_cell_text(&table, item, "id");
    }
    table_write(&table, cli->out, cli->colours);
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *quarantine = document_find(&list.ptr[i], "quarantined");
        char label[128], reason[256];
        if (quarantine->type == MSGPACK_OBJECT_MAP) {
            document_text(&list.ptr[i], document_has(&list.ptr[i], "label") ? "label" : "name", label, sizeof label);
            document_text(quarantine, "reason", reason, sizeof reason);
            (void)fprintf(cli->out, "quarantined: %s for %llu min: %s\n", label,
                          (unsigned long long)document_number(quarantine, "minutes"), reason);
        }
    }
    for (uint32_t i = 0; i < list.size; i++) {
        char label[128];
        document_text(&list.ptr[i], document_has(&list.ptr[i], "label") ? "label" : "name", label, sizeof label);
        print_policy(cli->out, label, document_find(&list.ptr[i], "policy"));
    }
    print_blocked(cli->out, document, "blocked: ");
    for (uint32_t i = 0; i < list.size; i++) {
        char name[128], apart[RENDER_UNIT_BYTES];
        double ahead_s;
        document_node(&list.ptr[i], "name", name, sizeof name);
        if (document_double(document_find(&list.ptr[i], "clock_ahead_s"), &ahead_s) && print_clock(ahead_s, apart)) {
            (void)fprintf(cli->out, "%s's clock is %s %sthis node's\n", name, apart, ahead_s > 0 ? "of " : "");
        }
    }
}

int command_nodes(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "nodes", render_nodes);
}

/* The warm processes of the node that answers. */
static void print_warm(struct cli *cli, const msgpack_object *document)
{
    msgpack_object_array list = document_list(document, "warm");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        msgpack_object_array slots = document_list(item, "slots");
        unsigned long long pid = document_number(item, "pid"), trials = document_number(item, "trials");
        char label[128], experiment[64], state[32], memory[RENDER_UNIT_BYTES], idle[RENDER_UNIT_BYTES];
        document_text(item, "label", label, sizeof label);
        document_text(item, "experiment", experiment, sizeof experiment);
        document_text(item, "state", state, sizeof state);
        render_bytes(memory, document_number(item, "memory_bytes"));
        render_duration(idle, document_number(item, "idle_s"));
        (void)fprintf(cli->out, "warm: process %llu of %s for %.8s, slot%s ", pid, label, experiment, slots.size == 1 ? "" : "s");
        for (uint32_t k = 0; k < slots.size; k++) {
            (void)fprintf(cli->out, "%s%llu", k > 0 ? "," : "", (unsigned long long)slots.ptr[k].via.u64);
        }
        (void)fprintf(cli->out, ": %s, %llu trial%s, %s, idle for %s\n", state, trials, trials == 1 ? "" : "s", memory, idle);
    }
}

static void render_slots(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "NODE", false);
    table_column(&table, "SLOT", true);
    table_column(&table, "KIND", false);
    table_column(&table, "MODEL", false);
    table_column(&table, "MEMORY", true);
    table_column(&table, "STATE", false);
    table_column(&table, "EXPERIMENT", false);
    table_column(&table, "TRIAL", true);
    table_column(&table, "ATTEMPT", true);
    msgpack_object_array list = document_list(document, "slots");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char text[128], memory[RENDER_UNIT_BYTES];
        document_node(item, "node_name", text, sizeof text);
        table_cell(&table, RENDER_PLAIN, "%s", text);
        print_cell_text(&table, item, "index");
        print_cell_text(&table, item, "kind");
        print_cell_text(&table, item, "model");
        render_bytes(memory, document_number(item, "memory_bytes"));
        table_cell(&table, RENDER_PLAIN, "%s", document_number(item, "memory_bytes") == 0 ? "-" : memory);
        char node_state[32], why[32];
        document_text(item, "state", text, sizeof text);
        document_text(item, "why", why, sizeof why);
        document_text(item, "node_state", node_state, sizeof node_state);
        /* Older daemons send no node_state: alive. */
        bool is_there = node_state[0] == '\0' || strcmp(node_state, "alive") == 0;
        table_cell(&table, render_state_colour(is_there ? text : node_state), "%s%s%s%s%s", text, why[0] != '\0' ? ": " : "", why,
                   is_there ? "" : ", node ", is_there ? "" : node_state);
        print_cell_text(&table, item, "experiment");
        print_cell_text(&table, item, "trial");
        print_cell_text(&table, item, "attempt");
    }
    table_write(&table, cli->out, cli->colours);
    print_warm(cli, document);
}

int command_slots(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "slots", render_slots);
}
