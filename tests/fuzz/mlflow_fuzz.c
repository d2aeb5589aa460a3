/* What clients of MLflow send. The first byte says what follows: 'f' a filter; 'o' an order; 'k' a key, a NUL and the
 * searcher's metric; 'p' a path; 'a' an artifact's place; 'q' a body in which Python's json may have written NaN; 't'
 * texts of a trial, as the daemon gets them. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/daemon/wire/texts.h"
#include "node/http/mlflow/filter.h"
#include "node/http/mlflow/keys.h"
#include "tests/fuzz/fuzz.h"

static void try_filter(const char *text)
{
    static struct filter filter;
    char error[256] = "";
    if (!filter_read(text, &filter, error)) {
        CHECK(error[0] != '\0' && memchr(error, '\0', sizeof error) != NULL);
        return;
    }
    const struct filter_value values[] = {
        {.kind = FILTER_TEXT, .text = text}, {.kind = FILTER_NUMBER, .number = 1}, {.kind = FILTER_ABSENT}};
    CHECK(filter.count <= FILTER_TERMS_MAX);
    for (size_t i = 0; i < filter.count; i++) {
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            (void)filter_passes(&filter.terms[i], values[k]);
        }
    }
}

static void try_order(const char *text)
{
    struct filter_order order;
    char error[256] = "";
    CHECK(filter_read_order(text, &order, error) || memchr(error, '\0', sizeof error) != NULL);
}

static void try_key(const char *key, const char *searched)
{
    struct metric_place place;
    CHECK(keys_chars(key) <= strlen(key));
    if (keys_is_key(key)) {
        CHECK(key[0] != '\0' && key[0] != '/' && strstr(key, "//") == NULL && keys_chars(key) <= KEYS_CHARS_MAX);
    }
    if (!keys_place(key, searched, &place)) {
        CHECK(strlen(key) >= KEYS_NAME_BYTES);
        return;
    }
    size_t group = strlen(place.group);
    CHECK(group > 0 && group < KEYS_GROUP_BYTES && strlen(place.name) < KEYS_NAME_BYTES);
    CHECK(place.is_bare
              ? strcmp(place.name, key) == 0
              : strncmp(key, place.group, group) == 0 && key[group] == '/' && strcmp(key + group + 1, place.name) == 0);
}

static void try_path(const char *path)
{
    if (keys_is_path(path)) {
        CHECK(path[0] != '\0' && path[0] != '/' && path[strlen(path) - 1] != '/');
        CHECK(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 && strstr(path, "/../") == NULL);
    }
}

static void try_place(const char *text)
{
    struct artifact_place place;
    memset(&place, 1, sizeof place);
    if (keys_artifact(text, &place)) {
        CHECK(strlen(place.run) == 32 && memchr(place.path, '\0', sizeof place.path) != NULL);
        CHECK(place.path[0] == '\0' || keys_is_path(place.path));
    }
}

static void try_quote(const char *body, size_t count)
{
    char *out = malloc(keys_quoted_bytes(count) + 1);
    CHECK(out != NULL);
    size_t used = keys_quote(body, count, out), at = 0;
    CHECK(used >= count && used <= keys_quoted_bytes(count));
    for (size_t i = 0; i < used; i++) { /* only quotes were added */
        at += at < count && out[i] == body[at];
    }
    CHECK(at == count);
    free(out);
}

static void try_texts(const uint8_t *bytes, size_t count)
{
    struct texts_params params = {0};
    struct texts_clash clash;
    if (!texts_are_good(bytes, count)) {
        return;
    }
    int code = texts_params_take(&params, bytes, count, &clash);
    CHECK(code == 0 || code == ERR_EXISTS || code == ERR_FULL);
    size_t before = params.count;
    CHECK(code != 0 || (texts_params_take(&params, bytes, count, &clash) == 0 && params.count == before));
    CHECK(code == 0 || before == 0);
    texts_params_free(&params);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return;
    }
    size_t count = size - 1;
    char *copy = malloc(count + 2); /* two texts, each with its end */
    CHECK(copy != NULL);
    memcpy(copy, data + 1, count);
    copy[count] = copy[count + 1] = '\0';
    switch (data[0]) {
    case 'f':
        try_filter(copy);
        break;
    case 'o':
        try_order(copy);
        break;
    case 'k':
        try_key(copy, copy + strlen(copy) + (strlen(copy) < count + 1));
        break;
    case 'p':
        try_path(copy);
        break;
    case 'a':
        try_place(copy);
        break;
    case 'q':
        try_quote(copy, count);
        break;
    case 't':
        try_texts((const uint8_t *)copy, count);
        break;
    default:
        break;
    }
    free(copy);
}

#define SEED(text) fuzz_seed(text, sizeof(text) - 1)

void fuzz_seeds(void)
{
    SEED("fmetrics.`validation/accuracy` > 0.9 and params.opt IN ('sgd', 'adam') and tags.x LIKE 'a%'");
    SEED("fattributes.status = \"FINISHED\" and start_time >= 17");
    SEED("ometrics.loss DESC");
    SEED("ktrain/loss\0loss");
    SEED("kaccuracy\0accuracy");
    SEED("pmodel/data/model.pt");
    SEED("p../../etc/passwd");
    SEED("a17/0123456789abcdef0000000000000007/artifacts/model/data.pt");
    SEED("a17/models/m-0123456789abcdef0000000789abcdef/artifacts/a/../b");
    SEED("q{\"metrics\": [{\"key\": \"a\", \"value\": NaN}, {\"key\": \"NaN\", \"value\": -Infinity}]}");
    SEED("t\x82\xa6params\x81\xa2lr\xa3"
         "0.1\xa4tags\x82\xa1"
         "a\xa1"
         "b\xa1"
         "c\xc0");
    SEED("t\x82\xa5names\x81\xa4loss\xa8training\xa6models\x81\xa1m\xa2{}");
    SEED("t\x81\xa6params\x82\xa1"
         "a\xa1"
         "1\xa1"
         "a\xa1"
         "2");
}
