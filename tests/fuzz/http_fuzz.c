/* What strangers send to the HTTP door. The first byte says what follows: 'h' the head of a request; 'g' its fields Host,
 * Origin, Authorization, Cookie and Content-Type, each ended by a NUL; 'r' a method, a NUL and a path; 'a' u8 the number of
 * a route, then texts ended by NULs: values for its path, names and values of a query; 'j' u8 the number of a route, then a
 * body. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "node/http/arguments.h"
#include "node/http/gate.h"
#include "node/http/guard.h"
#include "node/http/routes.h"
#include "node/http/sequence.h"
#include "tests/fuzz/fuzz.h"

static uint8_t packed[ARGUMENTS_BODY_BYTES_MAX], whole[ARGUMENTS_BODY_BYTES_MAX + 16];

/* ---- heads ------------------------------------------------------------------------------------------------------- */

/* What a simple reader takes from a good head: there is one way to read it. */
static void check_good(const char *bytes, size_t count)
{
    const char *end = memmem(bytes, count, "\r\n\r\n", 4);
    CHECK(end != NULL);
    size_t head = (size_t)(end - bytes) + 2;
    CHECK(head + 2 <= GATE_HEAD_BYTES_MAX && memchr(bytes, '\0', head) == NULL);
    unsigned hosts = 0, lengths = 0, encodings = 0, lines = 0;
    bool is_old = false;
    for (const char *line = bytes; line < bytes + head; lines++) {
        const char *stop = memchr(line, '\n', (size_t)(bytes + head - line));
        CHECK(stop != NULL && stop > line && stop[-1] == '\r');
        CHECK(memchr(line, '\r', (size_t)(stop - line)) == stop - 1);
        size_t length = (size_t)(stop - 1 - line);
        CHECK(length > 0);
        if (lines == 0) {
            const char *target = memchr(line, ' ', length);
            CHECK(target != NULL && target[1] == '/');
            is_old = memcmp(stop - 9, "HTTP/1.0", 8) == 0;
            CHECK(memcmp(stop - 10, is_old ? " HTTP/1.0" : " HTTP/1.1", 9) == 0);
            CHECK(memmem(line, length, "%00", 3) == NULL);
        } else {
            CHECK(line[0] != ' ' && line[0] != '\t' && memchr(line, ':', length) != NULL);
            hosts += length >= 5 && strncasecmp(line, "host:", 5) == 0;
            lengths += length >= 15 && strncasecmp(line, "content-length:", 15) == 0;
            encodings += length >= 18 && strncasecmp(line, "transfer-encoding:", 18) == 0;
        }
        line = stop + 1;
    }
    CHECK(lines >= 1 && lines - 1 <= GATE_FIELDS_MAX);
    CHECK(hosts == 1 || (hosts == 0 && is_old));
    CHECK(lengths + encodings <= 1);
    CHECK(!is_old || encodings == 0);
}

static enum gate_verdict judge(const char *bytes, size_t count)
{
    int status = 0;
    const char *why = NULL;
    char *copy = malloc(count + (count == 0)); /* of the exact size, so that a read behind the end shows */
    CHECK(copy != NULL);
    memcpy(copy, bytes, count);
    enum gate_verdict verdict = gate_judge(copy, count, &status, &why);
    CHECK((verdict == GATE_BAD) == (why != NULL));
    CHECK(verdict != GATE_BAD || status == 400 || status == 414 || status == 431 || status == 501 || status == 505);
    CHECK(why == NULL || strpbrk(why, "\"\\\r\n") == NULL); /* it stands in JSON as it is */
    free(copy);
    return verdict;
}

