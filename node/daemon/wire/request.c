#include "node/daemon/wire/request.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/core/facts/config.h"

int request_read(const uint8_t *bytes, size_t count, struct request *out)
{
    struct request request = {.op = ""};
    pack_reader_init(&request.map, bytes, count);
    struct pack_reader whole = request.map;
    pack_skip(&whole);
    struct pack_reader op = pack_find(&request.map, "op");
    request.op = pack_read_text(&op, &request.op_bytes);
    request.wants_fd = pack_text_is(request.op, request.op_bytes, "submit") ||
                       pack_text_is(request.op, request.op_bytes, "worker_save") ||
                       pack_text_is(request.op, request.op_bytes, "worker_save_part") ||
                       pack_text_is(request.op, request.op_bytes, "exec") ||
                       pack_text_is(request.op, request.op_bytes, "forward");
    (void)request_u64(&request.map, "id", &request.id);
    bool has_version = request_u64(&request.map, "v", &request.version);
    *out = request;
    if (!pack_at_end(&whole) || op.failed || !has_version) {
        return ERR_MALFORMED;
    }
    return request.version == REQUEST_PROTOCOL_VERSION ? 0 : ERR_VERSION;
}

bool request_u64(const struct pack_reader *map, const char *key, uint64_t *out)
{
    struct pack_reader value = pack_find(map, key);
    uint64_t number = pack_read_u64(&value);
    if (value.failed) {
        return false;
    }
    *out = number;
    return true;
}

bool request_text(const struct pack_reader *map, const char *key, char *out, size_t size)
{
    struct pack_reader value = pack_find(map, key);
    pack_read_text_copy(&value, out, size);
    return !value.failed;
}

bool request_experiment_id(const struct pack_reader *map, experiment_id *out)
{
    char hex[2 * EXPERIMENT_ID_BYTES + 1];
    experiment_id id;
    if (!request_text(map, "experiment", hex, sizeof hex) || bytes_from_hex(id.bytes, EXPERIMENT_ID_BYTES, hex) != 0 ||
        experiment_id_is_none(id)) {
        return false;
    }
    *out = id;
    return true;
}

bool request_token(const struct pack_reader *map, lease_token *out)
{
    char hex[2 * TOKEN_BYTES + 1];
    lease_token token;
    if (!request_text(map, "token", hex, sizeof hex) || bytes_from_hex(token.bytes, TOKEN_BYTES, hex) != 0) {
        return false;
    }
    *out = token;
    return true;
}

bool request_flag(const struct pack_reader *map, const char *key)
{
    struct pack_reader value = pack_find(map, key);
    return pack_read_bool(&value);
}

static int overrides_read(const struct pack_reader *map, struct request_submit *out)
{
    struct pack_reader array = pack_find(map, "overrides");
    if (array.failed) {
        return 0; /* the argument is optional */
    }
    uint32_t count = pack_read_array(&array);
    if (count > REQUEST_OVERRIDES_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < count && !array.failed; i++) {
        out->overrides[i].text = pack_read_text(&array, &out->overrides[i].bytes);
        if (memchr(out->overrides[i].text, '\0', out->overrides[i].bytes) != NULL) {
            return ERR_MALFORMED;
        }
    }
    out->override_count = count;
    return pack_at_end(&array) ? 0 : ERR_MALFORMED;
}

int request_submit_read(const struct pack_reader *map, struct request_submit *out)
{
    struct request_submit submit = {0};
    struct pack_reader config = pack_find(map, "config");
    uint64_t behind = 0;
    bool is_behind = request_u64(map, "config_bytes", &behind);
    if (!is_behind) {
        submit.config = pack_read_text(&config, &submit.config_bytes);
    } else {
        submit.config_bytes = behind <= CONFIG_TEXT_BYTES_MAX ? (size_t)behind : CONFIG_TEXT_BYTES_MAX + 1;
    }
    if (!request_experiment_id(map, &submit.experiment) || !request_text(map, "file", submit.file, sizeof submit.file) ||
        (!is_behind && config.failed) || submit.config_bytes > CONFIG_TEXT_BYTES_MAX || !request_u64(map, "bytes", &submit.archive_bytes) ||
        overrides_read(map, &submit) != 0) {
        return ERR_MALFORMED;
    }
    *out = submit;
    return 0;
}

int request_report_read(const struct pack_reader *map, struct request_report *out)
{
    struct request_report report = {.metrics = pack_find(map, "metrics")};
    struct pack_reader walk = report.metrics;
    uint32_t pairs = pack_read_map(&walk);
    size_t kept_bytes = 0;
    for (uint32_t i = 0; i < pairs && !walk.failed; i++) {
        char name[REQUEST_METRIC_BYTES];
        pack_read_text_copy(&walk, name, sizeof name);
        (void)pack_read_double(&walk);
        kept_bytes += strlen(name) + 12;
    }
    if (walk.failed || kept_bytes > REQUEST_METRICS_BYTES_MAX ||
        !request_text(map, "group", report.group, sizeof report.group) || !request_u64(map, "step", &report.step)) {
        return ERR_MALFORMED;
    }
    *out = report;
    return 0;
}

int request_save_read(const struct pack_reader *map, struct request_save *out)
{
    struct request_save save = {0};
    struct pack_reader cuts = pack_find(map, "cuts");
    if (!cuts.failed) { /* the argument is optional */
        save.cut_count = (uint32_t)pack_read_u64_max(&cuts, REQUEST_CUTS_MAX);
        if (cuts.failed) {
            return ERR_MALFORMED;
        }
    }
    if (!request_u64(map, "step", &save.step) || !request_u64(map, "bytes", &save.bytes)) {
        return ERR_MALFORMED;
    }
    *out = save;
    return 0;
}

bool request_ranges(const struct pack_reader *map, struct blob_range out[REQUEST_RANGES_MAX], uint32_t *count)
{
    struct pack_reader value = pack_find(map, "ranges");
    size_t bytes = 0;
    *count = 0;
    if (value.failed) {
        return true;
    }
    const uint8_t *packed = pack_read_bin(&value, &bytes);
    if (value.failed || bytes == 0 || bytes % 16 != 0 || bytes / 16 > REQUEST_RANGES_MAX) {
        return false;
    }
    for (; *count < bytes / 16; ++*count) {
        out[*count] = (struct blob_range){bytes_get_u64(packed + (size_t)*count * 16), bytes_get_u64(packed + (size_t)*count * 16 + 8)};
    }
    return true;
}

int request_save_part_read(const struct pack_reader *map, struct request_save *out)
{
    struct request_save save = {0};
    uint64_t parts, part;
    if (request_save_read(map, &save) != 0 || !request_u64(map, "save", &save.part.save) || !request_u64(map, "parts", &parts) ||
        !request_u64(map, "part", &part) || parts == 0 || parts > FACT_PARTS_MAX || part >= parts) {
        return ERR_MALFORMED;
    }
    save.part.step = save.step;
    save.part.count = (uint32_t)parts;
    save.part.part = (uint32_t)part;
    *out = save;
    return 0;
}
