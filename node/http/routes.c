#include "node/http/routes.h"

#include <string.h>

#define EXPERIMENT "/experiments/{experiment}"
#define PAGE "from:u limit:u sort:t descending:b states:t where:t "
#define TRIAL EXPERIMENT "/trials/{trial}"

static const struct route rows[] = {
    {"GET", "/session", "session", ROUTE_DOCUMENT, "", "What the caller may do, and on which node", NULL},
    {"DELETE", "/session", "logout", ROUTE_DOCUMENT, "", "End the session of the caller", NULL},
    {"GET", "/sessions", "sessions", ROUTE_DOCUMENT, "", "The sessions of browsers at this node", NULL},
    {"DELETE", "/sessions/{session}", "session_revoke", ROUTE_DOCUMENT, "", "End a session", NULL},
    {"GET", "/status", "status", ROUTE_DOCUMENT, "", "This node and the mesh in numbers", NULL},
    {"GET", "/nodes", "nodes", ROUTE_DOCUMENT, "", "The nodes of the mesh", NULL},
    {"GET", "/slots", "slots", ROUTE_DOCUMENT, "", "The slots of the mesh and what holds them", NULL},
    {"GET", "/queue", "queue", ROUTE_DOCUMENT, "", "Which experiments wait for slots, in their order, and what for", NULL},
    {"GET", "/nodes/{node}/owner", "owner", ROUTE_DOCUMENT, "", "What runs on a node, since when and until when", NULL},
    {"GET", "/usage", "usage", ROUTE_DOCUMENT, "", "What each slot uses now", NULL},
    {"GET", "/usage/totals", "usage_totals", ROUTE_DOCUMENT, "by:t since_s:u",
     "What the slots were used for, by user, label, model, node, day or month", NULL},
    {"GET", "/calendar", "calendar", ROUTE_DOCUMENT, "from_s:u until_s:u gap_s:u",
     "Which experiment held which slot when", NULL},
    {"GET", "/stats", "stats", ROUTE_DOCUMENT, "", "What this node has counted, as /metrics has it", NULL},
    {"GET", "/prometheus/targets", "scrape_targets", ROUTE_TARGETS, "", "The targets of Prometheus (http_sd)", NULL},
    {"GET", "/events", "events", ROUTE_STREAM, "from:u since_ms:u follow:b kind:t experiment:t node:t",
     "What happened on this node, or on another one", NULL},

    {"GET", "/experiments", "ls", ROUTE_DOCUMENT, "", "The experiments", NULL},
    {"POST", "/experiments", "submit", ROUTE_SUBMIT, "config!:t overrides:a file:t",
     "Submit a configuration that needs no code", NULL},
    {"GET", EXPERIMENT, "show", ROUTE_DOCUMENT, PAGE "curves:b", "An experiment with its trials", NULL},
    {"GET", EXPERIMENT "/export", "show", ROUTE_EXPORT, "as:t", "An experiment as one file: html, csv or svg", NULL},
    {"DELETE", EXPERIMENT, "delete", ROUTE_DOCUMENT, "", "Delete an experiment for good", NULL},
    {"GET", EXPERIMENT "/watch", "watch", ROUTE_STREAM, PAGE "curves:b", "An experiment at each change", NULL},
    {"GET", EXPERIMENT "/wait", "wait", ROUTE_STREAM, "timeout_s:u", "An experiment's state at each change", NULL},
    {"GET", EXPERIMENT "/rungs", "rungs", ROUTE_DOCUMENT, "", "The rungs of a search and its decisions", NULL},
    {"GET", EXPERIMENT "/texts", "texts", ROUTE_DOCUMENT, "", "What the programs of all trials wrote by MLflow", NULL},
    {"GET", EXPERIMENT "/metrics", "metrics", ROUTE_LIVE, "points:u follow:b since_ms:u profile:b",
     "Metric points of all trials, or their profiles", NULL},
    {"GET", EXPERIMENT "/checkpoints", "checkpoint_ls", ROUTE_DOCUMENT, "", "The checkpoints of all trials", NULL},
    {"GET", EXPERIMENT "/config", "config", ROUTE_DOCUMENT, "", "The configuration with all defaults", NULL},
    {"GET", EXPERIMENT "/configuration", "config_get", ROUTE_FILE, "", "The configuration file as it was submitted",
     "application/yaml"},
    {"GET", EXPERIMENT "/code", "code_get", ROUTE_FILE, "", "The code as a tar archive", "application/x-tar"},
    {"POST", EXPERIMENT "/pause", "pause", ROUTE_DOCUMENT, "", "Pause an experiment", NULL},
    {"POST", EXPERIMENT "/resume", "resume", ROUTE_DOCUMENT, "", "Resume an experiment", NULL},
    {"POST", EXPERIMENT "/cancel", "cancel", ROUTE_DOCUMENT, "", "Cancel an experiment", NULL},
    {"POST", EXPERIMENT "/label", "label", ROUTE_DOCUMENT, "label!:t value:t remove:b", "Set a label, or take it back",
     NULL},
    {"POST", EXPERIMENT "/describe", "describe", ROUTE_DOCUMENT, "value!:t", "Describe an experiment", NULL},
    {"POST", EXPERIMENT "/archive", "archive", ROUTE_DOCUMENT, "remove:b", "Archive an experiment, or bring it back",
     NULL},
    {"POST", EXPERIMENT "/pin", "pin", ROUTE_DOCUMENT, "remove:b", "Pin an experiment, or unpin it", NULL},
    {"POST", EXPERIMENT "/priority", "priority", ROUTE_DOCUMENT, "priority!:u", "Set the priority", NULL},
    {"POST", EXPERIMENT "/max_trials", "max_trials", ROUTE_DOCUMENT, "max_trials!:u",
     "Let a search draw further trials", NULL},
    {"POST", EXPERIMENT "/max_slots", "max_slots", ROUTE_DOCUMENT, "max_slots!:u", "Set the most slots of a trial",
     NULL},

    {"GET", TRIAL, "trial", ROUTE_DOCUMENT, "", "A trial with its attempts", NULL},
    {"GET", TRIAL "/texts", "texts", ROUTE_DOCUMENT, "", "Parameters and tags that a trial's program wrote by MLflow", NULL},
    {"GET", TRIAL "/metrics", "metrics", ROUTE_LIVE, "points:u follow:b since_ms:u profile:b",
     "Metric points of a trial, or its profile", NULL},
    {"GET", TRIAL "/logs", "logs", ROUTE_PIECES, "pattern:t since_ms:u tail:u rank:u attempt:u all_attempts:b follow:b",
     "What the workers of a trial wrote", NULL},
    {"GET", TRIAL "/tail", "tail", ROUTE_PIECES, "", "The last lines of a trial", NULL},
    {"GET", TRIAL "/platform", "platform", ROUTE_PACKED, "", "What a trial ran on", NULL},
    {"GET", TRIAL "/trace", "trace", ROUTE_FILE, "steps:u timeout_s:u", "The next steps of all ranks of a running trial, for chrome://tracing",
     "application/json"},
    {"GET", TRIAL "/checkpoints", "checkpoint_ls", ROUTE_DOCUMENT, "", "The checkpoints of a trial", NULL},
    {"GET", TRIAL "/checkpoints/verify", "checkpoint_verify", ROUTE_DOCUMENT, "",
     "Read all copies of a trial's checkpoints", NULL},
    {"GET", TRIAL "/checkpoints/{step}", "checkpoint_get", ROUTE_FILE, "part:u set:t", "The bytes of a checkpoint",
     "application/octet-stream"},
    {"GET", TRIAL "/outputs", "output_ls", ROUTE_DOCUMENT, "", "The files that the workers left", NULL},
    {"GET", TRIAL "/outputs/{number}", "output_get", ROUTE_FILE, "", "A worker's files as one snapshot",
     "application/octet-stream"},
    {"GET", TRIAL "/outputs/{number}/files", "output_files", ROUTE_DOCUMENT, "", "The names of a worker's files", NULL},
    {"GET", TRIAL "/outputs/{number}/file", "output_file", ROUTE_FILE, "path!:t", "One of a worker's files",
     "application/octet-stream"},
    {"GET", TRIAL "/files", "files", ROUTE_DOCUMENT, "path:t", "The files in a directory below $SHOAL_OUTPUT_DIR", NULL},
    {"GET", TRIAL "/file", "file_get", ROUTE_FILE, "path!:t", "One of these files", "application/octet-stream"},
    {"POST", TRIAL "/stop", "stop", ROUTE_DOCUMENT, "", "Stop a trial", NULL},
    {"POST", TRIAL "/retry", "retry", ROUTE_DOCUMENT, "", "Try a trial again", NULL},
    {"POST", TRIAL "/describe", "describe_trial", ROUTE_DOCUMENT, "value!:t", "Describe a trial", NULL},

    {"POST", "/slots/withhold", "withhold", ROUTE_DOCUMENT, "slots:n for_s:u", "Take slots of this node back", NULL},
    {"POST", "/slots/return", "return", ROUTE_DOCUMENT, "slots:n", "Give slots of this node to the mesh", NULL},
    {"POST", "/owner/policy", "owner_policy", ROUTE_DOCUMENT, "hours:t load_percent:u activity:b back_after_s:u",
     "Say when this node's slots are its owner's", NULL},
    {"POST", "/nodes/{node}/withhold", "node_withhold", ROUTE_DOCUMENT, "slots:n for_s:u", "Take slots of a node back", NULL},
    {"POST", "/nodes/{node}/return", "node_return", ROUTE_DOCUMENT, "slots:n", "Give slots of a node to the mesh", NULL},
    {"POST", "/nodes/{node}/drain", "drain", ROUTE_DOCUMENT, "now:b", "Give a node no new work", NULL},
    {"POST", "/nodes/{node}/undrain", "undrain", ROUTE_DOCUMENT, "", "Give a node work again", NULL},
    {"POST", "/nodes/{node}/evict", "evict", ROUTE_DOCUMENT, "with_vouched:b", "Shut a node out of the mesh for good",
     NULL},
    {"POST", "/leave", "leave", ROUTE_DOCUMENT, "", "Let this node leave the mesh, and end its daemon", NULL},
    {"GET", "/invites", "invites", ROUTE_DOCUMENT, "", "The invites", NULL},
    {"POST", "/invites", "invite", ROUTE_DOCUMENT, "expires_s:u", "Make an invite, with which a machine can join",
     NULL},
    {"DELETE", "/invites/{invite}", "invite_revoke", ROUTE_DOCUMENT, "", "Revoke an invite", NULL},
    {"GET", "/tokens", "tokens", ROUTE_DOCUMENT, "", "The tokens of this door", NULL},
    {"POST", "/tokens", "token_create", ROUTE_DOCUMENT, "name!:t read_only:b expires_s:u", "Make a token", NULL},
    {"DELETE", "/tokens/{token}", "token_revoke", ROUTE_DOCUMENT, "", "Revoke a token", NULL},
    {"GET", "/webhooks", "webhooks", ROUTE_DOCUMENT, "", "The webhooks of the mesh, and what became of telling them", NULL},
    {"POST", "/webhooks", "webhook_add", ROUTE_DOCUMENT, "url!:t on:a log_match:t secret:t form:t", "Add a webhook", NULL},
    {"POST", "/webhooks/hosts", "webhook_allow", ROUTE_DOCUMENT, "host!:t", "Allow webhooks a host of this machine or its network", NULL},
    {"POST", "/webhooks/{webhook}/test", "webhook_test", ROUTE_DOCUMENT, "", "Send a webhook a test", NULL},
    {"DELETE", "/webhooks/{webhook}", "webhook_rm", ROUTE_DOCUMENT, "", "Remove a webhook, or an allowed host", NULL},
    {"GET", "/models", "models", ROUTE_DOCUMENT, "", "The registered models with their versions, tags and aliases", NULL},
    {"POST", "/models", "model_create", ROUTE_DOCUMENT, "name!:t", "Begin a model without versions", NULL},
    {"GET", "/models/{name}", "models", ROUTE_DOCUMENT, "", "A registered model with its versions, tags and aliases", NULL},
    {"DELETE", "/models/{name}", "model_rm", ROUTE_DOCUMENT, "", "Remove a model with all of its versions", NULL},
    {"POST", "/models/{name}/versions", "model_register", ROUTE_DOCUMENT,
     "experiment!:t trial!:u step:u source:t path:t run:t logged_model:t link:t", "Make a checkpoint or files of a trial the next version", NULL},
    {"DELETE", "/models/{name}/versions/{version}", "model_rm", ROUTE_DOCUMENT, "", "Remove a version", NULL},
    {"POST", "/models/{name}/alias", "model_alias", ROUTE_DOCUMENT, "key!:t version:u remove:b", "Let an alias stand for a version, or take it back",
     NULL},
    {"POST", "/models/{name}/tag", "model_tag", ROUTE_DOCUMENT, "key!:t value:t version:u remove:b",
     "Set a tag of a model or a version, or take it back", NULL},
    {"POST", "/models/{name}/describe", "model_describe", ROUTE_DOCUMENT, "value!:t version:u", "Describe a model or a version", NULL},
    {"GET", "/secrets", "secrets", ROUTE_DOCUMENT, "", "The names of the secrets", NULL},
    {"POST", "/secrets", "secret_set", ROUTE_DOCUMENT, "name!:t value!:t", "Set a secret, which no route reads", NULL},
    {"DELETE", "/secrets/{name}", "secret_rm", ROUTE_DOCUMENT, "", "Remove a secret", NULL},
};