/* Sends the bytes in pieces; returns how many have passed. */
static size_t pass_pieces(const char *bytes, size_t count, size_t step, struct sequence *out)
{
    struct sequence sequence = {0};
    size_t from = 0, pass;
    for (size_t have = 0; have < count;) {
        have = count - have < step ? count : have + step;
        for (;;) {
            unsigned heads = sequence.heads;
            pass = have > from ? sequence_pass(&sequence, bytes + from, have - from) : 0;
            if (pass == 0) {
                break;
            }
            CHECK(pass <= have - from);
            CHECK(sequence.heads == heads || judge(bytes + from, pass) == GATE_GOOD);
            CHECK(sequence.heads > heads || sequence.state != SEQUENCE_HEAD);
            from += pass;
        }
    }
    *out = sequence;
    return from;
}

/* What passes does not depend on where the network cuts. */
static void try_sequence(const char *bytes, size_t count)
{
    struct sequence at_once, pieces;
    size_t passed = pass_pieces(bytes, count, count + 1, &at_once);
    CHECK(pass_pieces(bytes, count, count < 512 ? 1 : count / 256, &pieces) == passed);
    CHECK(at_once.state == pieces.state && at_once.heads == pieces.heads && at_once.body_left == pieces.body_left);
}

static void try_head(const char *bytes, size_t count)
{
    try_sequence(bytes, count);
    enum gate_verdict verdict = judge(bytes, count), last = GATE_MORE;
    size_t step = count < 512 ? 1 : count / 256;
    for (size_t i = 0; i < count; i += step) {
        enum gate_verdict early = judge(bytes, i);
        CHECK(last == GATE_MORE || early == last); /* a verdict stands, whatever comes behind */
        last = early;
    }
    CHECK(last == GATE_MORE || last == verdict);
    if (verdict == GATE_GOOD) {
        check_good(bytes, count);
    }
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* The next text, or NULL at the end. */
static const char *next(const char **at, const char *end)
{
    const char *text = *at, *nul = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;
    *at = nul != NULL ? nul + 1 : end;
    return nul != NULL ? text : NULL;
}

static void try_fields(const char *at, size_t count)
{
    static const char *const names[] = {"alder", ""};
    const char *end = at + count, *host = next(&at, end), *origin = next(&at, end), *authorization = next(&at, end);
    const char *cookies = next(&at, end), *type = next(&at, end);
    if (guard_host_is_ours(host, names, 2, false)) {
        CHECK(strncasecmp(host, "localhost", 9) == 0 || strncasecmp(host, "alder", 5) == 0 ||
              strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0);
        CHECK(strpbrk(host, "/@ \t\\,;?#%") == NULL);
    }
    if (origin != NULL && guard_origin_is(origin, host, false)) {
        CHECK(strncmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0);
    }
    char secret[GUARD_SECRET_BYTES], csrf[GUARD_CSRF_BYTES];
    bool is_cookie;
    if (guard_secret(authorization, cookies, "shoal-ab", secret, &is_cookie)) {
        CHECK(secret[0] != '\0' && strlen(secret) < GUARD_SECRET_BYTES);
        CHECK(is_cookie == (authorization == NULL));
        CHECK(!is_cookie || (strstr(cookies, secret) != NULL && strchr(secret, ';') == NULL));
        guard_csrf(secret, csrf);
        CHECK(guard_csrf_is(secret, csrf));
        CHECK(!guard_csrf_is(secret, origin) || strcmp(origin, csrf) == 0);
    } else {
        CHECK(!is_cookie);
    }
    CHECK(!guard_type_is_json(type) || strncasecmp(type, "application/json", 16) == 0);
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

static void try_route(const char *at, size_t count)
{
    const char *end = at + count, *method = next(&at, end), *path = method != NULL ? next(&at, end) : NULL;
    struct route_match match;
    if (path == NULL || strncmp(path, ROUTES_PREFIX, strlen(ROUTES_PREFIX)) != 0) {
        return;
    }
    routes_match(method, path, &match);
    CHECK(strlen(match.allowed) < sizeof match.allowed && match.part_count <= ROUTE_PARTS_MAX);
    if (match.route == NULL) {
        CHECK(match.has_path == (match.allowed[0] != '\0'));
        return;
    }
    CHECK(strcmp(method, match.route->method) == 0 ||
          (strcmp(method, "HEAD") == 0 && strcmp(match.route->method, "GET") == 0));
    const char *rest = path + strlen(ROUTES_PREFIX);
    size_t part = 0;
    for (const char *c = match.route->path; *c != '\0';) { /* the pattern with the values is the path */
        if (*c != '{') {
            CHECK(*c++ == *rest++);
            continue;
        }
        CHECK(part < match.part_count && match.parts[part].value == rest && match.parts[part].value_bytes > 0);
        CHECK(memchr(rest, '/', match.parts[part].value_bytes) == NULL);
        rest += match.parts[part++].value_bytes;
        c = strchr(c, '}') + 1;
    }
    CHECK(*rest == '\0' && part == match.part_count);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* The pairs are those of a map, its keys are the route's, each once, and those that must be there are. */
static void check_pairs(const struct route *route, const struct arguments *arguments)
{
    struct pack_writer writer;
    struct pack_reader reader;
    bool required;
    pack_writer_init(&writer, whole, sizeof whole);
    pack_map(&writer, arguments->count);
    pack_raw(&writer, packed, arguments->pairs.used_bytes);
    CHECK(!writer.failed);
    pack_reader_init(&reader, whole, writer.used_bytes);
    struct pack_reader end = reader;
    pack_skip(&end);
    CHECK(pack_at_end(&end));
    CHECK(pack_read_map(&reader) == arguments->count);
    for (uint32_t i = 0; i < arguments->count; i++) {
        char key[ARGUMENTS_NAME_BYTES];
        pack_read_text_copy(&reader, key, sizeof key);
        CHECK(!reader.failed && strcmp(key, arguments->names[i]) == 0);
        CHECK(routes_argument(route, key, &required) != '\0' || strstr(route->path, key) != NULL);
        CHECK(strcmp(key, "auth") != 0 && strcmp(key, "op") != 0 && strcmp(key, "id") != 0 && strcmp(key, "v") != 0);
        pack_skip(&reader);
        for (uint32_t k = 0; k < i; k++) {
            CHECK(strcmp(arguments->names[k], key) != 0);
        }
    }
}

static void check_error(const struct arguments *arguments)
{
    CHECK(arguments->error[0] != '\0' && memchr(arguments->error, '\0', sizeof arguments->error) != NULL);
}

static const struct route *pick(uint8_t number)
{
    size_t count;
    const struct route *routes = routes_all(&count);
    return &routes[number % count];
}

static void try_query(uint8_t number, const char *at, size_t count)
{
    static struct arguments arguments;
    const struct route *route = pick(number);
    const char *end = at + count;
    bool is_good = true;
    arguments_init(&arguments, route, packed, sizeof packed);
    for (const char *name = route->path; is_good && (name = strchr(name, '{')) != NULL; name++) {
        const char *value = next(&at, end);
        is_good = value != NULL && value[0] != '\0' &&
                  arguments_add_part(&arguments, name + 1, strcspn(name + 1, "}"), value, strlen(value));
        if (value == NULL || value[0] == '\0') {
            return;
        }
    }
    while (is_good && at < end) {
        const char *name = next(&at, end), *value = name != NULL ? next(&at, end) : NULL;
        if (name == NULL) {
            break;
        }
        is_good = arguments_add_query(&arguments, name, value);
    }
    if (is_good && arguments_finish(&arguments)) {
        check_pairs(route, &arguments);
    } else {
        check_error(&arguments);
    }
}

static void try_body(uint8_t number, const char *body, size_t count)
{
    static struct arguments arguments;
    const struct route *route = pick(number);
    arguments_init(&arguments, route, packed, sizeof packed);
    if (arguments_add_json(&arguments, body, count) && arguments_finish(&arguments)) {
        check_pairs(route, &arguments);
    } else {
        check_error(&arguments);
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return;
    }
    char *copy = malloc(size);
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    switch (copy[0]) {
    case 'h':
        try_head(copy + 1, size - 1);
        break;
    case 'g':
        try_fields(copy + 1, size - 1);
        break;
    case 'r':
        try_route(copy + 1, size - 1);
        break;
    case 'a':
        try_query((uint8_t)copy[1], copy + 2, size - 2);
        break;
    case 'j':
        try_body((uint8_t)copy[1], copy + 2, size - 2);
        break;
    default:
        break;
    }
    free(copy);
}

#define SEED(text) fuzz_seed(text, sizeof(text) - 1)

static void seed_routes(void)
{
    size_t count;
    const struct route *routes = routes_all(&count);
    for (size_t i = 0; i < count; i++) {
        char text[512];
        size_t used = 0;
        text[used++] = 'r';
        memcpy(text + used, routes[i].method, strlen(routes[i].method) + 1);
        used += strlen(routes[i].method) + 1;
        memcpy(text + used, ROUTES_PREFIX, strlen(ROUTES_PREFIX));
        used += strlen(ROUTES_PREFIX);
        for (const char *c = routes[i].path; *c != '\0'; c++) {
            text[used++] = *c == '{' ? '7' : *c;
            c = *c == '{' ? strchr(c, '}') : c;
        }
        text[used++] = '\0';
        fuzz_seed(text, used);
        used = 2;
        text[0] = 'a';
        text[1] = (char)i;
        for (const char *c = routes[i].path; (c = strchr(c, '{')) != NULL; c++) {
            memcpy(text + used, "17", 3);
            used += 3;
        }
        const char *at = NULL;
        struct route_argument argument;
        while (routes_next_argument(&routes[i], &at, &argument)) {
            memcpy(text + used, argument.name, argument.name_bytes);
            used += argument.name_bytes;
            text[used++] = '\0';
            const char *value = argument.type == 'b' ? "true" : "12";
            memcpy(text + used, value, strlen(value) + 1);
            used += strlen(value) + 1;
        }
        fuzz_seed(text, used);
        used = 2;
        text[0] = 'j';
        text[used++] = '{';
        for (at = NULL; routes_next_argument(&routes[i], &at, &argument);) {
            const char *value = argument.type == 'b'   ? "true"
                                : argument.type == 'u' ? "12"
                                : argument.type == 't' ? "\"x\""
                                : argument.type == 'n' ? "[1,2]"
                                                       : "[\"a\"]";
            text[used] = used > 3 ? ',' : ' ';
            text[used + 1] = '"';
            used += 2;
            memcpy(text + used, argument.name, argument.name_bytes);
            used += argument.name_bytes;
            memcpy(text + used, "\":", 2);
            used += 2;
            memcpy(text + used, value, strlen(value));
            used += strlen(value);
        }
        text[used++] = '}';
        fuzz_seed(text, used);
    }
}

void fuzz_seeds(void)
{
    SEED("hGET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    SEED("hGET /healthz HTTP/1.0\r\n\r\n");
    SEED("hPOST /api/v1/tokens?a=%20 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}");
    SEED("hPOST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    SEED("hPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
    SEED("hGET / HTTP/1.1\nHost: a\r\n folded\r\n\r\n");
    SEED("glocalhost:7412\0http://localhost:7412\0Bearer shoal_00\0a=b\0application/json; charset=utf-8\0");
    SEED("g[::1]:1\0null\0Basic dXNlcjpzaG9hbF8x\0\0text/plain\0");
    SEED("g127.0.0.1\0http://127.0.0.1\0");
    char cookies[] = "galder\0http://alder\0";
    fuzz_seed(cookies, sizeof cookies - 1);
    seed_routes();
    static char long_head[GATE_HEAD_BYTES_MAX + 2];
    memset(long_head, 'a', sizeof long_head);
    memcpy(long_head, "hGET / HTTP/1.1\r\nHost: a\r\nX: ", 30);
    memcpy(long_head + sizeof long_head - 5, "\r\n\r\n", 4);
    fuzz_seed(long_head, sizeof long_head - 1); /* as long as it may be, and one byte longer */
    memcpy(long_head + sizeof long_head - 5, "a\r\n\r\n", 5);
    fuzz_seed(long_head, sizeof long_head);
}
