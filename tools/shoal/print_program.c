#include "tools/shoal/print_program.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/document.h"

#define NODES_MAX 64
#define NAMED_MAX 4 /* nodes that a sentence names */
#define VERSION_BYTES 32
#define TEXT_BYTES 600

/* A node of `program`. */
struct program_node {
    char id[33], name[96];
    bool is_known, has;
    char version[VERSION_BYTES], torch[VERSION_BYTES];
};

struct program {
    char name[64];
    uint32_t count;
    struct program_node nodes[NODES_MAX];
};

/* A list of names under construction: "elm, oak and 3 more". */
struct names {
    char text[TEXT_BYTES];
    size_t used;
    uint32_t count;
};

static void add_name(struct names *names, const char *name)
{
    if (names->count++ < NAMED_MAX && names->used < sizeof names->text) {
        names->used += (size_t)snprintf(names->text + names->used, sizeof names->text - names->used, "%s%.95s",
                                        names->count > 1 ? ", " : "", name);
    }
}

static const char *names_text(struct names *names)
{
    if (names->count > NAMED_MAX && names->used < sizeof names->text) {
        (void)snprintf(names->text + names->used, sizeof names->text - names->used, " and %u more", names->count - NAMED_MAX);
    }
    return names->text;
}

static bool read_program(const msgpack_object *map, struct program *out)
{
    const msgpack_object *program = document_find(map, "program");
    memset(out, 0, sizeof *out);
    if (program->type != MSGPACK_OBJECT_MAP) {
        return false;
    }
    document_text(program, "name", out->name, sizeof out->name);
    msgpack_object_array list = document_list(program, "nodes");
    for (uint32_t i = 0; i < list.size && out->count < NODES_MAX; i++) {
        struct program_node *node = &out->nodes[out->count++];
        const msgpack_object *item = &list.ptr[i];
        document_text(item, "node", node->id, sizeof node->id);
        document_node(item, "name", node->name, sizeof node->name);
        node->is_known = document_has(item, "has");
        node->has = document_true(item, "has");
        document_text(item, "version", node->version, sizeof node->version);
        document_text(item, "torch", node->torch, sizeof node->torch);
    }
    return out->count > 0;
}

/* "Python 3.11.2 with torch 2.6.0". */
static void version_text(const struct program_node *node, char *out, size_t size)
{
    (void)snprintf(out, size, "Python %s%s%s", node->version, node->torch[0] != '\0' ? " with torch " : "", node->torch);
}

/* The first two numbers of a Python's version, and all of a PyTorch's, decide what programs can do together. */
static bool is_like(const struct program_node *a, const struct program_node *b)
{
    const char *dot = strchr(a->version, '.');
    const char *second = dot != NULL ? strchr(dot + 1, '.') : NULL;
    size_t bytes = second != NULL ? (size_t)(second - a->version) + 1 : strlen(a->version) + 1;
    return strncmp(a->version, b->version, bytes) == 0 && strcmp(a->torch, b->torch) == 0;
}

static void say_lacking(const struct program *program, print_program_fn *say, void *context)
{
    struct names lacking = {.count = 0}, others = {.count = 0};
    bool any_unknown = false;
    char text[PRINT_PROGRAM_BYTES], has[2 * VERSION_BYTES + 100];
    for (uint32_t i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];
        any_unknown |= !node->is_known;
        if (node->is_known && !node->has) {
            add_name(&lacking, node->name);
        } else if (node->has && others.count < NAMED_MAX) {
            (void)snprintf(has, sizeof has, "%s%s%s%s", node->name, node->version[0] != '\0' ? " (Python " : "", node->version,
                           node->version[0] != '\0' ? ")" : "");
            others.used += (size_t)snprintf(others.text + others.used, sizeof others.text - others.used, "%s%s",
                                            others.count > 0 ? ", " : "", has);
            others.count++;
        }
    }
    if (lacking.count == 0) {
        return;
    }
    if (others.count == 0 && !any_unknown) {
        (void)snprintf(text, sizeof text, "no node has %s, which the entrypoint names: trials will fail until one has it (%s %s)",
                       program->name, names_text(&lacking), lacking.count == 1 ? "lacks it" : "lack it");
    } else {
        (void)snprintf(text, sizeof text, "%s, which the entrypoint names, is missing on %s%s%s", program->name,
                       names_text(&lacking), others.count > 0 ? "; it is on " : "", others.text);
    }
    say(context, text);
}

