#include "node/http/openapi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/http/answer.h"
#include "node/http/routes.h"

static const char *const schemas[] = {
    ['u'] = "{\"type\":\"integer\",\"minimum\":0}",
    ['t'] = "{\"type\":\"string\"}",
    ['b'] = "{\"type\":\"boolean\"}",
    ['n'] = "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}}",
    ['a'] = "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
};

/* Of a {NAME} in a path. */
static const char *path_schema(const char *name, size_t bytes)
{
    static const struct {
        const char *name, *schema;
    } known[] = {{"experiment", "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{16}$\"}"},
                 {"node", "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{32}$\"}"},
                 {"invite", "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{4,16}$\"}"},
                 {"token", "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{4,16}$\"}"},
                 {"webhook", "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{4,16}$\"}"},
                 {"name", "{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][A-Za-z0-9_]{0,62}$\"}"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) == bytes && memcmp(known[i].name, name, bytes) == 0) {
            return known[i].schema;
        }
    }
    return schemas['u'];
}

static void put_parameters(FILE *out, const struct route *route)
{
    const char *separator = "", *at = NULL;
    struct route_argument argument;
    (void)fputs("\"parameters\":[", out);
    for (const char *name = strchr(route->path, '{'); name != NULL; name = strchr(name, '{')) {
        name++;
        int bytes = (int)strcspn(name, "}");
        (void)fprintf(out, "%s{\"name\":\"%.*s\",\"in\":\"path\",\"required\":true,\"schema\":%s}", separator, bytes,
                      name, path_schema(name, (size_t)bytes));
        separator = ",";
    }
    while (strcmp(route->method, "GET") == 0 && routes_next_argument(route, &at, &argument)) {
        (void)fprintf(out, "%s{\"name\":\"%.*s\",\"in\":\"query\",\"required\":%s,\"schema\":%s}", separator,
                      (int)argument.name_bytes, argument.name, argument.required ? "true" : "false",
                      schemas[(int)argument.type]);
        separator = ",";
    }
    (void)fputs("]", out);
}

static void put_body(FILE *out, const struct route *route)
{
    const char *separator = "", *at = NULL;
    struct route_argument argument;
    bool any_required = false;
    if (strcmp(route->method, "POST") != 0) {
        return;
    }
    while (routes_next_argument(route, &at, &argument)) {
        any_required |= argument.required;
    }
    (void)fprintf(
        out,
        ",\"requestBody\":{\"required\":%s,\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\","
        "\"additionalProperties\":false,\"properties\":{",
        any_required ? "true" : "false");
    at = NULL;
    while (routes_next_argument(route, &at, &argument)) {
        (void)fprintf(out, "%s\"%.*s\":%s", separator, (int)argument.name_bytes, argument.name,
                      schemas[(int)argument.type]);
        separator = ",";
    }
    (void)fputs("}", out);
    separator = ",\"required\":[";
    at = NULL;
    while (routes_next_argument(route, &at, &argument)) {
        if (argument.required) {
            (void)fprintf(out, "%s\"%.*s\"", separator, (int)argument.name_bytes, argument.name);
            separator = ",";
        }
    }
    (void)fputs(any_required ? "]}}}}" : "}}}}", out);
}

