#include "node/daemon/wire/shell_request.h"

#include "base/check.h"
#include "base/err.h"
#include "base/pack.h"

size_t shell_request_write(const struct shell_request *request, uint8_t out[SHELL_REQUEST_BYTES])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, SHELL_REQUEST_BYTES);
    pack_map(&writer, request->is_forward ? 8 : 7);
    pack_text(&writer, "kind");
    pack_text(&writer, request->is_forward ? "forward" : "exec");
    pack_text(&writer, "experiment");
    pack_bin(&writer, request->attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    pack_text(&writer, "trial");
    pack_u64(&writer, request->attempt.trial);
    pack_text(&writer, "number");
    pack_u64(&writer, request->attempt.number);
    pack_text(&writer, "term");
    pack_u64(&writer, request->attempt.term);
    pack_text(&writer, "coordinator");
    pack_bin(&writer, request->attempt.coordinator.bytes, NODE_ID_BYTES);
    pack_text(&writer, "worker");
    pack_u64(&writer, request->worker);
    if (request->is_forward) {
        pack_text(&writer, "port");
        pack_u64(&writer, request->port);
    }
    CHECK(!writer.failed);
    return writer.used_bytes;
}

static uint64_t number(const struct pack_reader *map, const char *key, uint64_t most, bool *failed)
{
    struct pack_reader value = pack_find(map, key);
    uint64_t found = pack_read_u64_max(&value, most);
    *failed |= value.failed;
    return found;
}

int shell_request_read(const uint8_t *bytes, size_t count, struct shell_request *out)
{
    struct shell_request request = {0};
    struct pack_reader map;
    size_t length;
    bool failed = false;
    pack_reader_init(&map, bytes, count);
    struct pack_reader whole = map;
    pack_skip(&whole);
    struct pack_reader kind = pack_find(&map, "kind"), experiment = pack_find(&map, "experiment"),
                       coordinator = pack_find(&map, "coordinator");
    const char *word = pack_read_text(&kind, &length);
    if (kind.failed || !pack_at_end(&whole)) {
        return ERR_MALFORMED;
    }
    request.is_forward = pack_text_is(word, length, "forward");
    if (!request.is_forward && !pack_text_is(word, length, "exec")) {
        return ERR_MALFORMED;
    }
    pack_read_bin_exact(&experiment, request.attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    pack_read_bin_exact(&coordinator, request.attempt.coordinator.bytes, NODE_ID_BYTES);
    request.attempt.trial = (uint32_t)number(&map, "trial", UINT32_MAX, &failed);
    request.attempt.number = (uint32_t)number(&map, "number", UINT32_MAX, &failed);
    request.attempt.term = number(&map, "term", UINT64_MAX, &failed);
    request.worker = (uint32_t)number(&map, "worker", UINT32_MAX, &failed);
    request.port = request.is_forward ? (uint16_t)number(&map, "port", UINT16_MAX, &failed) : 0;
    if (failed || experiment.failed || coordinator.failed || (request.is_forward && request.port == 0)) {
        return ERR_MALFORMED;
    }
    *out = request;
    return 0;
}
