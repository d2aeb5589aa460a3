/* top: one page of the mesh, drawn anew every other second: its nodes, its slots, what runs on each, how fast, and what it uses. */

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/document.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"

#define LOOK_MS 2000 /* between two pages; workers' steps are published as often */
#define LOOKS_OF_ONE 3 /* looks for a page that is written once: speeds need some */
#define SAMPLES_MAX 8 /* looks over which a speed is taken */
#define TRIALS_MAX 4096 /* whose speeds are known */

/* A slot, and what runs there. */
struct top_slot {
    char node[CLIENT_NODE_TEXT_BYTES], label[96], node_state[16], kind[16], model[64], state[32];
    uint64_t index, memory_bytes, trial, attempt, step;
    char experiment[CLIENT_EXPERIMENT_TEXT_BYTES], name[96];
    bool is_taken, has_step;
    double steps_s; /* NaN: not known */
    bool has_use, has_gpu_percent, has_gpu_memory; /* the next ones are known: of the slot's worker, and of its GPU */
    double cpu_percent; /* 100: one processor */
    uint64_t resident_bytes, gpu_percent, gpu_memory_bytes;
};

/* The steps of one attempt, as seen by the last looks. */
struct top_speed {
    char experiment[CLIENT_EXPERIMENT_TEXT_BYTES];
    uint64_t trial, attempt;
    uint32_t count; /* of samples; the newest is the last */
    struct {
        uint64_t ms, step;
    } samples[SAMPLES_MAX];
    bool is_seen;
};

struct top {
    struct client *client;
    struct top_slot *slots;
    uint32_t slot_count;
    uint32_t node_count, alive_count, drained_count;
    struct top_speed *speeds;
    uint32_t speed_count;
};

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static int look_at_nodes(struct top *top)
{
    struct reply reply;
    client_begin(top->client, "nodes", 0);
    int code = client_ask(top->client, CLIENT_ANSWER_MS, &reply);
    msgpack_object_array list = code == CLI_DONE ? document_list(&reply.document, "nodes") : (msgpack_object_array){.size = 0};
    top->node_count = top->alive_count = top->drained_count = 0;
    for (uint32_t i = 0; i < list.size; i++) {
        char state[32];
        document_text(&list.ptr[i], "state", state, sizeof state);
        bool is_member = strcmp(state, "alive") == 0 || strcmp(state, "suspect") == 0 || strcmp(state, "dead") == 0;
        top->node_count += is_member;
        top->alive_count += strcmp(state, "alive") == 0;
        top->drained_count += is_member && document_true(&list.ptr[i], "drained");
    }
    return code;
}

static int look_at_slots(struct top *top)
{
    struct reply reply;
    client_begin(top->client, "slots", 0);
    int code = client_ask(top->client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array list = document_list(&reply.document, "slots");
    struct top_slot *slots = calloc(list.size + 1u, sizeof *slots);
    if (slots == NULL) {
        return cli_fail(top->client->cli, CLI_REFUSED, "no memory is left");
    }
    free(top->slots);
    top->slots = slots;
    top->slot_count = list.size;
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        struct top_slot *slot = &slots[i];
        document_text(item, "node", slot->node, sizeof slot->node);
        document_node(item, "node_name", slot->label, sizeof slot->label);
        document_text(item, "node_state", slot->node_state, sizeof slot->node_state);
        document_text(item, "kind", slot->kind, sizeof slot->kind);
        document_text(item, "model", slot->model, sizeof slot->model);
        document_text(item, "state", slot->state, sizeof slot->state);
        document_text(item, "experiment", slot->experiment, sizeof slot->experiment);
        slot->index = document_number(item, "index");
        slot->memory_bytes = document_number(item, "memory_bytes");
        slot->trial = document_number(item, "trial");
        slot->attempt = document_number(item, "attempt");
        slot->is_taken = slot->experiment[0] != '\0';
        slot->steps_s = (double)NAN;
    }
    return CLI_DONE;
}

