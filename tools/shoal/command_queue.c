/* queue: which experiments wait for slots, in their order, and what for. */

#include <string.h>

#include "base/document.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"

#define REASON_BYTES 1024
#define REASON_COLUMN 7

/* "4 cuda", "2-4" where fewer do, too. */
static void slots_text(const msgpack_object *row, char *out, size_t size)
{
    unsigned long long most = document_number(row, "slots"), least = document_number(row, "slots_min");
    char kind[16];
    document_text(row, "kind", kind, sizeof kind);
    bool is_any = strcmp(kind, "any") == 0;
    int used = least < most ? snprintf(out, size, "%llu-%llu", least, most) : snprintf(out, size, "%llu", most);
    if (!is_any) {
        (void)snprintf(out + used, size - (size_t)used, " %s", kind);
    }
}

static void write_queue(struct cli *cli, const msgpack_object *document)
{
    static const struct {
        const char *head;
        bool right;
    } columns[] = {{"#", true},        {"NAME", false},  {"ID", false},    {"PRIORITY", true},
                   {"SLOTS", false}, {"WAITING", true}, {"SINCE", false}, {"WAITS FOR", false}};
    msgpack_object_array rows = document_list(document, "queue");
    struct table table = {0};
    if (rows.size == 0) {
        (void)fputs("nothing waits for slots\n", cli->out);
        return;
    }
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        table_column(&table, columns[i].head, columns[i].right);
    }
    for (uint32_t i = 0; i < rows.size; i++) {
        const msgpack_object *row = &rows.ptr[i];
        char slots[64], since[RENDER_UNIT_BYTES], reason[REASON_BYTES], id[CLIENT_EXPERIMENT_TEXT_BYTES];
        slots_text(row, slots, sizeof slots);
        render_time(since, 1000 * document_number(row, "since_s"));
        document_text(row, "reason", reason, sizeof reason);
        document_text(row, "experiment", id, sizeof id);
        print_cell_text(&table, row, "position");
        print_cell_text(&table, row, "name");
        table_cell(&table, RENDER_PLAIN, "%.8s", id);
        print_cell_text(&table, row, "priority");
        table_cell(&table, RENDER_PLAIN, "%s", slots);
        print_cell_text(&table, row, "trials");
        table_cell(&table, RENDER_PLAIN, "%s", since);
        table_cell(&table, RENDER_PLAIN, "%s", reason);
    }
    if (cli->out_is_terminal) {
        size_t width, lines;
        render_terminal_size(cli->out, &width, &lines);
        table_fit(&table, width, 1u << REASON_COLUMN);
    }
    table_write(&table, cli->out, cli->colours);
}

int command_queue(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "queue", write_queue);
}
