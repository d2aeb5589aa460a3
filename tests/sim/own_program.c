#include "tests/sim/own_program.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

static uint64_t bits_of(double number)
{
    uint64_t bits = 1; /* of every NaN */
    if (!isnan(number)) {
        memcpy(&bits, &number, sizeof bits);
    }
    return bits;
}

static void hear_word(struct own_program *program, uint64_t word)
{
    program->heard = random_mix(program->heard ^ word) + 1;
}

static void hear_values(struct own_program *program, const struct own_values *values)
{
    hear_word(program, values->count);
    hear_word(program, bits_of(values->rate));
    hear_word(program, bits_of(values->hidden));
}

static void learn(struct own_program *program, uint32_t trial)
{
    program->known |= trial < OWN_TRIALS_MAX ? 1u << trial : 0;
}

/* What the answer before has come to: also that of an event of which the program only hears. */
static void hear_before(struct own_program *program, const struct own_before *before)
{
    hear_word(program, (uint64_t)before->is_there << 34 | (uint64_t)before->is_finished << 33 |
                           (uint64_t)before->created_count << 16 | before->stopped_count);
    for (uint32_t i = 0; i < before->created_count; i++) {
        hear_word(program, before->created[i].trial);
        hear_values(program, &before->created[i].values);
        learn(program, before->created[i].trial);
    }
    for (uint32_t i = 0; i < before->stopped_count; i++) {
        hear_word(program, before->stopped[i]);
    }
    program->is_finished |= before->is_finished;
}

/* ---- what it thinks of ------------------------------------------------------------------------------------------------ */

static void intend(struct own_program *program, struct own_action action)
{
    if (program->action_count < OWN_ACTIONS_MAX) {
        program->actions[program->action_count++] = action;
    }
}

static void create(struct own_program *program, uint32_t count)
{
    for (uint32_t i = 0; i < count && !program->is_finished; i++) {
        uint64_t dice = random_mix(program->heard + i);
        struct own_action action = {.kind = OWN_CREATE, .has_rate = dice % 4 != 0};
        action.has_hidden = action.has_rate && program->style.has_hidden && (dice >> 8) % 2 == 0;
        action.rate = 0.001 * (double)(2 + (dice >> 16) % 97);
        action.hidden = (double)(16 + (dice >> 32) % 241);
        intend(program, action);
    }
}

static void stop(struct own_program *program, uint32_t trial)
{
    if (trial < OWN_TRIALS_MAX && (program->known >> trial & 1) != 0) {
        intend(program, (struct own_action){.kind = OWN_STOP, .trial = trial});
    }
}

static void finish(struct own_program *program)
{
    intend(program, (struct own_action){.kind = OWN_FINISH});
    program->is_finished = true;
}

static void think_of_begin(struct own_program *program, uint64_t dice)
{
    uint32_t count = program->style.is_hasty ? program->style.trials : (uint32_t)(dice % 4);
    create(program, count > 0 || dice % 32 == 0 ? count : 1); /* now and then none at all: the search is over at once */
}

static void think_of_report(struct own_program *program, uint64_t dice, uint32_t trial)
{
    if (dice % 6 == 0) {
        stop(program, trial);
    }
    if ((dice >> 8) % 16 == 0) {
        stop(program, (uint32_t)(dice >> 12) % program->style.trials);
    }
    if ((dice >> 20) % 4 == 0) {
        create(program, 1);
    }
    if ((dice >> 28) % 64 == 0) {
        finish(program);
    }
}

