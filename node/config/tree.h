#ifndef NODE_CONFIG_TREE_H
#define NODE_CONFIG_TREE_H
/* A configuration file as a tree: libyaml's events become lists, maps and single values that know their line; --set
 * texts replace branches; every problem is one sentence that tells the place, and readers go on behind it. Aliases (*) are copies of what their anchors (&)
 * name, the merge key << brings the keys of other maps in; what they stand for counts like written values, so a small file
 * cannot unfold into a large tree. Tags are refused. In options an empty value or `null` means "not given". */

#include <stdbool.h>
#include <stddef.h>

#include "node/core/facts/config.h"

#define TREE_DEPTH_MAX 16 /* levels of nested lists and maps: bounds the recursion */
#define TREE_KEY_BYTES_MAX 128
#define TREE_PATH_BYTES 256  /* room for keys joined by dots, for error sentences */
#define TREE_QUOTED_BYTES 64 /* room for the result of tree_describe */
#define TREE_WORDS_BYTES 512 /* room for a list of allowed words in an error sentence */

enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP };

/* A value with its children; owned by the tree. */
struct tree_node {
    enum tree_kind kind;
    bool is_plain;        /* a scalar without quotes */
    bool is_merge;        /* the value of a merge key, until its map is complete */
    unsigned line;        /* counts from 1; the line of the key, if there is one */
    const char *key;      /* the key of a value in a map; otherwise NULL */
    const char *text;     /* the text of a scalar; otherwise "" */
    const char *override; /* the --set text that the value comes from, or NULL */
    struct tree_node *first, *last, *next;
};

/* What is wrong with the file, and where. */
struct tree_problem {
    unsigned line; /* 0: no place in the file; UINT_MAX: in a --set text */
    char sentence[CONFIG_SENTENCE_BYTES];
};

/* The tree and its memory; nodes and texts are valid until tree_close. */
struct tree {
    const char *file_name;
    struct tree_problem problems[CONFIG_PROBLEMS_MAX]; /* by line; each sentence once */
    size_t problem_count;
    struct tree_node *nodes;
    size_t node_count;
    char *texts;
    size_t texts_used, texts_size;
};

/* Allocates the memory for a text and the overrides; all pointers are borrowed until tree_close. 0, ERR_MALFORMED (too
 * large), ERR_MEMORY; after an error there are only problems to tell. */
int tree_open(struct tree *tree, const char *file_name, size_t text_bytes, const char *const *overrides,
              size_t override_count);

/* Frees the nodes and texts. */
void tree_close(struct tree *tree);

/* Builds the tree of the single document in `text`; an empty document gives an empty map. 0, ERR_MALFORMED (there is no tree),
 * ERR_MEMORY. Also with 0 there may be problems: a key that is written twice, a tag. */
int tree_read(struct tree *tree, const char *text, size_t text_bytes, struct tree_node **root);

/* Applies one "key.path=value" to a map: walks down, creating missing maps, and replaces the value. 0, ERR_MALFORMED,
 * ERR_MEMORY. */
int tree_override(struct tree *tree, struct tree_node *root, const char *override);

/* The value under `key`; NULL: the map has no such key. */
struct tree_node *tree_find(const struct tree_node *map, const char *key);

/* True if the map (NULL: an empty one) has no value under `word`, and none under a key that is probably meant to be it: then a
 * sentence about the missing value helps, besides the one about the unknown key. */
bool tree_lacks(const struct tree_node *map, const char *word);

/* True if the value counts as not given: it is empty or `null`. */
bool tree_is_null(const struct tree_node *node);

/* Notes a problem: the sentence, with the place of `at` (may be NULL). Returns ERR_MALFORMED. Quoted input is cleaned of
 * characters that would break the line. */
int tree_fail(struct tree *tree, const struct tree_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True once no further problem can be noted: readers stop then, so that a hostile file costs no time. */
bool tree_is_full(const struct tree *tree);

/* Writes the noted problems, a line for each, "" if there is none. The last of CONFIG_PROBLEMS_MAX says that there may be
 * more. */
void tree_tell(const struct tree *tree, char error[CONFIG_ERROR_BYTES]);

/* Describes the value at `node`, to follow "KEY is"; returns `out` or a static string. */
const char *tree_describe(const struct tree_node *node, char out[TREE_QUOTED_BYTES]);

/* Fails with "unknown key", the most similar of `count` known words, if there is one, and the list of known words. */
int tree_fail_unknown(struct tree *tree, const struct tree_node *node, const char *path, const char *const *known,
                      size_t count);

/* Fails with "`path` is (the value); allowed is `allowed`". */
int tree_fail_type(struct tree *tree, const struct tree_node *node, const char *path, const char *allowed);

#endif
