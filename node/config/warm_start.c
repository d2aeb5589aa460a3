#include "node/config/warm_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/config/tree.h"

/* In single quotes, as YAML has them: a quote inside is doubled. */
static void write_quoted(FILE *out, const char *text)
{
    (void)fputc('\'', out);
    for (; *text != '\0'; text++) {
        (void)fprintf(out, "%s%c", *text == '\'' ? "'" : "", *text);
    }
    (void)fputc('\'', out);
}

/* A value as YAML in one line. Recursion is bounded by the tree's depth. */
static void write_flow(FILE *out, const struct tree_node *node)
{
    if (node->kind == TREE_SCALAR && node->is_plain) {
        (void)fputs(node->text[0] != '\0' ? node->text : "null", out);
        return;
    }
    if (node->kind == TREE_SCALAR) {
        write_quoted(out, node->text);
        return;
    }
    (void)fputc(node->kind == TREE_LIST ? '[' : '{', out);
    for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
        if (child != node->first) {
            (void)fputs(", ", out);
        }
        if (node->kind == TREE_MAP) {
            write_quoted(out, child->key);
            (void)fputs(": ", out);
        }
        write_flow(out, child);
    }
    (void)fputc(node->kind == TREE_LIST ? ']' : '}', out);
}

static const struct tree_node *list_of(const struct tree_node *root, const char *word)
{
    const struct tree_node *searcher = root->kind == TREE_MAP ? tree_find(root, "searcher") : NULL;
    const struct tree_node *list = searcher != NULL && searcher->kind == TREE_MAP ? tree_find(searcher, word) : NULL;
    return list != NULL && list->kind == TREE_LIST ? list->first : NULL;
}

static int tell_own(const struct tree_node *node, void (*own)(void *context, const char *yaml), void *context)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return ERR_MEMORY;
    }
    write_flow(out, node);
    bool is_whole = fclose(out) == 0;
    if (is_whole) {
        own(context, text);
    }
    free(text);
    return is_whole ? 0 : ERR_MEMORY;
}

int warm_start_read(const char *text, size_t text_bytes, const char *const *overrides, size_t override_count,
                    void (*name)(void *context, const char *text), void (*own)(void *context, const char *yaml), void *context)
{
    struct tree *tree = calloc(1, sizeof *tree);
    struct tree_node *root = NULL;
    if (tree == NULL) {
        return ERR_MEMORY;
    }
    int error = tree_open(tree, "", text_bytes, overrides, override_count);
    error = error == 0 ? tree_read(tree, text, text_bytes, &root) : error;
    for (size_t i = 0; i < override_count && error == 0; i++) {
        error = tree_override(tree, root, overrides[i]);
    }
    for (const struct tree_node *node = error == 0 ? list_of(root, "warm_start") : NULL; node != NULL; node = node->next) {
        if (node->kind == TREE_SCALAR) {
            name(context, node->text);
        }
    }
    for (const struct tree_node *node = error == 0 ? list_of(root, "initial") : NULL; node != NULL && error == 0; node = node->next) {
        error = tell_own(node, own, context);
    }
    tree_close(tree);
    free(tree);
    return error == ERR_MEMORY ? ERR_MEMORY : 0;
}