static void put_responses(FILE *out, const struct route *route)
{
    static const struct {
        int status;
        const char *when;
    } problems[] = {{400, "An argument is wrong"},         {401, "No valid token"},
                    {403, "The token does not allow it"},  {404, "There is no such thing"},
                    {409, "Refused; the detail says why"}, {413, "The body is larger than 1 MiB"},
                    {415, "The body is no JSON"},          {503, "The daemon does not answer now"},
                    {504, "The daemon took too long"}};
    (void)fputs(",\"responses\":{\"200\":{\"description\":\"Done\",\"content\":{", out);
    if (route->kind == ROUTE_FILE && strcmp(route->type, "application/json") == 0) {
        (void)fputs("\"application/json\":{\"schema\":{\"type\":\"array\"}}", out);
    } else if (route->kind == ROUTE_FILE) {
        (void)fprintf(out, "\"%s\":{\"schema\":{\"type\":\"string\",\"format\":\"binary\"}}", route->type);
    } else if (route->kind == ROUTE_EXPORT) {
        (void)fputs("\"text/html\":{\"schema\":{\"type\":\"string\"}},\"text/csv\":{\"schema\":{\"type\":\"string\"}},"
                    "\"image/svg+xml\":{\"schema\":{\"type\":\"string\"}}",
                    out);
    } else {
        (void)fprintf(out, "\"application/json\":{\"schema\":{\"type\":\"%s\"}}",
                      route->kind == ROUTE_TARGETS ? "array" : "object");
    }
    if (route->kind == ROUTE_STREAM || route->kind == ROUTE_PIECES || route->kind == ROUTE_LIVE) {
        (void)fputs(",\"text/event-stream\":{\"schema\":{\"type\":\"string\"}}", out);
    }
    if (route->kind == ROUTE_PIECES) {
        (void)fputs(",\"text/plain\":{\"schema\":{\"type\":\"string\"}}", out);
    }
    (void)fputs("}}", out);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        (void)fprintf(out,
                      ",\"%d\":{\"description\":\"%s\",\"content\":{\"application/problem+json\":{\"schema\":"
                      "{\"$ref\":\"#/components/schemas/Problem\"}}}}",
                      problems[i].status, problems[i].when);
    }
    (void)fputs("}", out);
}

static void put_operation(FILE *out, const struct route *route)
{
    char method[8] = "";
    for (size_t i = 0; route->method[i] != '\0' && i + 1 < sizeof method; i++) {
        method[i] = (char)(route->method[i] - 'A' + 'a');
        method[i + 1] = '\0';
    }
    (void)fprintf(out, "\"%s\":{\"operationId\":\"%s", method, route->op);
    for (const char *c = route->path; *c != '\0'; c++) { /* one request may have two paths */
        (void)fputc(*c == '/' || *c == '{' || *c == '}' ? '_' : *c, out);
    }
    (void)fprintf(out, "\",\"summary\":\"%s\",", route->summary);
    put_parameters(out, route);
    put_body(out, route);
    put_responses(out, route);
    (void)fputs("}", out);
}

/* All methods of a path stand under it once. */
static void put_paths(FILE *out)
{
    size_t count;
    const struct route *routes = routes_all(&count);
    const char *separator = "";
    for (size_t i = 0; i < count; i++) {
        bool is_first = true;
        for (size_t k = 0; k < i; k++) {
            is_first &= strcmp(routes[k].path, routes[i].path) != 0;
        }
        if (!is_first) {
            continue;
        }
        (void)fprintf(out, "%s\"" ROUTES_PREFIX "%s\":{", separator, routes[i].path);
        for (size_t k = i; k < count; k++) {
            if (strcmp(routes[k].path, routes[i].path) == 0) {
                (void)fputs(k > i ? "," : "", out);
                put_operation(out, &routes[k]);
            }
        }
        (void)fputs("}", out);
        separator = ",";
    }
}

struct MHD_Response *openapi_answer(int *status)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    struct MHD_Response *response = NULL;
    if (out == NULL) {
        return NULL;
    }
    (void)fputs("{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Shoal\",\"version\":\"" SHOAL_VERSION
                "\",\"description\":\"The mesh as one of its nodes "
                "sees it. The documents are those of docs/wire.md.\"},\"security\":[{\"token\":[]}],\"paths\":{",
                out);
    put_paths(out);
    (void)fputs(
        "},\"components\":{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}},\"schemas\":{"
        "\"Problem\":{\"type\":\"object\","
        "\"required\":[\"type\",\"title\",\"status\",\"detail\",\"code\"],\"properties\":{\"type\":{\"type\":"
        "\"string\"},\"title\":{\"type\":\"string\"},"
        "\"status\":{\"type\":\"integer\"},\"detail\":{\"type\":\"string\"},\"code\":{\"type\":\"integer\"}}}}}}\n",
        out);
    if (fclose(out) == 0) {
        response = answer_text(200, "application/json", bytes, status);
    }
    free(bytes);
    return response;
}
