/* Documents about checkpoints and outputs. */

#include <string.h>

#include "node/daemon/render/experiment.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/render.h"

void render_checkpoint(const struct node_core *core, uint32_t trial, const struct view_manifest *manifest, uint32_t parts,
                       const char *const *states, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    bool is_part = parts > 0 && states != NULL;
    (void)msgpack_pack_map(&packer, 6u + (parts > 0) + is_part);
    if (parts > 0) {
        render_put_u64(&packer, "parts", parts);
    }
    if (is_part) {
        render_put_u64(&packer, "part", manifest->part);
    }
    render_put_u64(&packer, "trial", trial);
    render_put_u64(&packer, "step", manifest->step);
    render_put_u64(&packer, "attempt", manifest->attempt.number);
    render_put_u64(&packer, "bytes", manifest->bytes);
    render_put_bool(&packer, "durable", manifest->durable);
    render_put_string(&packer, "holders");
    (void)msgpack_pack_array(&packer, manifest->holder_count);
    for (uint32_t i = 0; i < manifest->holder_count; i++) {
        (void)msgpack_pack_map(&packer, states != NULL ? 4 : 3);
        render_put_string(&packer, "node");
        render_put_node_id(&packer, manifest->holders[i]);
        render_put_text(&packer, "label", render_node_label(core, manifest->holders[i]).text);
        render_put_text(&packer, "name", render_node_name(core, manifest->holders[i]));
        if (states != NULL) {
            render_put_text(&packer, "state", states[i]);
        }
    }
}

/* Writes what the trial's program has left as its checkpoint, without libshoal. */
static void put_saved(const struct node_core *core, const struct view_experiment *experiment, uint32_t index,
                      const struct view_output *output, msgpack_packer *packer)
{
    const struct fact_output *fact = &output->fact;
    node_id holders[FACT_HOLDERS_MAX];
    uint32_t count = node_core_output_holders(core, view_find_trial(experiment, index), output, holders);
    (void)msgpack_pack_map(packer, 7);
    render_put_u64(packer, "trial", index);
    render_put_string(packer, "step");
    if (fact->saved.step > 0) {
        (void)msgpack_pack_uint64(packer, fact->saved.step);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    render_put_u64(packer, "attempt", output->attempt.number);
    render_put_u64(packer, "bytes", fact->saved.bytes);
    render_put_bool(packer, "durable", fact->durable || count >= experiment->config->checkpoint_replicas);
    render_put_string(packer, "holders");
    (void)msgpack_pack_array(packer, count);
    for (uint32_t i = 0; i < count; i++) {
        (void)msgpack_pack_map(packer, 3);
        render_put_string(packer, "node");
        render_put_node_id(packer, holders[i]);
        render_put_text(packer, "label", render_node_label(core, holders[i]).text);
        render_put_text(packer, "name", render_node_name(core, holders[i]));
    }
    render_put_text(packer, "path", fact->saved.name);
}

bool render_checkpoints(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial,
                        uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "checkpoints");
    struct render_list list = render_list_open(&packer);
    uint32_t position = 0;
    bool fits = true;
    for (uint32_t i = 0; i < experiment->trial_slots && fits; i++) {
        const struct view_trial *row = experiment->trials[i];
        bool wanted = row != NULL && (trial == RENDER_ALL_TRIALS || trial == i);
        const struct view_manifest *m = wanted ? row->manifests : NULL;
        struct view_manifest united;
        while (fits && node_core_next_checkpoint(core, &m, &united)) {
            if (position >= *from) {
                render_checkpoint(core, i, &united, united.set != NULL ? united.set->key.count : 0, NULL, frame);
                fits = render_list_took_row(&list);
            }
            position += fits;
        }
        const struct view_output *outputs[FACT_OUTPUTS_MAX];
        bool has_kept = fits && wanted && node_core_keeps_outputs(experiment, row);
        uint32_t count = has_kept ? node_core_outputs(core, experiment, row, outputs) : 0;
        for (uint32_t k = 0; k < count && fits; k++) {
            if (outputs[k]->fact.saved.name[0] == '\0') {
                continue;
            }
            if (position >= *from) {
                put_saved(core, experiment, i, outputs[k], &packer);
                fits = render_list_took_row(&list);
            }
            position += fits;
        }
    }
    render_list_close(&list);
    *from = position;
    return !fits;
}

void render_outputs(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_output *const *outputs, uint32_t count, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "outputs");
    (void)msgpack_pack_array(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct fact_output *fact = &outputs[i]->fact;
        node_id holders[FACT_HOLDERS_MAX];
        uint32_t holder_count = node_core_output_holders(core, trial, outputs[i], holders);
        char hash[2 * HASH_BYTES + 1];
        (void)msgpack_pack_map(&packer, 9);
        render_put_u64(&packer, "number", outputs[i]->number);
        render_put_u64(&packer, "attempt", outputs[i]->attempt.number);
        render_put_u64(&packer, "sequence", fact->sequence);
        render_put_u64(&packer, "files", fact->files);
        render_put_u64(&packer, "bytes", fact->bytes);
        render_put_bool(&packer, "final", fact->is_final);
        render_put_bool(&packer, "durable", fact->durable || holder_count >= experiment->config->checkpoint_replicas);
        bytes_to_hex(hash, fact->blob.bytes, HASH_BYTES);
        render_put_text(&packer, "hash", hash);
        render_put_string(&packer, "holders");
        (void)msgpack_pack_array(&packer, holder_count);
        for (uint32_t h = 0; h < holder_count; h++) {
            (void)msgpack_pack_map(&packer, 3);
            render_put_string(&packer, "node");
            render_put_node_id(&packer, holders[h]);
            render_put_text(&packer, "label", render_node_label(core, holders[h]).text);
            render_put_text(&packer, "name", render_node_name(core, holders[h]));
        }
    }
}
