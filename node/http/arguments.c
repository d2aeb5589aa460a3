#include "node/http/arguments.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

void arguments_init(struct arguments *arguments, const struct route *route, uint8_t *bytes, size_t size)
{
    memset(arguments, 0, sizeof *arguments);
    arguments->route = route;
    pack_writer_init(&arguments->pairs, bytes, size);
}

static void take_flag(struct arguments *arguments, const char *name, bool value)
{
    pack_bool(&arguments->pairs, value);
    arguments->follows |= value && strcmp(name, "follow") == 0;
}

/* Packs the name of an argument, which must come once only. */
static bool begin(struct arguments *arguments, const char *name, size_t name_bytes)
{
    char copy[ARGUMENTS_NAME_BYTES];
    if (name_bytes >= sizeof copy || arguments->count == ARGUMENTS_MAX) {
        (void)snprintf(arguments->error, sizeof arguments->error,
                       "The request has too many arguments, or one with too long a name.");
        return false;
    }
    memcpy(copy, name, name_bytes);
    copy[name_bytes] = '\0';
    for (uint32_t i = 0; i < arguments->count; i++) {
        if (strcmp(arguments->names[i], copy) == 0) {
            (void)snprintf(arguments->error, sizeof arguments->error, "The argument %s is given twice.", copy);
            return false;
        }
    }
    memcpy(arguments->names[arguments->count++], copy, name_bytes + 1);
    pack_text(&arguments->pairs, copy);
    return true;
}

static bool wrong(struct arguments *arguments, const char *name, const char *wants)
{
    (void)snprintf(arguments->error, sizeof arguments->error, "The argument %.40s wants %s.", name, wants);
    return false;
}

/* The type of an argument by name; '\0' after an error that names those that the route has. */
static char type_of(struct arguments *arguments, const char *name)
{
    bool required;
    char type = routes_argument(arguments->route, name, &required);
    if (type == '\0') {
        char known[128] = "none";
        const char *at = NULL;
        struct route_argument argument;
        size_t used = 0;
        while (routes_next_argument(arguments->route, &at, &argument) &&
               used + argument.name_bytes + 3 < sizeof known) {
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%.*s", used > 0 ? ", " : "",
                                     (int)argument.name_bytes, argument.name);
        }
        (void)snprintf(arguments->error, sizeof arguments->error, "There is no argument %.40s; this route has: %s.",
                       name, known);
    }
    return type;
}

static bool read_number(const char *text, size_t bytes, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || *out > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *out = 10 * *out + digit;
    }
    return bytes > 0;
}

static bool name_is(const char *name, size_t bytes, const char *text)
{
    return bytes == strlen(text) && memcmp(name, text, bytes) == 0;
}

bool arguments_add_part(struct arguments *arguments, const char *name, size_t name_bytes, const char *value,
                        size_t value_bytes)
{
    bool is_number =
        name_is(name, name_bytes, "trial") || name_is(name, name_bytes, "step") || name_is(name, name_bytes, "number") ||
        name_is(name, name_bytes, "version");
    uint64_t number;
    if (!begin(arguments, name, name_bytes)) {
        return false;
    }
    if (!is_number) {
        pack_text_n(&arguments->pairs, value, value_bytes);
        return true;
    }
    if (!read_number(value, value_bytes, &number)) {
        (void)snprintf(arguments->error, sizeof arguments->error, "The path wants a number where it has '%.*s'.",
                       (int)(value_bytes < 40 ? value_bytes : 40), value);
        return false;
    }
    pack_u64(&arguments->pairs, number);
    return true;
}

bool arguments_add_query(struct arguments *arguments, const char *name, const char *value)
{
    char type = type_of(arguments, name);
    uint64_t number;
    if (type == '\0' || !begin(arguments, name, strlen(name))) {
        return false;
    }
    switch (type) {
    case 'u':
        if (value == NULL || !read_number(value, strlen(value), &number)) {
            return wrong(arguments, name, "a whole number");
        }
        pack_u64(&arguments->pairs, number);
        return true;
    case 'b':
        if (value != NULL && value[0] != '\0' && strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
            return wrong(arguments, name, "true or false");
        }
        take_flag(arguments, name, value == NULL || strcmp(value, "false") != 0);
        return true;
    case 't':
        pack_text(&arguments->pairs, value != NULL ? value : "");
        return true;
    default:
        return wrong(arguments, name, "a list in a body of JSON");
    }
}

static bool add_list(struct arguments *arguments, const char *name, const json_t *value, char type)
{
    size_t index;
    const json_t *item;
    if (!json_is_array(value) || json_array_size(value) > 4096) {
        return wrong(arguments, name, "a list");
    }
    pack_array(&arguments->pairs, (uint32_t)json_array_size(value));
    json_array_foreach(value, index, item)
    {
        if (type == 'n' && json_is_integer(item) && json_integer_value(item) >= 0) {
            pack_u64(&arguments->pairs, (uint64_t)json_integer_value(item));
        } else if (type == 'a' && json_is_string(item)) {
            pack_text_n(&arguments->pairs, json_string_value(item), json_string_length(item));
        } else {
            return wrong(arguments, name, type == 'n' ? "a list of whole numbers" : "a list of texts");
        }
    }
    return true;
}

static bool add_value(struct arguments *arguments, const char *name, const json_t *value)
{
    char type = type_of(arguments, name);
    if (type == '\0' || !begin(arguments, name, strlen(name))) {
        return false;
    }
    switch (type) {
    case 'u':
        if (!json_is_integer(value) || json_integer_value(value) < 0) {
            return wrong(arguments, name, "a whole number");
        }
        pack_u64(&arguments->pairs, (uint64_t)json_integer_value(value));
        return true;
    case 'b':
        if (!json_is_boolean(value)) {
            return wrong(arguments, name, "true or false");
        }
        take_flag(arguments, name, json_is_true(value));
        return true;
    case 't':
        if (!json_is_string(value)) {
            return wrong(arguments, name, "a text");
        }
        pack_text_n(&arguments->pairs, json_string_value(value), json_string_length(value));
        return true;
    default:
        return add_list(arguments, name, value, type);
    }
}

bool arguments_add_json(struct arguments *arguments, const char *body, size_t count)
{
    json_error_t error;
    const char *name;
    json_t *value;
    json_t *object = json_loadb(body, count, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) {
        (void)snprintf(arguments->error, sizeof arguments->error, "The body is not JSON: %.120s (line %d).", error.text,
                       error.line);
        return false;
    }
    bool is_good = json_is_object(object);
    if (!is_good) {
        (void)snprintf(arguments->error, sizeof arguments->error, "The body is no JSON object.");
    }
    if (is_good) {
        json_object_foreach(object, name, value)
        {
            is_good = is_good && add_value(arguments, name, value);
        }
    }
    json_decref(object);
    return is_good;
}

bool arguments_finish(struct arguments *arguments)
{
    const char *at = NULL;
    struct route_argument argument;
    while (routes_next_argument(arguments->route, &at, &argument)) {
        bool is_given = !argument.required;
        for (uint32_t i = 0; i < arguments->count && !is_given; i++) {
            is_given = name_is(argument.name, argument.name_bytes, arguments->names[i]);
        }
        if (!is_given) {
            (void)snprintf(arguments->error, sizeof arguments->error, "The request lacks the argument %.*s.",
                           (int)argument.name_bytes, argument.name);
            return false;
        }
    }
    if (arguments->pairs.failed) {
        (void)snprintf(arguments->error, sizeof arguments->error, "The arguments are larger than a request may be.");
        return false;
    }
    return true;
}
