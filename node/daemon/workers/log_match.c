#include "node/daemon/workers/log_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/pattern.h"
#include "node/daemon/workers/workers.h"

#define PATTERNS_MAX 8
#define LINE_BYTES 1024 /* of a longer line the beginning is looked at */

struct wanted {
    uint8_t hook[FACT_HOOK_BYTES];
    struct pattern *pattern;
    bool is_found, is_told;
    char line[FACT_DELIVERY_BYTES];
};

struct log_match {
    uint64_t end; /* of the log, as far as it was looked at */
    size_t line_bytes;
    char line[LINE_BYTES];
    uint32_t count;
    struct wanted items[PATTERNS_MAX];
};

static void match_free(struct log_match *match)
{
    for (uint32_t i = 0; match != NULL && i < match->count; i++) {
        free(match->items[i].pattern);
    }
    free(match);
}

static void add(struct log_match *match, const uint8_t hook[FACT_HOOK_BYTES], const struct config_webhook *config)
{
    for (uint32_t i = 0; i < match->count; i++) {
        if (memcmp(match->items[i].hook, hook, FACT_HOOK_BYTES) == 0) {
            return;
        }
    }
    struct wanted *item = &match->items[match->count];
    struct pattern *pattern = match->count < PATTERNS_MAX ? malloc(sizeof *pattern) : NULL;
    if (pattern == NULL || pattern_compile(pattern, config->pattern, strlen(config->pattern)) != NULL) {
        free(pattern);
        return;
    }
    *item = (struct wanted){.pattern = pattern};
    memcpy(item->hook, hook, FACT_HOOK_BYTES);
    match->count++;
}

struct log_match *log_match_take(struct daemon *daemon, struct daemon_worker *worker)
{
    uint64_t version = node_core_view(daemon->core)->webhook_count + 1;
    struct log_match *match = worker->log_match;
    struct config_webhook config;
    uint8_t hook[FACT_HOOK_BYTES];
    worker->log_match = NULL;
    if (worker->log_match_version == version) {
        return match;
    }
    worker->log_match_version = version;
    for (uint32_t i = 0; node_core_webhook(daemon->core, worker->prepare.u.worker.attempt.experiment, i, hook, &config);
         i++) {
        if (config.pattern[0] == '\0') {
            continue;
        }
        if (match == NULL) {
            match = calloc(1, sizeof *match);
            if (match == NULL) {
                return NULL;
            }
            match->end = worker->log_offset;
        }
        add(match, hook, &config);
    }
    return match;
}

/* The line as a text. */
static void copy_line(const struct log_match *match, char out[FACT_DELIVERY_BYTES])
{
    size_t bytes = match->line_bytes < FACT_DELIVERY_BYTES - 1 ? match->line_bytes : FACT_DELIVERY_BYTES - 1;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = match->line[i] == '\0' ? ' ' : match->line[i];
    }
    out[bytes] = '\0';
}

static void end_line(struct log_match *match)
{
    if (match->line_bytes > 0 && match->line[match->line_bytes - 1] == '\r') {
        match->line_bytes--;
    }
    for (uint32_t i = 0; i < match->count; i++) {
        struct wanted *item = &match->items[i];
        if (!item->is_found && pattern_matches(item->pattern, match->line, match->line_bytes)) {
            item->is_found = true;
            copy_line(match, item->line);
        }
    }
    match->line_bytes = 0;
}

void log_match_feed(struct log_match *match, uint64_t end, const uint8_t *bytes, size_t count, bool is_last)
{
    uint64_t fresh = end > match->end ? end - match->end : 0;
    for (size_t i = fresh < count ? count - (size_t)fresh : 0; i < count; i++) {
        if (bytes[i] == '\n') {
            end_line(match);
        } else if (match->line_bytes < sizeof match->line) {
            match->line[match->line_bytes++] = (char)bytes[i];
        }
    }
    match->end = end > match->end ? end : match->end;
    if (is_last && match->line_bytes > 0) {
        end_line(match);
    }
}

void log_match_give(struct daemon *daemon, struct daemon_worker *worker, const attempt_id *attempt, uint32_t rank,
                    struct log_match *match)
{
    for (uint32_t i = 0; match != NULL && i < match->count; i++) {
        struct wanted *item = &match->items[i];
        if (item->is_found && !item->is_told) {
            struct node_log_match found = {.attempt = *attempt, .rank = rank};
            struct node_event event = {.kind = NODE_EVENT_LOG_MATCHED, .u.match = &found};
            memcpy(found.hook, item->hook, sizeof found.hook);
            memcpy(found.line, item->line, sizeof found.line);
            item->is_told = true;
            daemon_event(daemon, &event);
        }
    }
    if (worker != NULL && worker->log_match == NULL) {
        worker->log_match = match;
    } else {
        match_free(match);
    }
}

void log_match_close(struct daemon_worker *worker)
{
    match_free(worker->log_match);
    worker->log_match = NULL;
}