static struct top_slot *find_slot(struct top *top, const char *node, uint64_t index)
{
    for (uint32_t i = 0; i < top->slot_count; i++) {
        if (top->slots[i].index == index && strcmp(top->slots[i].node, node) == 0) {
            return &top->slots[i];
        }
    }
    return NULL;
}

/* Fills in what the slots use. An older daemon knows no such request: then nothing is known. */
static int look_at_usage(struct top *top)
{
    struct reply reply;
    client_begin(top->client, "usage", 0);
    top->client->quiet = true;
    int code = client_ask(top->client, CLIENT_ANSWER_MS, &reply);
    top->client->quiet = false;
    if (code == CLI_USAGE) {
        return CLI_DONE;
    }
    msgpack_object_array list = code == CLI_DONE ? document_list(&reply.document, "usage") : (msgpack_object_array){.size = 0};
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char node[CLIENT_NODE_TEXT_BYTES];
        document_text(item, "node", node, sizeof node);
        struct top_slot *slot = find_slot(top, node, document_number(item, "index"));
        if (slot == NULL) {
            continue;
        }
        slot->has_use = slot->is_taken && document_has(item, "cpu_percent"); /* else of a worker that has just ended */
        slot->cpu_percent = 0;
        (void)document_double(document_find(item, "cpu_percent"), &slot->cpu_percent);
        slot->resident_bytes = document_number(item, "memory_bytes");
        slot->has_gpu_percent = document_has(item, "gpu_percent");
        slot->gpu_percent = document_number(item, "gpu_percent");
        slot->has_gpu_memory = document_has(item, "gpu_memory_bytes");
        slot->gpu_memory_bytes = document_number(item, "gpu_memory_bytes");
    }
    return code;
}

static struct top_speed *speed_of(struct top *top, const struct top_slot *slot)
{
    for (uint32_t i = 0; i < top->speed_count; i++) {
        struct top_speed *speed = &top->speeds[i];
        if (speed->trial == slot->trial && speed->attempt == slot->attempt && strcmp(speed->experiment, slot->experiment) == 0) {
            return speed;
        }
    }
    if (top->speed_count == TRIALS_MAX) {
        return NULL;
    }
    struct top_speed *speed = &top->speeds[top->speed_count++];
    *speed = (struct top_speed){.trial = slot->trial, .attempt = slot->attempt};
    (void)snprintf(speed->experiment, sizeof speed->experiment, "%s", slot->experiment);
    return speed;
}

/* Notes the step of a slot's trial, once a look, and works its speed out. */
static void take_step(struct top *top, struct top_slot *slot, uint64_t step, uint64_t ms)
{
    struct top_speed *speed = speed_of(top, slot);
    slot->step = step;
    slot->has_step = true;
    if (speed == NULL) {
        return;
    }
    if (!speed->is_seen) {
        if (speed->count == SAMPLES_MAX) {
            memmove(&speed->samples[0], &speed->samples[1], --speed->count * sizeof speed->samples[0]);
        }
        speed->samples[speed->count].ms = ms;
        speed->samples[speed->count++].step = step;
        speed->is_seen = true;
    }
    uint64_t span_ms = speed->samples[speed->count - 1].ms - speed->samples[0].ms, first = speed->samples[0].step;
    if (speed->count > 1 && span_ms > 0 && step >= first) {
        slot->steps_s = (double)(step - first) * 1000 / (double)span_ms;
    }
}

