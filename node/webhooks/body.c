#include "node/webhooks/body.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/json.h"

#define PACKED_BYTES 4096

static const char *const types[] = {[FACT_HOOK_COMPLETED] = "experiment.completed",
                                    [FACT_HOOK_FAILED] = "experiment.failed",
                                    [FACT_HOOK_BEST] = "trial.best",
                                    [FACT_HOOK_NODE_LOST] = "node.lost",
                                    [FACT_HOOK_LOG_MATCH] = "trial.log_match",
                                    [FACT_HOOK_TEST] = "webhook.test"};

const char *webhook_type(enum fact_hook_event event)
{
    return types[event];
}

static void pair(struct pack_writer *writer, const char *key, const char *text)
{
    pack_text(writer, key);
    pack_text(writer, text);
}

static void pair_number(struct pack_writer *writer, const char *key, uint64_t number)
{
    pack_text(writer, key);
    pack_u64(writer, number);
}

static bool has_trial(const struct node_webhook_due *due)
{
    return due->fact.event == FACT_HOOK_BEST || due->fact.event == FACT_HOOK_LOG_MATCH;
}

static void pack_data(const struct node_webhook_due *due, const struct webhook_words *words, struct pack_writer *writer)
{
    char hex[2 * NODE_ID_BYTES + 1];
    bool has_experiment = !experiment_id_is_none(due->experiment);
    bool is_best = due->fact.event == FACT_HOOK_BEST, is_line = due->fact.event == FACT_HOOK_LOG_MATCH;
    bool is_loss = due->fact.event == FACT_HOOK_NODE_LOST;
    pack_map(writer, 1 + (has_experiment ? 2u : 0) + (has_trial(due) ? 1u : 0) + (is_best ? 2u : 0) +
                         (is_line ? 3u : 0) + (is_loss ? 2u : 0));
    pair(writer, "mesh", words->mesh);
    if (has_experiment) {
        bytes_to_hex(hex, due->experiment.bytes, EXPERIMENT_ID_BYTES);
        pair(writer, "experiment", hex);
        pair(writer, "name", words->experiment);
    }
    if (has_trial(due)) {
        pair_number(writer, "trial", due->fact.trial);
    }
    if (is_best) {
        pair(writer, "metric", words->metric);
        pack_text(writer, "value");
        pack_double(writer, due->value);
    }
    if (is_line) {
        pair_number(writer, "attempt", due->fact.attempt);
        pair_number(writer, "rank", due->fact.rank);
        pair(writer, "line", due->fact.text);
    }
    if (is_loss) {
        bytes_to_hex(hex, due->node.bytes, NODE_ID_BYTES);
        pair(writer, "node", hex);
        pair(writer, "label", words->node);
    }
}

static void time_text(uint64_t seconds, char out[32])
{
    time_t at = (time_t)seconds;
    struct tm parts;
    (void)gmtime_r(&at, &parts);
    (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* A sentence for people. */
static void sentence(const struct node_webhook_due *due, const struct webhook_words *words, char *out, size_t size)
{
    char id[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(id, due->experiment.bytes, EXPERIMENT_ID_BYTES);
    switch (due->fact.event) {
    case FACT_HOOK_COMPLETED:
    case FACT_HOOK_FAILED:
        (void)snprintf(out, size, "%s (%.8s) %s on %s", words->experiment, id,
                       due->fact.event == FACT_HOOK_FAILED ? "has failed" : "is completed", words->mesh);
        break;
    case FACT_HOOK_BEST:
        (void)snprintf(out, size, "%s (%.8s): trial %u is the best so far, with %s %.6g", words->experiment, id,
                       due->fact.trial, words->metric, due->value);
        break;
    case FACT_HOOK_NODE_LOST:
        (void)snprintf(out, size, "%s: the node %s is lost%s%s", words->mesh, words->node,
                       words->experiment[0] != '\0' ? ", which ran a trial of " : "", words->experiment);
        break;
    case FACT_HOOK_LOG_MATCH:
        (void)snprintf(out, size, "%s (%.8s), trial %u: %s", words->experiment, id, due->fact.trial, due->fact.text);
        break;
    default:
        (void)snprintf(out, size, "a test from the mesh %s", words->mesh);
        break;
    }
}

/* Slack takes &, < and > for marks of its own. */
static void escape(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text != '\0' && used + 6 < size; text++) {
        const char *word = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (word != NULL) {
            memcpy(out + used, word, strlen(word));
            used += strlen(word);
        } else {
            out[used++] = *text;
        }
    }
    out[used] = '\0';
}

size_t webhook_body(const struct node_webhook_due *due, const struct webhook_words *words, char out[WEBHOOK_BODY_BYTES])
{
    uint8_t packed[PACKED_BYTES];
    char when[32], said[1024], escaped[2048];
    struct pack_writer writer;
    struct pack_reader reader;
    pack_writer_init(&writer, packed, sizeof packed);
    if (due->hook.is_slack) {
        sentence(due, words, said, sizeof said);
        escape(said, escaped, sizeof escaped);
        pack_map(&writer, 1);
        pair(&writer, "text", escaped);
    } else {
        time_text(words->now_s, when);
        pack_map(&writer, 3);
        pair(&writer, "type", webhook_type(due->fact.event));
        pair(&writer, "timestamp", when);
        pack_text(&writer, "data");
        pack_data(due, words, &writer);
    }
    CHECK(!writer.failed);
    pack_reader_init(&reader, packed, writer.used_bytes);
    CHECK(json_from_pack(&reader, out, WEBHOOK_BODY_BYTES) == 0);
    return strlen(out);
}