static void think_of_end(struct own_program *program, uint64_t dice)
{
    create(program, dice % 8 < 3 ? 0 : (dice >> 8) % 4 == 0 ? 2 : 1);
    if ((dice >> 16) % 24 == 0) {
        finish(program);
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------------
 */

void own_program_begin(const struct own_style *style, struct own_program *program)
{
    *program = (struct own_program){.style = *style, .heard = 1};
}

static void say(struct own_program *program, struct own_answer *answer)
{
    uint32_t count = program->action_count < program->style.says ? program->action_count : program->style.says;
    memcpy(answer->actions, program->actions, count * sizeof program->actions[0]);
    memmove(program->actions, program->actions + count, (program->action_count - count) * sizeof program->actions[0]);
    program->action_count -= count;
    answer->count = count;
    answer->has_more = program->action_count > 0;
}

void own_program_hear(struct own_program *program, const struct own_event *event, struct own_answer *answer)
{
    bool is_of_trial = event->kind == OWN_REPORT || event->kind == OWN_END;
    *answer = (struct own_answer){.count = 0};
    hear_before(program, &event->before);
    hear_word(program, event->kind);
    if (is_of_trial) {
        hear_word(program, event->trial);
        hear_word(program, event->step);
        hear_word(program, event->length);
        hear_word(program, bits_of(event->metric));
        hear_values(program, &event->values);
    }
    uint64_t dice = random_mix(program->heard);
    if (event->kind == OWN_START) {
        think_of_begin(program, dice);
    } else if (event->kind == OWN_REPORT) {
        think_of_report(program, dice, event->trial);
    } else if (event->kind == OWN_END) {
        think_of_end(program, dice);
    }
    if (event->kind != OWN_OTHER) { /* of that it only hears */
        say(program, answer);
    }
}

/* ---- as bytes ----------------------------------------------------------------------------------------------------------
 */

struct own_values own_values_read(struct pack_reader values)
{
    struct own_values out = {0};
    if (values.failed || pack_peek(&values) != PACK_MAP) {
        return out;
    }
    struct pack_reader rate = pack_find(&values, "learning_rate"), hidden = pack_find(&values, "hidden");
    out.count = (uint32_t)!rate.failed + (uint32_t)!hidden.failed;
    out.rate = rate.failed ? 0 : pack_read_double(&rate);
    out.hidden = hidden.failed ? 0 : pack_read_double(&hidden);
    return out;
}

static bool read_before(struct pack_reader before, struct own_before *out)
{
    if (before.failed || pack_peek(&before) == PACK_NIL) {
        return !before.failed;
    }
    struct pack_reader created = pack_find(&before, "created"), stopped = pack_find(&before, "stopped"),
                       finished = pack_find(&before, "finished");
    uint32_t creates = pack_read_array(&created), stops = pack_read_array(&stopped);
    out->is_there = true;
    out->is_finished = pack_read_bool(&finished);
    if (creates > OWN_ACTIONS_MAX || stops > OWN_ACTIONS_MAX) {
        return false;
    }
    for (out->created_count = 0; out->created_count < creates; out->created_count++) {
        (void)pack_read_array(&created);
        out->created[out->created_count].trial = (uint32_t)pack_read_u64(&created);
        out->created[out->created_count].values = own_values_read(created);
        pack_skip(&created);
    }
    for (out->stopped_count = 0; out->stopped_count < stops; out->stopped_count++) {
        out->stopped[out->stopped_count] = (uint32_t)pack_read_u64(&stopped);
    }
    return !created.failed && !stopped.failed && !finished.failed;
}

static bool read_how(const struct pack_reader *map, uint64_t *out)
{
    static const char *const words[] = {"completed", "failed", "stopped"};
    struct pack_reader how = pack_find(map, "how");
    size_t bytes;
    const char *word = pack_read_text(&how, &bytes);
    for (uint64_t i = 0; i < 3; i++) {
        if (!how.failed && pack_text_is(word, bytes, words[i])) {
            *out = i;
            return true;
        }
    }
    return false;
}

bool own_event_read(const uint8_t *bytes, size_t count, struct own_event *out, uint64_t *number, bool *is_replay)
{
    static const char *const kinds[] = {
        [OWN_START] = "start", [OWN_REPORT] = "report", [OWN_END] = "end", [OWN_MORE] = "more", [OWN_OTHER] = "other"};
    struct pack_reader map, value;
    size_t word_bytes;
    uint32_t kind = 0;
    *out = (struct own_event){.kind = OWN_START};
    pack_reader_init(&map, bytes, count);
    value = pack_find(&map, "kind");
    const char *word = pack_read_text(&value, &word_bytes);
    while (kind <= OWN_OTHER && !(!value.failed && pack_text_is(word, word_bytes, kinds[kind]))) {
        kind++;
    }
    out->kind = (enum own_event_kind)kind;
    value = pack_find(&map, "event");
    *number = pack_read_u64(&value);
    bool is_good = kind <= OWN_OTHER && !value.failed && read_before(pack_find(&map, "before"), &out->before);
    value = pack_find(&map, "replay");
    *is_replay = pack_read_bool(&value);
    is_good &= !value.failed;
    if (!is_good || (out->kind != OWN_REPORT && out->kind != OWN_END)) {
        return is_good;
    }
    value = pack_find(&map, "trial");
    out->trial = (uint32_t)pack_read_u64(&value);
    is_good = !value.failed;
    value = pack_find(&map, "step");
    out->step = pack_read_u64(&value);
    is_good &= !value.failed;
    value = pack_find(&map, "metric");
    out->metric = pack_read_double(&value);
    is_good &= !value.failed;
    value = pack_find(&map, "length");
    out->length = out->kind == OWN_REPORT ? pack_read_u64(&value) : 0;
    is_good &= out->kind == OWN_END ? read_how(&map, &out->length) : !value.failed;
    out->values = own_values_read(pack_find(&map, "values"));
    return is_good;
}

static bool are_same_values(const struct own_values *a, const struct own_values *b)
{
    return a->count == b->count && bits_of(a->rate) == bits_of(b->rate) && bits_of(a->hidden) == bits_of(b->hidden);
}

static bool is_same_before(const struct own_before *a, const struct own_before *b)
{
    bool is_same = a->is_there == b->is_there && a->is_finished == b->is_finished && a->created_count == b->created_count &&
                   a->stopped_count == b->stopped_count;
    for (uint32_t i = 0; is_same && i < a->created_count; i++) {
        is_same =
            a->created[i].trial == b->created[i].trial && are_same_values(&a->created[i].values, &b->created[i].values);
    }
    for (uint32_t i = 0; is_same && i < a->stopped_count; i++) {
        is_same = a->stopped[i] == b->stopped[i];
    }
    return is_same;
}

bool own_event_is_same(const struct own_event *a, const struct own_event *b)
{
    return a->kind == b->kind && is_same_before(&a->before, &b->before) && a->trial == b->trial && a->step == b->step &&
           a->length == b->length && bits_of(a->metric) == bits_of(b->metric) && are_same_values(&a->values, &b->values);
}

static void pack_values(const struct own_action *action, struct pack_writer *writer)
{
    pack_map(writer, (uint32_t)action->has_rate + (uint32_t)action->has_hidden);
    if (action->has_rate) {
        pack_text(writer, "learning_rate");
        pack_double(writer, action->rate);
    }
    if (action->has_hidden) {
        pack_text(writer, "hidden");
        pack_u64(writer, (uint64_t)action->hidden);
    }
}

void own_answer_pack(const struct own_answer *answer, struct pack_writer *writer)
{
    static const char *const words[] = {[OWN_CREATE] = "create", [OWN_STOP] = "stop", [OWN_FINISH] = "finish"};
    pack_array(writer, answer->count);
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct own_action *action = &answer->actions[i];
        pack_array(writer, action->kind == OWN_FINISH ? 1 : 2);
        pack_text(writer, words[action->kind]);
        if (action->kind == OWN_CREATE) {
            pack_values(action, writer);
        } else if (action->kind == OWN_STOP) {
            pack_u64(writer, action->trial);
        }
    }
}
