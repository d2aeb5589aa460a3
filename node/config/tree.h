#ifndef NODE_CONFIG_TREE_H
#define NODE_CONFIG_TREE_H
/* A configuration file as a tree: libyaml's events become lists, maps and single values that know their line, --set
 * texts replace branches of it, and every error is one sentence that says where. Anchors, aliases and tags are refused,
 * so a small file cannot unfold into a large one. An empty value or `null` means "not given". */

#include <stdbool.h>
#include <stddef.h>

#include "node/core/facts/config.h"

#define TREE_DEPTH_MAX 16 /* of nested lists and maps: bounds recursion */
#define TREE_KEY_BYTES_MAX 128
#define TREE_PATH_BYTES 256  /* of keys joined by dots */
#define TREE_QUOTED_BYTES 64 /* of tree_describe */
#define TREE_WORDS_BYTES 512 /* of a list of allowed words, in an error */

enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP };

struct tree_node {
    enum tree_kind kind;
    bool is_plain;        /* a scalar without quotes */
    unsigned line;        /* from 1; of the key, if there is one */
    const char *key;      /* in a map */
    const char *text;     /* of a scalar */
    const char *override; /* the --set text that it comes from, or NULL */
    struct tree_node *first, *last, *next;
};

/* Its nodes and their texts live until tree_close. */
struct tree {
    const char *file_name;
    char *error; /* CONFIG_ERROR_BYTES; the first one stays */
    struct tree_node *nodes;
    size_t node_count;
    char *texts;
    size_t texts_used, texts_size;
};

/* Makes room for a text and the overrides, all of which are borrowed until tree_close. 0, ERR_MALFORMED (too large),
 * ERR_MEMORY; after an error there is nothing to close. */
int tree_open(struct tree *tree, const char *file_name, size_t text_bytes, const char *const *overrides,
              size_t override_count, char error[CONFIG_ERROR_BYTES]);
void tree_close(struct tree *tree);

/* Builds the tree of the one document in `text`; an empty one gives an empty map. 0, ERR_MALFORMED, ERR_MEMORY. */
int tree_read(struct tree *tree, const char *text, size_t text_bytes, struct tree_node **root);

/* Applies one "key.path=value" to a map: walks down, making maps where there are none, and puts the value in place. */
int tree_override(struct tree *tree, struct tree_node *root, const char *override);

/* NULL if the map has no such key. */
struct tree_node *tree_find(const struct tree_node *map, const char *key);

/* Empty values and null count as not given. */
bool tree_is_null(const struct tree_node *node);

/* Always ERR_MALFORMED. `at` may be NULL. What the user wrote is kept from breaking the line. */
int tree_fail(struct tree *tree, const struct tree_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What stands there, for "KEY is ...". */
const char *tree_describe(const struct tree_node *node, char out[TREE_QUOTED_BYTES]);

/* "unknown key" with the nearest of `count` known words, if one is near, and all of them. */
int tree_fail_unknown(struct tree *tree, const struct tree_node *node, const char *path, const char *const *known,
                      size_t count);

/* "`path` is (what stands there); allowed is `allowed`". */
int tree_fail_type(struct tree *tree, const struct tree_node *node, const char *path, const char *allowed);

#endif
