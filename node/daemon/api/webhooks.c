#include "node/daemon/api/webhooks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/pattern.h"
#include "node/daemon/api/change.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/environment.h"
#include "node/keep/processes.h"
#include "node/webhooks/body.h"
#include "node/webhooks/sign.h"

#define SENDERS_MAX 4
#define SENDER_MS 20000 /* a process that is not done by then is ended */
#define ANSWER_BYTES 512
#define ID_PREFIX_MIN 4

struct sender {
    pid_t pid; /* 0: the place is free */
    int fd;    /* a file in memory with its answer */
    uint64_t until_ms;
    struct node_webhook_due due;
};

struct api_webhooks {
    struct sender senders[SENDERS_MAX];
    bool is_missing_told;
};

/* ---- what is told ---------------------------------------------------------------------------------------------- */

static void tried(struct daemon *daemon, const struct node_webhook_due *due, bool ok, uint32_t status, const char *text)
{
    struct node_event event = {.kind = NODE_EVENT_WEBHOOK_TRIED};
    char id[2 * sizeof due->id + 1];
    event.u.webhook.due = due;
    event.u.webhook.ok = ok;
    event.u.webhook.status = status;
    event.u.webhook.text = text;
    if (!ok) {
        bytes_to_hex(id, due->id, sizeof due->id);
        daemon_line(daemon, "a webhook could not be told of %s (msg_%.8s): %s%s", webhook_type(due->fact.event), id,
                    text, status == 410 ? "; it wants no more" : "");
    }
    daemon_event(daemon, &event);
}

/* The host of an address, without its port, in `out`. */
static void host_of(const char *url, char out[FACT_HOST_BYTES])
{
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    size_t bytes = host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":/?#");
    host += host[0] == '[';
    bytes -= host[-1] == '[';
    (void)snprintf(out, FACT_HOST_BYTES, "%.*s", (int)bytes, host);
}

static bool is_allowed(const struct daemon *daemon, const char *url)
{
    const struct view *view = node_core_view(daemon->core);
    char host[FACT_HOST_BYTES];
    struct fact_webhook fact;
    host_of(url, host);
    for (const struct view_webhook *row = view_webhook_next(view, NULL); row != NULL;
         row = view_webhook_next(view, row)) {
        if (fact_webhook_read(&row->entry->record, &fact) == 0 && fact.host[0] != '\0' &&
            strcasecmp(fact.host, host) == 0) {
            return true;
        }
    }
    return false;
}

static void words_of(const struct daemon *daemon, const struct node_webhook_due *due, struct webhook_words *out)
{
    const struct view_experiment *experiment =
        experiment_id_is_none(due->experiment) ? NULL
                                               : view_find_experiment(node_core_view(daemon->core), due->experiment);
    bool is_known = experiment != NULL && experiment->known;
    *out = (struct webhook_words){.mesh = daemon->mesh_name,
                                  .experiment = is_known ? experiment->config->name : "",
                                  .metric = is_known ? experiment->config->metric : "",
                                  .node = "",
                                  .now_s = node_core_wall_s(daemon->core)};
}

