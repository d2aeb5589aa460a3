#include "tools/shoal/extends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/config/tree.h"

#define FILES_MAX 8 /* of one chain */

/* The files that are being read, the first one first: a file that comes again would never end. */
struct chain {
    struct cli *cli;
    const char *names[FILES_MAX];
    char paths[FILES_MAX][PATH_MAX]; /* without links; "": standard input */
    size_t count;
};

struct merged {
    FILE *out;
    unsigned line; /* the next character is in this one */
};

static void put(struct merged *merged, const char *text)
{
    (void)fputs(text, merged->out);
}

/* A text in double quotes, for YAML and JSON. */
static void put_quoted(struct merged *merged, const char *text)
{
    (void)fputc('"', merged->out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            (void)fprintf(merged->out, "\\%c", *c);
        } else if (*c < ' ' || *c == 127) {
            (void)fprintf(merged->out, "\\x%02x", *c);
        } else {
            (void)fputc(*c, merged->out);
        }
    }
    (void)fputc('"', merged->out);
}

/* What may be a number, a time, a truth value or a null stays without quotes; of such characters a text is the same without them. */
static bool is_bare(const struct tree_node *node)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    const char *text = node->text;
    bool is_signed = (text[0] == '-' || text[0] == '+' || text[0] == '.') && text[1] != '\0';
    size_t first = is_signed ? 1 : 0;
    return node->is_plain && (strcmp(text, "~") == 0 || strspn(text + first, letters) > 0 || (is_signed && text[1] == '.')) &&
           strspn(text, "+-. 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_~") == strlen(text);
}

static void go_to_line(struct merged *merged, unsigned line)
{
    for (; merged->line < line; merged->line++) {
        (void)fputc('\n', merged->out);
    }
}

/* Recursion is bounded by the tree's depth. `keeps_lines`: of the file itself. */
static void put_node(struct merged *merged, const struct tree_node *node, bool keeps_lines)
{
    if (node->kind == TREE_SCALAR && is_bare(node)) {
        put(merged, node->text);
    } else if (node->kind == TREE_SCALAR && node->is_plain && node->text[0] == '\0') {
        put(merged, "null");
    } else if (node->kind == TREE_SCALAR) {
        put_quoted(merged, node->text);
    } else {
        put(merged, node->kind == TREE_MAP ? "{" : "[");
        for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
            if (keeps_lines) {
                go_to_line(merged, child->line);
            }
            put(merged, " ");
            if (node->kind == TREE_MAP) {
                put_quoted(merged, child->key);
                put(merged, ": ");
            }
            put_node(merged, child, keeps_lines);
            put(merged, child->next != NULL ? "," : " ");
        }
        put(merged, node->kind == TREE_MAP ? "}" : "]");
    }
}

/* A map of this file with the keys that only the other file's map has. */
static void put_united(struct merged *merged, const struct tree_node *own, const struct tree_node *other)
{
    const char *comma = "";
    put(merged, "{");
    for (const struct tree_node *child = own->first; child != NULL; child = child->next) {
        put(merged, comma);
        go_to_line(merged, child->line);
        put(merged, " ");
        put_quoted(merged, child->key);
        put(merged, ": ");
        put_node(merged, child, true);
        comma = ",";
    }
    for (const struct tree_node *child = other->first; child != NULL; child = child->next) {
        if (tree_find(own, child->key) == NULL) {
            put(merged, comma);
            put(merged, " ");
            put_quoted(merged, child->key);
            put(merged, ": ");
            put_node(merged, child, false);
            comma = ",";
        }
    }
    put(merged, " }");
}

static void put_all(struct merged *merged, const struct tree_node *own, const struct tree_node *other)
{
    const char *comma = "";
    put(merged, "{");
    for (const struct tree_node *child = own->first; child != NULL; child = child->next) {
        const struct tree_node *below = tree_find(other, child->key);
        if (strcmp(child->key, "extends") == 0) {
            continue;
        }
        put(merged, comma);
        go_to_line(merged, child->line);
        put(merged, " ");
        put_quoted(merged, child->key);
        put(merged, ": ");
        if (below != NULL && below->kind == TREE_MAP && child->kind == TREE_MAP) {
            put_united(merged, child, below);
        } else {
            put_node(merged, child, true);
        }
        comma = ",";
    }
    for (const struct tree_node *child = other->first; child != NULL; child = child->next) {
        if (tree_find(own, child->key) == NULL) {
            put(merged, comma);
            put(merged, "\n ");
            put_quoted(merged, child->key);
            put(merged, ": ");
            put_node(merged, child, false);
            comma = ",";
        }
    }
    put(merged, "\n}\n");
}

