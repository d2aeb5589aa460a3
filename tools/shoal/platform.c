#include "tools/shoal/platform.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/pack.h"
#include "store/hash.h"

#define BYTES_MAX (1u << 20)

/* The bytes of the entry, from malloc; NULL: there is none. */
static uint8_t *fetch(struct client *client, const char *experiment, uint64_t trial, size_t *bytes, int *code)
{
    uint8_t *found = NULL;
    struct reply reply = {.end = false};
    client_begin(client, "platform", 2);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, experiment);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, trial);
    *code = client_send(client, -1);
    while (*code == CLI_DONE && !reply.end) {
        *code = client_next(client, CLIENT_ANSWER_MS, false, &reply);
        const msgpack_object *part = *code == CLI_DONE ? document_find(&reply.document, "bytes") : NULL;
        if (part != NULL && part->type == MSGPACK_OBJECT_BIN && part->via.bin.size > 0 && found == NULL) {
            *bytes = part->via.bin.size;
            found = malloc(*bytes);
            if (found != NULL) {
                memcpy(found, part->via.bin.ptr, *bytes);
            }
        }
    }
    return found;
}

/* The packages as a text that ends in NUL, each control character but the ends of lines replaced. */
static char *packages_of(const msgpack_object *map, uint32_t *count)
{
    const msgpack_object *value = document_find(map, "packages");
    size_t bytes = value->type == MSGPACK_OBJECT_STR ? value->via.str.size : 0;
    char *text = malloc(bytes + 1);
    *count = 0;
    for (size_t i = 0; text != NULL && i < bytes; i++) {
        unsigned char c = (unsigned char)value->via.str.ptr[i];
        text[i] = (char)(c == '\n' || (c >= 0x20 && c != 0x7f) ? c : '?');
        *count += c == '\n';
    }
    if (text != NULL) {
        text[bytes] = '\0';
    }
    return text;
}

int platform_read(struct client *client, const char *experiment, uint64_t trial, struct platform *out)
{
    size_t bytes = 0;
    int code;
    bool was_quiet = client->quiet;
    *out = (struct platform){.is_known = false};
    client->quiet = true;
    uint8_t *entry = fetch(client, experiment, trial, &bytes, &code);
    client->quiet = was_quiet;
    code = code == CLI_USAGE ? CLI_DONE : code; /* the daemon is older */
    msgpack_zone *zone = entry != NULL ? msgpack_zone_new(4096) : NULL;
    msgpack_object map;
    out->is_known = code == CLI_DONE && zone != NULL && document_read(zone, entry, bytes, &map) == 0;
    if (out->is_known) {
        document_text(&map, "shoal", out->shoal, sizeof out->shoal);
        document_text(&map, "system", out->system, sizeof out->system);
        document_text(&map, "model", out->model, sizeof out->model);
        document_text(&map, "driver", out->driver, sizeof out->driver);
        document_text(&map, "python", out->python, sizeof out->python);
        document_text(&map, "executable", out->executable, sizeof out->executable);
    }
    out->packages = out->is_known ? packages_of(&map, &out->package_count) : strdup("");
    if (out->packages != NULL && out->packages[0] != '\0') {
        hash256 hash = hash_bytes(out->packages, strlen(out->packages));
        bytes_to_hex(out->hash, hash.bytes, (PLATFORM_HASH_BYTES - 1) / 2);
    }
    msgpack_zone_free(zone);
    free(entry);
    return code == CLI_DONE && out->packages == NULL ? cli_fail(client->cli, CLI_REFUSED, "no memory is left") : code;
}

void platform_free(struct platform *platform)
{
    free(platform->packages);
    *platform = (struct platform){.is_known = false};
}

bool platform_next(char **at, char **name, char **version)
{
    char *end = strchr(*at, '\n'), *equal = strstr(*at, "==");
    if (end == NULL || equal == NULL || equal > end) {
        return false;
    }
    *equal = *end = '\0';
    *name = *at;
    *version = equal + 2;
    *at = end + 1;
    return true;
}

void platform_write(FILE *out, const struct platform *platform)
{
    if (!platform->is_known) {
        return;
    }
    (void)fprintf(out, "platform\n");
    if (platform->python[0] != '\0') {
        (void)fprintf(out, "  Python %s (%s)", platform->python, platform->executable);
        (void)fprintf(out, platform->package_count > 0 ? ", %u packages (%s; --packages lists them)\n" : "\n", platform->package_count,
                      platform->hash);
    }
    (void)fprintf(out, "  Shoal %s, %s%s%s, %s\n", platform->shoal, platform->model, platform->driver[0] != '\0' ? ", NVIDIA driver " : "",
                  platform->driver, platform->system);
}

static void pack_pair(struct pack_writer *writer, const char *key, const char *text)
{
    pack_text(writer, key);
    if (text[0] != '\0') {
        pack_text(writer, text);
    } else {
        pack_nil(writer);
    }
}

bool platform_write_json(FILE *out, const struct platform *platform)
{
    size_t size = 8 * PLATFORM_TEXT_BYTES + 2 * strlen(platform->packages) + 16 * ((size_t)platform->package_count + 1);
    uint8_t *bytes = malloc(size);
    char *copy = strdup(platform->packages), *at = copy, *name, *version;
    struct pack_writer writer;
    uint32_t count = 0;
    for (const char *line = copy; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n'), *equal = strstr(line, "==");
        if (end == NULL || equal == NULL || equal > end) {
            break; /* as platform_next */
        }
        count++;
    }
    pack_writer_init(&writer, bytes, bytes != NULL && copy != NULL ? size : 0);
    pack_map(&writer, 8);
    pack_pair(&writer, "shoal", platform->shoal);
    pack_pair(&writer, "system", platform->system);
    pack_pair(&writer, "model", platform->model);
    pack_pair(&writer, "driver", platform->driver);
    pack_pair(&writer, "python", platform->python);
    pack_pair(&writer, "executable", platform->executable);
    pack_pair(&writer, "packages_hash", platform->hash);
    pack_text(&writer, "packages");
    pack_map(&writer, count);
    for (uint32_t i = 0; i < count && copy != NULL && platform_next(&at, &name, &version); i++) {
        pack_text(&writer, name);
        pack_text(&writer, version);
    }
    bool is_written = !writer.failed && document_write_packed_json(out, bytes, writer.used_bytes);
    free(copy);
    free(bytes);
    return is_written;
}