const struct route *routes_all(size_t *count)
{
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

/* ---- paths ----------------------------------------------------------------------------------------------------- */

static size_t part_of(const char *path)
{
    return strcspn(path, "/");
}

/* Compares part by part, and collects what stands for the {NAME}s. */
static bool match(const char *pattern, const char *path, struct route_match *out)
{
    out->part_count = 0;
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        size_t wanted = part_of(pattern), given = part_of(path);
        if (*pattern == '{') {
            if (given == 0) {
                return false;
            }
            out->parts[out->part_count].name = pattern + 1;
            out->parts[out->part_count].name_bytes = wanted - 2;
            out->parts[out->part_count].value = path;
            out->parts[out->part_count].value_bytes = given;
            out->part_count++;
        } else if (wanted != given || memcmp(pattern, path, given) != 0) {
            return false;
        }
        pattern += wanted;
        path += given;
    }
    return *pattern == '\0' && *path == '\0';
}

static void allow(char allowed[64], const char *method)
{
    size_t used = strlen(allowed), bytes = strlen(method);
    if (used + bytes + 3 < 64 && strstr(allowed, method) == NULL) {
        memcpy(allowed + used, used > 0 ? ", " : "", used > 0 ? 2 : 0);
        used += used > 0 ? 2 : 0;
        memcpy(allowed + used, method, bytes + 1);
    }
}