/* Fills in the name and the steps of one experiment's slots. */
static int look_at_experiment(struct top *top, const char *id)
{
    struct reply reply;
    client_begin(top->client, "show", 1);
    pack_text(&top->client->request, "experiment");
    pack_text(&top->client->request, id);
    int code = client_ask(top->client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    uint64_t ms = now_ms();
    const msgpack_object *experiment = document_find(&reply.document, "experiment");
    msgpack_object_array trials = document_list(experiment, "trials");
    for (uint32_t i = 0; i < top->slot_count; i++) {
        struct top_slot *slot = &top->slots[i];
        if (strcmp(slot->experiment, id) != 0) {
            continue;
        }
        document_text(experiment, "name", slot->name, sizeof slot->name);
        for (uint32_t k = 0; k < trials.size; k++) {
            const msgpack_object *trial = &trials.ptr[k];
            bool is_it = document_number(trial, "index") == slot->trial && document_number(trial, "attempt") == slot->attempt;
            if (is_it && document_has(trial, "step")) {
                take_step(top, slot, document_number(trial, "step"), ms);
            }
        }
    }
    return CLI_DONE;
}

/* Forgets trials that run no more. */
static void forget_speeds(struct top *top)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < top->speed_count; i++) {
        if (top->speeds[i].is_seen) {
            top->speeds[kept] = top->speeds[i];
            top->speeds[kept++].is_seen = false;
        }
    }
    top->speed_count = kept;
}

static int look(struct top *top)
{
    int code = look_at_nodes(top);
    if (code == CLI_DONE) {
        code = look_at_slots(top);
    }
    if (code == CLI_DONE) {
        code = look_at_usage(top);
    }
    for (uint32_t i = 0; i < top->slot_count && code == CLI_DONE; i++) {
        const struct top_slot *slot = &top->slots[i];
        if (slot->is_taken && slot->name[0] == '\0') {
            char id[CLIENT_EXPERIMENT_TEXT_BYTES];
            (void)snprintf(id, sizeof id, "%s", slot->experiment);
            code = look_at_experiment(top, id);
            code = code == CLI_NO_SUCH_THING ? CLI_DONE : code; /* deleted meanwhile */
        }
    }
    forget_speeds(top);
    return code;
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

static bool is_on_living_node(const struct top_slot *slot)
{
    return slot->node_state[0] == '\0' || strcmp(slot->node_state, "alive") == 0;
}

/* The slots of living nodes; `*taken` of them are. */
static uint32_t count_living(const struct top *top, uint32_t *taken)
{
    uint32_t living = 0;
    *taken = 0;
    for (uint32_t i = 0; i < top->slot_count; i++) {
        bool lives = is_on_living_node(&top->slots[i]);
        living += lives;
        *taken += lives && top->slots[i].is_taken;
    }
    return living;
}

static bool has_gpus(const struct top *top)
{
    bool has = false;
    for (uint32_t i = 0; i < top->slot_count; i++) {
        has |= top->slots[i].has_gpu_percent || top->slots[i].has_gpu_memory;
    }
    return has;
}

/* A size, or of a GPU what is used of it. */
static void write_memory(struct table *table, const struct top_slot *slot)
{
    char used[RENDER_UNIT_BYTES], all[RENDER_UNIT_BYTES];
    render_bytes(used, slot->gpu_memory_bytes);
    render_bytes(all, slot->memory_bytes);
    if (slot->memory_bytes == 0) {
        table_cell(table, RENDER_PLAIN, "-");
    } else if (slot->has_gpu_memory) {
        table_cell(table, RENDER_PLAIN, "%s of %s", used, all);
    } else {
        table_cell(table, RENDER_PLAIN, "%s", all);
    }
}

static void write_use(struct table *table, const struct top_slot *slot, bool gpus)
{
    char resident[RENDER_UNIT_BYTES];
    render_bytes(resident, slot->resident_bytes);
    table_cell(table, RENDER_PLAIN, slot->has_use ? "%.0f%%" : "-", slot->cpu_percent);
    table_cell(table, RENDER_PLAIN, "%s", slot->has_use ? resident : "-");
    if (gpus) {
        table_cell(table, RENDER_PLAIN, slot->has_gpu_percent ? "%llu%%" : "-", (unsigned long long)slot->gpu_percent);
    }
}

/* The columns that say least come last, since a narrow terminal leaves the last ones out. `width` 0: all are written. */
static void write_table(const struct top *top, FILE *out, bool colours, size_t width)
{
    struct table table = {0};
    bool gpus = has_gpus(top);
    static const char *const heads[] = {"NODE", "SLOT",   "STATE", "EXPERIMENT", "TRIAL", "STEP",   "STEPS/S",
                                        "CPU",  "RAM", "GPU",   "MEMORY",     "KIND",  "ATTEMPT", "MODEL"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (gpus || strcmp(heads[i], "GPU") != 0) {
            table_column(&table, heads[i], i == 1 || (i >= 4 && i != 11 && i != 13));
        }
    }
    for (uint32_t i = 0; i < top->slot_count; i++) {
        const struct top_slot *slot = &top->slots[i];
        bool is_there = is_on_living_node(slot);
        table_cell(&table, RENDER_PLAIN, "%s", slot->label);
        table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)slot->index);
        table_cell(&table, render_state_colour(is_there ? slot->state : slot->node_state), "%s%s%s", slot->state,
                   is_there ? "" : ", node ", is_there ? "" : slot->node_state);
        table_cell(&table, RENDER_PLAIN, "%s", slot->name[0] != '\0' ? slot->name : slot->is_taken ? slot->experiment : "-");
        table_cell(&table, RENDER_PLAIN, slot->is_taken ? "%llu" : "-", (unsigned long long)slot->trial);
        table_cell(&table, RENDER_PLAIN, slot->has_step ? "%llu" : "-", (unsigned long long)slot->step);
        table_cell(&table, RENDER_PLAIN, isnan(slot->steps_s) ? "-" : "%.3g", slot->steps_s);
        write_use(&table, slot, gpus);
        write_memory(&table, slot);
        table_cell(&table, RENDER_PLAIN, "%s", slot->kind);
        table_cell(&table, RENDER_PLAIN, slot->is_taken ? "%llu" : "-", (unsigned long long)slot->attempt);
        table_cell(&table, RENDER_DIM, "%s", slot->model);
    }
    if (width > 0) {
        table_fit(&table, width, 1u << 0 | 1u << 3);
        table_narrow(&table, width);
    }
    table_write(&table, out, colours);
}