static void say_torch(const struct program *program, print_program_fn *say, void *context)
{
    struct names lacking = {.count = 0}, others = {.count = 0};
    char text[PRINT_PROGRAM_BYTES];
    for (uint32_t i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];
        char has[VERSION_BYTES + 100];
        if (node->version[0] == '\0') {
            continue;
        }
        (void)snprintf(has, sizeof has, "%s (%s)", node->name, node->torch);
        if (node->torch[0] == '\0') {
            add_name(&lacking, node->name);
        } else {
            add_name(&others, has);
        }
    }
    if (lacking.count > 0 && others.count > 0) {
        (void)snprintf(text, sizeof text, "%s finds no torch on %s; it does on %s", program->name, names_text(&lacking),
                       names_text(&others));
        say(context, text);
    }
}

/* The versions of the nodes that `is_of` takes; false if they are all alike. */
static bool mix_text(const struct program *program, const bool *is_of, char *out, size_t size)
{
    const struct program_node *kinds[NODES_MAX];
    uint32_t count = 0;
    size_t used = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];
        bool is_new = is_of[i] && node->version[0] != '\0';
        for (uint32_t k = 0; k < count && is_new; k++) {
            is_new = !is_like(kinds[k], node);
        }
        if (is_new) {
            kinds[count++] = node;
        }
    }
    for (uint32_t k = 0; count > 1 && k < count && k < NAMED_MAX && used < size; k++) {
        char version[2 * VERSION_BYTES + 32];
        version_text(kinds[k], version, sizeof version);
        used += (size_t)snprintf(out + used, size - used, "%s%s on %s", k > 0 ? ", " : "", version, kinds[k]->name);
    }
    return count > 1;
}

void print_program(const msgpack_object *map, uint64_t slots_per_trial, print_program_fn *say, void *context)
{
    struct program program;
    char text[PRINT_PROGRAM_BYTES], versions[TEXT_BYTES];
    bool all[NODES_MAX];
    if (!read_program(map, &program)) {
        return;
    }
    memset(all, true, sizeof all);
    say_lacking(&program, say, context);
    say_torch(&program, say, context);
    if (slots_per_trial > 1 && mix_text(&program, all, versions, sizeof versions)) {
        (void)snprintf(text, sizeof text, "a trial on several nodes may mix versions: %s", versions);
        say(context, text);
    }
}

void print_program_mixes(const msgpack_object *experiment, print_program_fn *say, void *context)
{
    struct program program;
    char text[PRINT_PROGRAM_BYTES], versions[TEXT_BYTES], id[33], state[32];
    if (!read_program(experiment, &program)) {
        return;
    }
    msgpack_object_array trials = document_list(experiment, "trials");
    for (uint32_t i = 0; i < trials.size; i++) {
        bool is_of[NODES_MAX] = {false};
        msgpack_object_array slots = document_list(&trials.ptr[i], "slots");
        document_text(&trials.ptr[i], "state", state, sizeof state);
        for (uint32_t slot = 0; slot < slots.size; slot++) {
            document_text(&slots.ptr[slot], "node", id, sizeof id);
            for (uint32_t k = 0; k < program.count; k++) {
                is_of[k] |= strcmp(program.nodes[k].id, id) == 0;
            }
        }
        if (strcmp(state, "running") == 0 && mix_text(&program, is_of, versions, sizeof versions)) {
            (void)snprintf(text, sizeof text, "trial %llu mixes versions: %s",
                           (unsigned long long)document_number(&trials.ptr[i], "index"), versions);
            say(context, text);
        }
    }
}