void routes_match(const char *method, const char *path, struct route_match *out)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *out = (struct route_match){0};
    path += strlen(ROUTES_PREFIX);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && out->route == NULL; i++) {
        if (!match(rows[i].path, path, out)) {
            continue;
        }
        if (strcmp(rows[i].method, wanted) == 0) {
            out->route = &rows[i];
        } else {
            out->has_path = true;
            allow(out->allowed, rows[i].method);
            if (strcmp(rows[i].method, "GET") == 0) {
                allow(out->allowed, "HEAD");
            }
        }
    }
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

bool routes_next_argument(const struct route *route, const char **at, struct route_argument *out)
{
    const char *text = *at != NULL ? *at : route->arguments;
    text += strspn(text, " ");
    size_t bytes = strcspn(text, " ");
    if (bytes == 0) {
        return false;
    }
    const char *colon = memchr(text, ':', bytes);
    out->name = text;
    out->name_bytes = (size_t)(colon - text);
    out->required = colon[-1] == '!';
    out->name_bytes -= out->required;
    out->type = colon[1];
    *at = text + bytes;
    return true;
}

char routes_argument(const struct route *route, const char *name, bool *required)
{
    const char *at = NULL;
    struct route_argument argument;
    while (routes_next_argument(route, &at, &argument)) {
        if (argument.name_bytes == strlen(name) && memcmp(argument.name, name, argument.name_bytes) == 0) {
            *required = argument.required;
            return argument.type;
        }
    }
    return '\0';
}