/* On a narrow terminal the counts have a line of their own. `width` 0: none. */
static void write_page(const struct top *top, FILE *out, bool colours, size_t width)
{
    char when[RENDER_UNIT_BYTES], counts[160];
    int used = snprintf(counts, sizeof counts, "nodes: %u of %u alive", (unsigned)top->alive_count, (unsigned)top->node_count);
    if (top->drained_count > 0) {
        used += snprintf(counts + used, sizeof counts - (size_t)used, ", %u drained", (unsigned)top->drained_count);
    }
    uint32_t taken, living = count_living(top, &taken);
    used += snprintf(counts + used, sizeof counts - (size_t)used, "  slots: %u of %u in use", (unsigned)taken, (unsigned)living);
    if (living < top->slot_count) {
        used += snprintf(counts + used, sizeof counts - (size_t)used, ", %u on nodes that are away", (unsigned)(top->slot_count - living));
    }
    render_time(when, (uint64_t)time(NULL) * 1000);
    bool fits = width == 0 || strlen(when) + 2 + (size_t)used <= width;
    (void)fprintf(out, "%s%s%s\n\n", when, fits ? "  " : "\n", counts);
    write_table(top, out, colours, width);
}

static void pack_pair(struct pack_writer *writer, const char *key, const char *text)
{
    pack_text(writer, key);
    if (text[0] == '\0') {
        pack_nil(writer);
    } else {
        pack_text(writer, text);
    }
}

static void pack_number(struct pack_writer *writer, const char *key, bool is_known, uint64_t number)
{
    pack_text(writer, key);
    if (is_known) {
        pack_u64(writer, number);
    } else {
        pack_nil(writer);
    }
}

static void pack_real(struct pack_writer *writer, const char *key, bool is_known, double number)
{
    pack_text(writer, key);
    if (is_known) {
        pack_double(writer, number);
    } else {
        pack_nil(writer);
    }
}

