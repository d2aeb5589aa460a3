#include "node/daemon/api/table.h"

#include "base/err.h"
#include "node/daemon/api/change.h"
#include "node/daemon/api/elsewhere.h"
#include "node/daemon/api/files.h"
#include "node/daemon/api/models.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/searcher.h"
#include "node/daemon/api/secrets.h"
#include "node/daemon/api/shells.h"
#include "node/daemon/api/sessions.h"
#include "node/daemon/api/submit.h"
#include "node/daemon/api/tokens.h"
#include "node/daemon/api/trial.h"
#include "node/daemon/api/webhooks.h"
#include "node/daemon/api/worker.h"

static const struct api_row rows[] = {
    {"status", API_READS, query_status, 0},
    {"nodes", API_READS, query_list, QUERY_NODES},
    {"invites", API_READS, query_list, QUERY_INVITES},
    {"slots", API_READS, query_list, QUERY_SLOTS},
    {"usage", API_READS, query_usage, 0},
    {"owner", API_READS, query_owner, 0},
    {"usage_totals", API_READS, query_usage_totals, 0},
    {"calendar", API_READS, query_calendar, 0},
    {"stats", API_READS, query_stats, 0},
    {"scrape_targets", API_READS, query_scrape_targets, 0},
    {"queue", API_READS, query_queue, 0},
    {"ls", API_READS, query_list, QUERY_EXPERIMENTS},
    {"show", API_READS, query_show, 0},
    {"trial", API_READS, query_trial, 0},
    {"rungs", API_READS, query_rungs, 0},
    {"wait", API_READS, query_stream, STREAM_WAIT},
    {"watch", API_READS, query_stream, STREAM_WATCH},
    {"events", API_READS, query_events, 0},
    {"metrics", API_READS, query_series_request, 'm'},
    {"texts", API_READS, query_series_request, 'n'},
    {"logs", API_READS, query_series_request, 'l'},
    {"tail", API_READS, query_series_request, 't'},
    {"trace", API_READS, query_trace, 0},
    {"platform", API_READS, query_series_request, 'e'},
    {"checkpoint_ls", API_READS, query_checkpoints, 0},
    {"checkpoint_get", API_READS, query_checkpoint_get, 0},
    {"checkpoint_verify", API_READS, query_verify, 0},
    {"output_ls", API_READS, query_outputs, 0},
    {"output_get", API_READS, query_output_get, 0},
    {"output_files", API_READS, query_output_files, 0},
    {"output_file", API_READS, query_output_files, 1},
    {"files", API_READS, files_list, 0},
    {"file_get", API_READS, files_get, 0},
    {"config", API_READS, query_config, 0},
    {"config_get", API_READS, query_code_get, QUERY_CONFIG},
    {"code_get", API_READS, query_code_get, QUERY_CODE},

    {"session", API_READS, tokens_session, 0},
    {"tokens", API_READS, tokens_list, 0},
    {"secrets", API_READS, secrets_list, 0},
    {"sessions", API_READS, sessions_list, 0},
    {"session_revoke", API_CHANGES, sessions_revoke, 0},
    {"logout", API_OWN, sessions_end, 0},
    {"webhooks", API_READS, webhooks_list, 0},
    {"models", API_READS, models_list, 0},

    {"login_code", API_LOCAL, tokens_login_code, 0},
    {"node_login_code", API_LOCAL, tokens_node_login_code, 0},
    {"login", API_OPEN, tokens_login, 0},
    {"token_create", API_CHANGES, tokens_create, NODE_REQUEST_TOKEN},
    {"token_revoke", API_CHANGES, tokens_revoke, NODE_REQUEST_TOKEN_REVOKE},
    {"secret_set", API_CHANGES, secrets_set, NODE_REQUEST_SECRET},
    {"secret_rm", API_CHANGES, secrets_remove, NODE_REQUEST_SECRET_REMOVE},
    {"webhook_add", API_CHANGES, webhooks_add, NODE_REQUEST_WEBHOOK},
    {"webhook_allow", API_CHANGES, webhooks_allow, NODE_REQUEST_WEBHOOK},
    {"webhook_rm", API_CHANGES, webhooks_change, NODE_REQUEST_WEBHOOK_REMOVE},
    {"webhook_test", API_CHANGES, webhooks_change, NODE_REQUEST_WEBHOOK_TEST},
    {"model_create", API_CHANGES, models_set, FACT_MODEL_EXISTS},
    {"model_register", API_CHANGES, models_register, 0},
    {"model_grant", API_LOCAL, models_grant, 0},
    {"model_describe", API_CHANGES, models_set, FACT_MODEL_DESCRIPTION},
    {"model_tag", API_CHANGES, models_set, FACT_MODEL_TAG},
    {"model_alias", API_CHANGES, models_set, FACT_MODEL_ALIAS},
    {"model_rm", API_CHANGES, models_set, FACT_MODEL_VERSION},

    {"submit", API_CHANGES, submit_request, 0},
    {"cancel", API_CHANGES, change_control, NODE_REQUEST_CANCEL},
    {"pause", API_CHANGES, change_control, NODE_REQUEST_PAUSE},
    {"resume", API_CHANGES, change_control, NODE_REQUEST_RESUME},
    {"stop", API_CHANGES, change_trial, NODE_REQUEST_STOP},
    {"retry", API_CHANGES, change_trial, NODE_REQUEST_RETRY},
    {"delete", API_CHANGES, change_control, NODE_REQUEST_DELETE},
    {"label", API_CHANGES, change_annotate, FACT_LABEL},
    {"describe", API_CHANGES, change_annotate, FACT_DESCRIPTION},
    {"describe_trial", API_CHANGES, change_describe_trial, 0},
    {"archive", API_CHANGES, change_annotate, FACT_ARCHIVED},
    {"pin", API_CHANGES, change_annotate, FACT_PINNED},
    {"priority", API_CHANGES, change_annotate, FACT_PRIORITY},
    {"max_trials", API_CHANGES, change_annotate, FACT_MAX_TRIALS},
    {"max_slots", API_CHANGES, change_annotate, FACT_MAX_SLOTS},
    {"withhold", API_CHANGES, change_slots, NODE_REQUEST_WITHHOLD},
    {"return", API_CHANGES, change_slots, NODE_REQUEST_RETURN},
    {"node_withhold", API_CHANGES, change_node_slots, NODE_REQUEST_WITHHOLD},
    {"node_return", API_CHANGES, change_node_slots, NODE_REQUEST_RETURN},
    {"owner_policy", API_CHANGES, change_policy, NODE_REQUEST_POLICY},
    {"drain", API_CHANGES, change_drain, NODE_REQUEST_DRAIN},
    {"undrain", API_CHANGES, change_drain, NODE_REQUEST_UNDRAIN},
    {"invite", API_CHANGES, change_invite, NODE_REQUEST_INVITE},
    {"invite_revoke", API_CHANGES, change_revoke, NODE_REQUEST_REVOKE},
    {"evict", API_CHANGES, change_evict, NODE_REQUEST_EVICT},
    {"leave", API_CHANGES, change_leave, NODE_REQUEST_LEAVE},

    {"searcher_turn", API_LOCAL, api_searcher_turn, 0},

    {"exec", API_LOCAL, shells_request, 0},
    {"forward", API_LOCAL, shells_request, 1},
    {"trial_report", API_TRIAL, api_trial_report, 0},
    {"trial_texts", API_TRIAL, api_trial_texts, 0},
    {"trial_model_create", API_TRIAL, models_set, FACT_MODEL_EXISTS},
    {"trial_model_register", API_TRIAL, models_register, 0},
    {"trial_model_describe", API_TRIAL, models_set, FACT_MODEL_DESCRIPTION},
    {"trial_model_tag", API_TRIAL, models_set, FACT_MODEL_TAG},
    {"trial_model_alias", API_TRIAL, models_set, FACT_MODEL_ALIAS},
    {"trial_file_put", API_TRIAL, files_put, 0},
    {"trial_file_keep", API_TRIAL, files_keep, 0},
    {"trial_file_delete", API_TRIAL, files_delete, 0},

    {"worker_open", API_OPENS, api_worker_open, 0},
    {"worker_group", API_WORKER, api_worker_group, 0},
    {"worker_report", API_WORKER, api_worker_report, 0},
    {"worker_progress", API_WORKER, api_worker_progress, 0},
    {"worker_blocked", API_WORKER, api_worker_blocked, 0},
    {"worker_profile", API_WORKER, api_worker_profile, 0},
    {"worker_spans", API_WORKER, api_worker_spans, 0},
    {"worker_save", API_WORKER, api_worker_save, 0},
    {"worker_save_part", API_WORKER, api_worker_save, 1},
    {"worker_load", API_WORKER, api_worker_load, 0},
    {"worker_parts", API_WORKER, api_worker_parts, 0},
};