static int merge(struct cli *cli, const struct tree_node *own, const struct tree_node *other, char **text, size_t *bytes)
{
    char *united = NULL;
    size_t united_bytes = 0;
    struct merged merged = {.out = open_memstream(&united, &united_bytes), .line = 1};
    if (merged.out == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    put_all(&merged, own, other);
    bool failed = ferror(merged.out) != 0;
    failed |= fclose(merged.out) != 0;
    if (failed) {
        free(united);
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    free(*text);
    *text = united;
    *bytes = united_bytes;
    return CLI_DONE;
}

static int read_text(struct cli *cli, const char *from, const char *path, char **text, size_t *bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return cli_fail(cli, CLI_REFUSED, "%s extends %s, which cannot be read: %s", from, path, strerror(errno));
    }
    *text = malloc(CONFIG_TEXT_BYTES_MAX + 1);
    errno = 0;
    *bytes = *text != NULL ? fread(*text, 1, CONFIG_TEXT_BYTES_MAX + 1, file) : 0;
    int reason = *text == NULL ? ENOMEM : ferror(file) ? (errno != 0 ? errno : EIO) : 0;
    (void)fclose(file);
    if (reason == 0 && *bytes <= CONFIG_TEXT_BYTES_MAX) {
        return CLI_DONE;
    }
    free(*text);
    return cli_fail(cli, CLI_REFUSED, "%s extends %s, which cannot be read: %s", from, path,
                    reason != 0 ? strerror(reason) : "it is larger than a configuration may be");
}

/* The path that `extends` names: relative to the directory of `file`. */
static bool path_beside(const char *file, const char *named, char out[PATH_MAX])
{
    const char *slash = strrchr(file, '/');
    int length = named[0] == '/' || slash == NULL ? snprintf(out, PATH_MAX, "%s", named)
                                                  : snprintf(out, PATH_MAX, "%.*s%s", (int)(slash + 1 - file), file, named);
    return length > 0 && length < PATH_MAX;
}

static int resolve(struct chain *chain, const char *file, char **text, size_t *bytes);

/* Reads the file that `node` names, with those that it extends, and merges it into `*text`. */
static int extend(struct chain *chain, const char *file, const struct tree_node *own, const struct tree_node *node, char **text,
                  size_t *bytes)
{
    struct cli *cli = chain->cli;
    char path[PATH_MAX], *below = NULL;
    size_t below_bytes = 0;
    struct tree_node *root = NULL;
    struct tree *tree = malloc(sizeof *tree);
    if (node->kind != TREE_SCALAR || node->text[0] == '\0' || !path_beside(file, node->text, path)) {
        free(tree);
        return cli_fail(cli, CLI_REFUSED, "%s:%u: extends is no path of one file; it names the configuration file that this one adds to", file,
                        node->line);
    }
    int code = tree == NULL ? cli_fail(cli, CLI_REFUSED, "no memory is left") : read_text(cli, file, path, &below, &below_bytes);
    if (code != CLI_DONE) {
        free(tree);
        return code;
    }
    code = resolve(chain, path, &below, &below_bytes);
    if (code == CLI_DONE) {
        char error[CONFIG_ERROR_BYTES];
        int result = tree_open(tree, path, below_bytes, NULL, 0);
        result = result == 0 ? tree_read(tree, below, below_bytes, &root) : result;
        tree_tell(tree, error);
        if (result != 0) {
            code = cli_fail(cli, CLI_REFUSED, "%s", error);
        } else if (root->kind != TREE_MAP) {
            code = cli_fail(cli, CLI_REFUSED, "%s, which %s extends, is not a map of options", path, file);
        } else {
            code = merge(cli, own, root, text, bytes);
        }
        tree_close(tree);
    }
    free(below);
    free(tree);
    return code;
}

/* Puts the file into the chain. Fails if it is there already, or if the chain is too long. */
static int enter(struct chain *chain, const char *file)
{
    char real[PATH_MAX] = "";
    if (strcmp(file, "-") != 0 && realpath(file, real) == NULL) {
        (void)snprintf(real, sizeof real, "%s", file);
    }
    for (size_t i = 0; i < chain->count; i++) {
        if (real[0] != '\0' && strcmp(real, chain->paths[i]) == 0) {
            return cli_fail(chain->cli, CLI_REFUSED, "%s extends itself%s%s; a file may extend only files that do not lead back to it", file,
                            chain->count > i + 1 ? ", by way of " : "", chain->count > i + 1 ? chain->names[chain->count - 1] : "");
        }
    }
    if (chain->count == FILES_MAX) {
        return cli_fail(chain->cli, CLI_REFUSED, "%s is the end of a chain of more than %d files that extend each other", file, FILES_MAX);
    }
    memcpy(chain->paths[chain->count], real, sizeof real);
    chain->names[chain->count++] = file;
    return CLI_DONE;
}

static int resolve(struct chain *chain, const char *file, char **text, size_t *bytes)
{
    struct tree *tree = malloc(sizeof *tree);
    struct tree_node *root = NULL;
    int code = tree != NULL ? enter(chain, file) : cli_fail(chain->cli, CLI_REFUSED, "no memory is left");
    if (code != CLI_DONE) {
        free(tree);
        return code;
    }
    if (tree_open(tree, file, *bytes, NULL, 0) == 0 && tree_read(tree, *text, *bytes, &root) == 0 && root->kind == TREE_MAP) {
        const struct tree_node *node = tree_find(root, "extends");
        code = node != NULL ? extend(chain, file, root, node, text, bytes) : CLI_DONE;
    }
    tree_close(tree);
    free(tree);
    chain->count--;
    return code;
}

int extends_resolve(struct cli *cli, const char *file, char **text, size_t *bytes)
{
    struct chain *chain = calloc(1, sizeof *chain);
    if (chain == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    chain->cli = cli;
    int code = resolve(chain, file, text, bytes);
    free(chain);
    return code;
}