static void pack_slot(struct pack_writer *writer, const struct top_slot *slot)
{
    pack_map(writer, 18);
    pack_pair(writer, "node", slot->node);
    pack_pair(writer, "node_label", slot->label);
    pack_pair(writer, "node_state", slot->node_state);
    pack_number(writer, "index", true, slot->index);
    pack_pair(writer, "kind", slot->kind);
    pack_pair(writer, "model", slot->model);
    pack_number(writer, "memory_bytes", true, slot->memory_bytes);
    pack_pair(writer, "state", slot->state);
    pack_pair(writer, "experiment", slot->experiment);
    pack_pair(writer, "experiment_name", slot->name);
    pack_number(writer, "trial", slot->is_taken, slot->trial);
    pack_number(writer, "attempt", slot->is_taken, slot->attempt);
    pack_number(writer, "step", slot->has_step, slot->step);
    pack_real(writer, "steps_s", !isnan(slot->steps_s), slot->steps_s);
    pack_real(writer, "cpu_percent", slot->has_use, slot->cpu_percent);
    pack_number(writer, "resident_bytes", slot->has_use, slot->resident_bytes);
    pack_number(writer, "gpu_percent", slot->has_gpu_percent, slot->gpu_percent);
    pack_number(writer, "gpu_memory_bytes", slot->has_gpu_memory, slot->gpu_memory_bytes);
}

static int write_json(const struct top *top)
{
    struct cli *cli = top->client->cli;
    size_t size = 256 + top->slot_count * (sizeof(struct top_slot) + 256);
    uint8_t *bytes = malloc(size);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, bytes != NULL ? size : 0);
    uint32_t taken;
    (void)count_living(top, &taken);
    pack_map(&writer, 5);
    pack_number(&writer, "nodes", true, top->node_count);
    pack_number(&writer, "nodes_alive", true, top->alive_count);
    pack_number(&writer, "nodes_drained", true, top->drained_count);
    pack_number(&writer, "slots_in_use", true, taken);
    pack_text(&writer, "slots");
    pack_array(&writer, top->slot_count);
    for (uint32_t i = 0; i < top->slot_count; i++) {
        pack_slot(&writer, &top->slots[i]);
    }
    bool is_written = !writer.failed && document_write_packed_json(cli->out, bytes, writer.used_bytes);
    free(bytes);
    return is_written ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "no memory is left");
}

static int draw(const struct top *top, size_t *lines_before)
{
    struct cli *cli = top->client->cli;
    char *text = NULL;
    size_t bytes, columns, lines;
    FILE *page = open_memstream(&text, &bytes);
    if (page == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    render_terminal_size(cli->out, &columns, &lines);
    write_page(top, page, cli->colours, columns);
    (void)fclose(page);
    render_screen(cli->out, text, columns, lines, lines_before);
    free(text);
    return CLI_DONE;
}

/* Pages on a terminal, until a signal ends the program. */
static int draw_pages(struct top *top)
{
    size_t lines_before = 0;
    int code = CLI_DONE;
    while (code == CLI_DONE) {
        code = look(top);
        if (code == CLI_DONE) {
            code = draw(top, &lines_before);
            (void)poll(NULL, 0, LOOK_MS);
        }
    }
    return code;
}

static int write_once(struct top *top)
{
    int code = CLI_DONE;
    uint32_t taken = 0; /* without workers there is no speed to wait for */
    for (int i = 0; i < LOOKS_OF_ONE && code == CLI_DONE; i++) {
        (void)poll(NULL, 0, taken > 0 ? LOOK_MS : 0);
        code = look(top);
        (void)count_living(top, &taken);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (top->client->cli->json) {
        return write_json(top);
    }
    write_page(top, top->client->cli->out, top->client->cli->colours, 0);
    return CLI_DONE;
}

int command_top(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    struct client client;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    struct top top = {.client = &client, .speeds = calloc(TRIALS_MAX, sizeof(struct top_speed))};
    if (top.speeds == NULL) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    } else {
        code = cli->out_is_terminal && !cli->json ? draw_pages(&top) : write_once(&top);
    }
    free(top.slots);
    free(top.speeds);
    client_close(&client);
    return code;
}