const struct api_row *api_rows(size_t *count)
{
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

const struct api_row *api_find(const char *op, size_t op_bytes)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (pack_text_is(op, op_bytes, rows[i].op)) {
            return &rows[i];
        }
    }
    return NULL;
}

void api_take(struct daemon *daemon, struct client *client, const struct request *decoded, int error)
{
    struct client_request request = {
        .client = client, .id = decoded->id, .op = decoded->op, .op_bytes = decoded->op_bytes, .map = decoded->map};
    if (error == ERR_VERSION) {
        client_reply_error(daemon, client, request.id, EXIT_USAGE,
                           "This daemon speaks version %d of the local protocol, not %llu; use a client of the "
                           "daemon's version.",
                           REQUEST_PROTOCOL_VERSION, (unsigned long long)decoded->version);
        return;
    }
    if (error != 0) {
        client_reply_error(daemon, client, request.id != 0 ? request.id : 1, EXIT_USAGE,
                           "The request is not a map with `v`, `id` and `op`; see docs/wire.md.");
        return;
    }
    const struct api_row *row = api_find(request.op, request.op_bytes);
    if (row == NULL) {
        client_reply_no_request(daemon, &request);
    } else if (client->is_guest && !tokens_admit(daemon, &request, row)) {
        return;
    } else if (row->kind == API_TRIAL && request.worker == NULL) {
        client_reply_error(daemon, client, request.id, EXIT_NO_RIGHTS,
                           "The request `%.*s` comes by HTTP, with the token of a trial.", (int)request.op_bytes, request.op);
    } else if (row->kind != API_WORKER || api_worker_admit(daemon, &request)) {
        row->take(daemon, &request, row->argument);
    }
}

bool api_must_wait(struct daemon *daemon, const struct client *client, const struct request *request)
{
    const struct api_row *row = api_find(request->op, request->op_bytes);
    if (row != NULL && row->kind == API_TRIAL) {
        return api_trial_must_wait(daemon);
    }
    return row != NULL && row->take == api_worker_report && api_worker_must_wait(daemon, client);
}

void api_tick(struct daemon *daemon, uint64_t now_ms)
{
    query_tick(daemon, now_ms);
    elsewhere_tick(daemon, now_ms);
    shells_tick(daemon);
    tokens_tick(daemon, now_ms);
    api_worker_trace_tick(daemon, now_ms);
}

void api_close(struct daemon *daemon)
{
    api_worker_close(daemon);
    webhooks_close(daemon);
    change_close(daemon);
    elsewhere_close(daemon);
    query_close(daemon);
    shells_close(daemon);
    files_close(daemon);
}