/* Packs the input of the process. NULL, or what is missing. */
static const char *pack_message(const struct daemon *daemon, const struct node_webhook_due *due,
                                struct pack_writer *writer)
{
    static char why[128];
    struct secret_box_value value;
    struct webhook_words words;
    struct view_label label = view_label(node_core_view(daemon->core), due->node);
    char url[CONFIG_URL_BYTES], body[WEBHOOK_BODY_BYTES], id[WEBHOOK_ID_BYTES], field[160],
        signature[WEBHOOK_SIGNATURE_BYTES] = "";
    words_of(daemon, due, &words);
    words.node = label.text;
    bytes_copy_text(url, sizeof url, due->hook.url);
    if (strncmp(url, "secret:", 7) == 0) {
        if (!environment_open_secret(daemon, due->hook.url + 7, &value)) {
            (void)snprintf(why, sizeof why, "the secret %s with its address is not set", due->hook.url + 7);
            return why;
        }
        bool fits = bytes_copy_text(url, sizeof url, (const char *)value.text);
        secret_box_wipe(&value);
        if (!fits || !config_url_is_good(url) || strncmp(url, "secret:", 7) == 0) {
            return "the secret with its address holds none";
        }
    }
    size_t body_bytes = webhook_body(due, &words, body);
    char hex[2 * sizeof due->id + 1];
    bytes_to_hex(hex, due->id, sizeof due->id);
    (void)snprintf(id, sizeof id, "msg_%s", hex);
    if (due->hook.secret[0] != '\0') {
        if (!environment_open_secret(daemon, due->hook.secret, &value)) {
            (void)snprintf(why, sizeof why, "the secret %s that signs is not set", due->hook.secret);
            return why;
        }
        int error = webhook_sign((const char *)value.text, value.bytes, id, words.now_s, body, body_bytes, signature);
        secret_box_wipe(&value);
        if (error != 0) {
            return "the secret that signs is whsec_ without base64 behind it";
        }
    }
    pack_map(writer, 4);
    pack_text(writer, "url");
    pack_text(writer, url);
    pack_text(writer, "allowed");
    pack_bool(writer, is_allowed(daemon, url));
    pack_text(writer, "fields");
    pack_array(writer, signature[0] != '\0' ? 5 : 4);
    pack_text(writer, "Content-Type: application/json");
    pack_text(writer, "Expect:"); /* no question before the body */
    (void)snprintf(field, sizeof field, "webhook-id: %s", id);
    pack_text(writer, field);
    (void)snprintf(field, sizeof field, "webhook-timestamp: %llu", (unsigned long long)words.now_s);
    pack_text(writer, field);
    if (signature[0] != '\0') {
        (void)snprintf(field, sizeof field, "webhook-signature: %s", signature);
        pack_text(writer, field);
    }
    pack_text(writer, "body");
    pack_text_n(writer, body, body_bytes);
    sodium_memzero(url, sizeof url);
    return writer->failed ? "the message is too long" : NULL;
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

/* shoal-webhook lies where shoal-keep does. */
static bool find_program(const struct daemon *daemon, char *out, size_t size)
{
    const char *slash = strrchr(daemon->keep_program, '/');
    int bytes = snprintf(out, size, "%.*s/shoal-webhook", (int)(slash - daemon->keep_program), daemon->keep_program);
    return bytes > 0 && (size_t)bytes < size && access(out, X_OK) == 0;
}

bool webhooks_are_told(const struct daemon *daemon)
{
    char program[KEEP_PATH_BYTES + 32];
    return find_program(daemon, program, sizeof program);
}

/* A file in memory, with these bytes; -1: none. */
static int memory_file(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("shoal-webhook", MFD_CLOEXEC);
    if (fd >= 0 && (write(fd, bytes, count) != (ssize_t)count || lseek(fd, 0, SEEK_SET) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static int start_process(const char *program, int in, int out, pid_t *pid)
{
    static char name[] = "shoal-webhook";
    char *const arguments[] = {name, NULL};
    static char *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    if ((error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)) == 0) {
        error = keep_process_start(pid, program, &actions, arguments, environment);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void begin(struct daemon *daemon, struct sender *sender, const char *program, uint64_t now_ms)
{
    uint8_t bytes[2 * WEBHOOK_BODY_BYTES];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    const char *why = pack_message(daemon, &sender->due, &writer);
    int in = why == NULL ? memory_file(bytes, writer.used_bytes) : -1, error = 0;
    sodium_memzero(bytes, sizeof bytes);
    sender->fd = in >= 0 ? memory_file(bytes, 0) : -1;
    if (why == NULL) {
        error = sender->fd < 0 ? errno : start_process(program, in, sender->fd, &sender->pid);
        why = error != 0 ? strerror(error) : NULL;
    }
    if (in >= 0) {
        (void)close(in);
    }
    if (why != NULL) {
        sender->pid = 0;
        if (sender->fd >= 0) {
            (void)close(sender->fd);
        }
        tried(daemon, &sender->due, false, 0, why);
    }
    sender->until_ms = now_ms + SENDER_MS;
}

/* Reads the answer of a process that has ended. */
static void end(struct daemon *daemon, struct sender *sender)
{
    uint8_t bytes[ANSWER_BYTES];
    char text[ANSWER_BYTES] = "";
    struct pack_reader map;
    ssize_t count = pread(sender->fd, bytes, sizeof bytes, 0);
    pack_reader_init(&map, bytes, count > 0 ? (size_t)count : 0);
    struct pack_reader status_value = pack_find(&map, "status"), text_value = pack_find(&map, "text");
    uint64_t status = pack_read_u64_max(&status_value, 999);
    pack_read_text_copy(&text_value, text, sizeof text);
    bool is_answer = count > 0 && !status_value.failed && !text_value.failed;
    (void)close(sender->fd);
    sender->pid = 0;
    struct node_webhook_due due = sender->due;
    bool is_hidden = strncmp(due.hook.url, "secret:", 7) == 0 && strstr(text, "shoal webhook allow") == NULL;
    if (is_answer && status == 0 && is_hidden) { /* the text may name the host */
        bytes_copy_text(text, sizeof text, "its receiver cannot be reached");
    }
    tried(daemon, &due, is_answer && status >= 200 && status < 300, is_answer ? (uint32_t)status : 0,
          is_answer ? text : "the process that sends it has ended without a word");
}

void webhooks_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct api_webhooks *webhooks = daemon->api->webhooks;
    char program[KEEP_PATH_BYTES + 32];
    if (webhooks == NULL) {
        webhooks = daemon->api->webhooks = calloc(1, sizeof *webhooks);
    }
    bool has_more = true;
    for (uint32_t i = 0; webhooks != NULL && i < SENDERS_MAX; i++) {
        struct sender *sender = &webhooks->senders[i];
        if (sender->pid != 0 && now_ms >= sender->until_ms) {
            (void)kill(sender->pid, SIGKILL);
        }
        if (sender->pid != 0 && waitpid(sender->pid, NULL, WNOHANG) != 0) {
            end(daemon, sender);
        }
        has_more = has_more && (sender->pid != 0 || node_core_webhook_due(daemon->core, &sender->due));
        if (sender->pid == 0 && has_more) {
            struct node_webhook_due due = sender->due;
            if (find_program(daemon, program, sizeof program)) {
                begin(daemon, sender, program, now_ms);
            } else {
                tried(daemon, &due, false, 0, "this node has no program shoal-webhook");
            }
        }
    }
}

void webhooks_close(struct daemon *daemon)
{
    struct api_webhooks *webhooks = daemon->api->webhooks;
    for (uint32_t i = 0; webhooks != NULL && i < SENDERS_MAX; i++) {
        if (webhooks->senders[i].pid != 0) {
            (void)kill(webhooks->senders[i].pid, SIGKILL);
            (void)waitpid(webhooks->senders[i].pid, NULL, 0);
            (void)close(webhooks->senders[i].fd);
        }
    }
    free(webhooks);
    daemon->api->webhooks = NULL;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

/* Gives the core a request about the webhook with this id. */
static void ask(struct daemon *daemon, struct client_request *request, int kind, const uint8_t id[FACT_HOOK_BYTES],
                const struct pack_writer *hook, const char *host)
{
    struct change_waiting *waiting = change_wait(daemon, request);
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    if (waiting == NULL) {
        return;
    }
    waiting->is_webhook = true;
    memcpy(waiting->invite_key, id, FACT_HOOK_BYTES);
    event.u.request.kind = (enum node_request_kind)kind;
    event.u.request.client = waiting->key;
    memcpy(event.u.request.public_key, id, FACT_HOOK_BYTES);
    bytes_copy_text(event.u.request.value, sizeof event.u.request.value, host);
    event.bytes = hook != NULL ? hook->bytes : NULL;
    event.byte_count = hook != NULL ? (uint32_t)hook->used_bytes : 0;
    daemon_event(daemon, &event);
}

/* Packs `on` and `log_match` of a request as a configuration has them. False: a text of `on` is no event. */
static bool pack_on(const struct client_request *request, struct pack_writer *writer)
{
    char pattern[CONFIG_PATTERN_BYTES] = "";
    struct pack_reader list = pack_find(&request->map, "on");
    bool has_pattern = request_text(&request->map, "log_match", pattern, sizeof pattern) && pattern[0] != '\0';
    uint32_t count = list.failed ? 0 : pack_read_array(&list);
    pack_text(writer, "on");
    pack_array(writer, count + has_pattern);
    for (uint32_t i = 0; i < count && !list.failed; i++) {
        size_t bytes;
        const char *word = pack_read_text(&list, &bytes);
        pack_text_n(writer, word, list.failed ? 0 : bytes);
    }
    if (has_pattern) {
        pack_map(writer, 1);
        pack_text(writer, "log_match");
        pack_text(writer, pattern);
    }
    return !list.failed || count == 0;
}

static const char *wrong_pattern(const struct config_webhook *hook)
{
    struct pattern *pattern = hook->pattern[0] != '\0' ? malloc(sizeof *pattern) : NULL;
    const char *wrong = pattern != NULL ? pattern_compile(pattern, hook->pattern, strlen(hook->pattern)) : NULL;
    free(pattern);
    return wrong;
}

void webhooks_add(struct daemon *daemon, struct client_request *request, int kind)
{
    char url[CONFIG_URL_BYTES] = "", secret[CONFIG_SECRET_BYTES] = "", form[16] = "";
    uint8_t bytes[2048], id[FACT_HOOK_BYTES];
    struct pack_writer writer;
    struct pack_reader reader;
    struct config_webhook hook;
    (void)request_text(&request->map, "url", url, sizeof url);
    (void)request_text(&request->map, "secret", secret, sizeof secret);
    (void)request_text(&request->map, "form", form, sizeof form);
    bool has_form = form[0] != '\0' && strcmp(form, "json") != 0;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 2u + (secret[0] != '\0') + has_form);
    pack_text(&writer, "url");
    pack_text(&writer, url);
    if (secret[0] != '\0') {
        pack_text(&writer, "secret");
        pack_text(&writer, secret);
    }
    if (has_form) {
        pack_text(&writer, "form");
        pack_text(&writer, form);
    }
    bool is_good = pack_on(request, &writer);
    pack_reader_init(&reader, bytes, writer.used_bytes);
    if (!is_good || writer.failed || !config_webhook_read(&reader, &hook)) {
        client_reply_error(
            daemon, request->client, request->id, EXIT_USAGE,
            "A webhook has a `url` (http://, https:// or secret:NAME, without a password), events in `on` (completed, "
            "failed, "
            "best, node_lost) or a pattern in `log_match`, and perhaps the name of a `secret` and the `form` slack.");
        return;
    }
    const char *wrong = wrong_pattern(&hook);
    if (wrong != NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The pattern of log_match is not good: %s.", wrong);
        return;
    }
    randombytes_buf(id, sizeof id);
    ask(daemon, request, kind, id, &writer, "");
}

void webhooks_allow(struct daemon *daemon, struct client_request *request, int kind)
{
    char host[FACT_HOST_BYTES];
    uint8_t id[FACT_HOOK_BYTES];
    if (!request_text(&request->map, "host", host, sizeof host) || host[0] == '\0' || strpbrk(host, "/ @") != NULL) {
        client_reply_error(
            daemon, request->client, request->id, EXIT_USAGE,
            "The request lacks `host`, a name or address as it stands in addresses of webhooks, without a port.");
        return;
    }
    randombytes_buf(id, sizeof id);
    ask(daemon, request, kind, id, NULL, host);
}

void webhooks_change(struct daemon *daemon, struct client_request *request, int kind)
{
    const struct view *view = node_core_view(daemon->core);
    char wanted[2 * FACT_HOOK_BYTES + 1] = "", hex[2 * FACT_HOOK_BYTES + 1];
    const struct view_webhook *found = NULL;
    uint32_t count = 0;
    struct fact_webhook fact;
    (void)request_text(&request->map, "webhook", wanted, sizeof wanted);
    for (const struct view_webhook *row = view_webhook_next(view, NULL); row != NULL;
         row = view_webhook_next(view, row)) {
        bytes_to_hex(hex, row->id, sizeof row->id);
        bool is_host = fact_webhook_read(&row->entry->record, &fact) == 0 && fact.host[0] != '\0';
        bool is_meant = strlen(wanted) >= ID_PREFIX_MIN && strncmp(hex, wanted, strlen(wanted)) == 0;
        if (is_meant && (kind == NODE_REQUEST_WEBHOOK_REMOVE || !is_host)) {
            found = row;
            count++;
        }
    }
    if (count == 0) {
        client_reply_unknown(daemon, request, "webhook", wanted, "webhook ls");
    } else if (count > 1) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "Several webhooks have ids that begin with %s; give more digits.", wanted);
    } else {
        ask(daemon, request, kind, found->id, NULL, "");
    }
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

/* What became of telling one webhook. */
struct tally {
    uint8_t hook[FACT_HOOK_BYTES];
    uint32_t told, retrying, given_up;
    bool is_gone;
    struct fact_delivery last;
};

static bool tally_entry(void *context, const struct records_entry *entry)
{
    struct tally *tally = context;
    struct fact_delivery fact;
    if (entry->record.kind != FACT_DELIVERY || fact_delivery_read(&entry->record, &fact) != 0 ||
        memcmp(fact.hook, tally->hook, sizeof fact.hook) != 0) {
        return true;
    }
    tally->told += fact.state == FACT_DELIVERY_DONE;
    tally->retrying += fact.state == FACT_DELIVERY_RETRYING || fact.state == FACT_DELIVERY_PENDING;
    tally->given_up += fact.state == FACT_DELIVERY_GIVEN_UP;
    tally->is_gone |= fact.state == FACT_DELIVERY_GONE;
    if (fact.state != FACT_DELIVERY_GONE && fact.tried_s >= tally->last.tried_s) {
        tally->last = fact;
    }
    return true;
}

static void put_text(struct pack_writer *writer, const char *key, const char *text)
{
    pack_text(writer, key);
    pack_text(writer, text);
}

static void put_number(struct pack_writer *writer, const char *key, uint64_t number)
{
    pack_text(writer, key);
    pack_u64(writer, number);
}

static void put_hook(const struct daemon *daemon, const uint8_t id[FACT_HOOK_BYTES], const struct config_webhook *hook,
                     struct pack_writer *writer)
{
    char hex[2 * FACT_HOOK_BYTES + 1];
    struct tally tally = {.told = 0};
    uint32_t words = 0;
    memcpy(tally.hook, id, sizeof tally.hook);
    records_each(node_core_records(daemon->core), tally_entry, &tally);
    bytes_to_hex(hex, id, FACT_HOOK_BYTES);
    for (uint32_t i = 0; config_webhook_words[i] != NULL; i++) {
        words += hook->on >> i & 1;
    }
    bool is_failing = tally.last.state == FACT_DELIVERY_RETRYING || tally.last.state == FACT_DELIVERY_GIVEN_UP;
    pack_map(writer, 13);
    put_text(writer, "id", hex);
    put_text(writer, "url", hook->url);
    pack_text(writer, "on");
    pack_array(writer, words);
    for (uint32_t i = 0; config_webhook_words[i] != NULL; i++) {
        if ((hook->on >> i & 1) != 0) {
            pack_text(writer, config_webhook_words[i]);
        }
    }
    put_text(writer, "log_match", hook->pattern);
    put_text(writer, "secret", hook->secret);
    put_text(writer, "form", hook->is_slack ? "slack" : "json");
    put_text(writer, "state", tally.is_gone ? "ended" : is_failing ? "failing" : "good");
    put_number(writer, "told", tally.told);
    put_number(writer, "waiting", tally.retrying);
    put_number(writer, "given_up", tally.given_up);
    put_number(writer, "last_s", tally.last.tried_s);
    put_number(writer, "last_status", tally.last.status);
    put_text(writer, "last_text", tally.last.event == FACT_HOOK_LOG_MATCH ? "" : tally.last.text);
}

void webhooks_list(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    const struct view *view = node_core_view(daemon->core);
    const experiment_id none = {{0}};
    struct client_reply reply;
    struct fact_webhook fact;
    uint8_t id[FACT_HOOK_BYTES];
    struct config_webhook hook;
    uint32_t hooks = 0, hosts = 0;
    char hex[2 * FACT_HOOK_BYTES + 1];
    for (const struct view_webhook *row = view_webhook_next(view, NULL); row != NULL;
         row = view_webhook_next(view, row)) {
        hosts += fact_webhook_read(&row->entry->record, &fact) == 0 && fact.host[0] != '\0';
    }
    while (node_core_webhook(daemon->core, none, hooks, id, &hook)) {
        hooks++;
    }
    if (!client_reply_begin(&reply, request->id, true, 2)) {
        request->client->broken = true;
        return;
    }
    pack_text(&reply.writer, "webhooks");
    pack_array(&reply.writer, hooks);
    for (uint32_t i = 0; i < hooks && node_core_webhook(daemon->core, none, i, id, &hook); i++) {
        put_hook(daemon, id, &hook, &reply.writer);
    }
    pack_text(&reply.writer, "hosts");
    pack_array(&reply.writer, hosts);
    for (const struct view_webhook *row = view_webhook_next(view, NULL); row != NULL;
         row = view_webhook_next(view, row)) {
        if (fact_webhook_read(&row->entry->record, &fact) == 0 && fact.host[0] != '\0') {
            bytes_to_hex(hex, row->id, sizeof row->id);
            pack_map(&reply.writer, 2);
            put_text(&reply.writer, "id", hex);
            put_text(&reply.writer, "host", fact.host);
        }
    }
    client_reply_send(daemon, request->client, &reply, -1);
}
