/* The roll call of a new group: the first exchange, in which each rank tells its registered state and its last calls in the
 * former group. If a group broke because its ranks called different collectives (arrays of different lengths, a collective more
 * or less), some ranks saw the difference and the rest only lost connections. The roll call tells all ranks, so that they end
 * with the same sentence instead of breaking one group after another. */

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/shoal/link.h"

#define CALL_WORDS 6
#define BALANCES ((uint64_t)1 << 32)
#define WORDS (6 + CALL_WORDS * CLIENT_CALLS_KEPT)
#define ROLL_BYTES (WORDS * sizeof(uint64_t))

/* Travels as big-endian words of 8 bytes. */
struct roll {
    uint64_t part_count, state_bytes, parts_hash;
    uint64_t rank, generation; /* in the group of the calls; generation 0: no group */
    uint64_t own_rank;         /* in the new group, plus BALANCES if the rank's parts may be unequal there */
    struct client_call calls[CLIENT_CALLS_KEPT];
};

_Static_assert(sizeof(struct roll) == WORDS * sizeof(uint64_t), "a roll is its words");

struct client_call client_call_note(struct shoal *s, enum client_call_kind kind, enum element_type type, uint64_t count)
{
    if (s->workers == NULL && s->state != CLIENT_ALONE) {
        return (struct client_call){0}; /* in no group */
    }
    if (s->calls_generation != s->generation || s->calls_rank != s->rank) {
        memset(s->calls, 0, sizeof s->calls);
        s->call_count = 0;
        s->calls_generation = s->generation;
        s->calls_rank = s->rank;
    }
    struct client_call call = {
        .number = s->call_count + 1,
        .step = s->elastic.applied + (kind == CLIENT_CALL_COMMIT ? 0 : 1),
        .index = ++s->call_of_step,
        .kind = kind,
        .type = type,
        .count = count,
    };
    s->calls[s->call_count++ % CLIENT_CALLS_KEPT] = call;
    return call;
}

int client_gather(struct shoal *s, void *all, size_t bytes)
{
    if (s->workers == NULL || s->size == 1) {
        return 0;
    }
    return client_collective_result(s, group_all_gather(s->workers, ELEMENT_BYTES, all, bytes * s->size));
}

void client_gather_heard(struct shoal *s)
{
    char sentence[SHOAL_ERROR_BYTES];
    memcpy(sentence, s->error, sizeof sentence);
    if (s->workers != NULL) {
        (void)client_collective_result(s, group_barrier(s->workers));
    }
    memcpy(s->error, sentence, sizeof sentence);
}

static struct roll own_roll(const struct shoal *s)
{
    const struct client_elastic *e = &s->elastic;
    struct roll roll = {
        .part_count = e->part_count,
        .rank = s->calls_rank,
        .generation = s->calls_generation,
        .own_rank = s->rank | (s->balance.is_wanted ? BALANCES : 0),
    };
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, 16);
    for (size_t i = 0; i < e->part_count; i++) {
        uint8_t count[8];
        bytes_put_u64(count, e->parts[i].count);
        (void)crypto_generichash_update(&state, count, sizeof count);
        roll.state_bytes += e->parts[i].count;
    }
    if (e->pack != NULL) {
        (void)crypto_generichash_update(&state, (const uint8_t *)"packed", 6);
    }
    uint8_t hash[16];
    (void)crypto_generichash_final(&state, hash, sizeof hash);
    roll.parts_hash = bytes_get_u64(hash);
    memcpy(roll.calls, s->calls, sizeof roll.calls);
    return roll;
}

static void to_words(const struct roll *roll, uint8_t *out)
{
    uint64_t words[WORDS];
    memcpy(words, roll, sizeof words);
    for (size_t i = 0; i < WORDS; i++) {
        bytes_put_u64(out + 8 * i, words[i]);
    }
}

static struct roll from_words(const uint8_t *bytes)
{
    uint64_t words[WORDS];
    struct roll roll;
    for (size_t i = 0; i < WORDS; i++) {
        words[i] = bytes_get_u64(bytes + 8 * i);
    }
    memcpy(&roll, words, sizeof roll);
    return roll;
}

/* ---- differences between two ranks ---- */

static void describe(const struct client_call *call, char *out, size_t size)
{
    static const char *const names[] = {
        "?", "all-reduce", "broadcast", "barrier", "shoal_step_commit", "reduce-scatter", "all-gather"};
    const char *name = call->kind <= CLIENT_CALL_ALL_GATHER ? names[call->kind] : names[0];
    if (call->kind != CLIENT_CALL_BARRIER && call->kind != CLIENT_CALL_COMMIT) {
        (void)snprintf(out, size, "%s of %llu %s", name, (unsigned long long)call->count,
                       element_type_name((enum element_type)call->type));
    } else {
        (void)snprintf(out, size, "%s", name);
    }
}

static int compare_state(struct shoal *s, const struct roll *one, const struct roll *other)
{
    if (one->part_count == other->part_count && one->state_bytes == other->state_bytes &&
        one->parts_hash == other->parts_hash) {
        return 0;
    }
    bool same_sum = one->part_count == other->part_count && one->state_bytes == other->state_bytes;
    bool is_packed = same_sum && one->part_count == 0; /* the parts are the same, none; the ranks differ in shoal_on_state */
    if (is_packed) {
        return client_fail(s, ERR_MALFORMED,
                           "of rank %u and rank %u only one has called shoal_on_state: all ranks call the function, or none",
                           (uint32_t)one->own_rank, (uint32_t)other->own_rank);
    }
    return client_fail(s, ERR_MALFORMED,
                       "rank %u has registered %llu bytes of state in %llu parts, rank %u %llu bytes in %llu%s: all ranks "
                       "register the same sizes in the same order",
                       (uint32_t)one->own_rank, (unsigned long long)one->state_bytes,
                       (unsigned long long)one->part_count, (uint32_t)other->own_rank,
                       (unsigned long long)other->state_bytes, (unsigned long long)other->part_count,
                       same_sum ? " of other sizes" : "");
}

static int compare_calls(struct shoal *s, const struct roll *one, const struct roll *other)
{
    if (one->generation != other->generation || one->generation == 0) {
        return 0;
    }
    for (size_t i = 0; i < CLIENT_CALLS_KEPT; i++) {
        const struct client_call *a = &one->calls[i], *b = &other->calls[i];
        if (a->number != b->number || (a->kind == b->kind && a->type == b->type && a->count == b->count)) {
            continue;
        }
        char first[64], second[64];
        describe(a, first, sizeof first);
        describe(b, second, sizeof second);
        return client_fail(s, ERR_MALFORMED,
                           "in step %llu, collective %llu, rank %llu called %s and rank %llu %s: all ranks make the same "
                           "collectives with the same counts",
                           (unsigned long long)a->step, (unsigned long long)a->index, (unsigned long long)one->rank, first,
                           (unsigned long long)other->rank, second);
    }
    return 0;
}

/* Compares the registered state with that of the lowest rank that has it in memory, or of rank 0 in a group that starts. If all
 * ranks with the state agree, a joining rank that differs ends alone. */
static int judge_state(struct shoal *s, const uint8_t *all, const bool has_state[PLAN_RANKS_MAX])
{
    uint32_t right = 0, wrong = s->size;
    while (right < s->size && !has_state[right]) {
        right++;
    }
    bool is_fresh = right == s->size;
    struct roll first = from_words(all + ROLL_BYTES * (is_fresh ? 0 : right));
    for (uint32_t rank = 0; rank < s->size; rank++) {
        struct roll other = from_words(all + ROLL_BYTES * rank);
        int error = compare_state(s, &first, &other);
        if (error != 0 && (is_fresh || has_state[rank] || rank == s->rank)) {
            return error;
        }
        wrong = error != 0 ? rank : wrong;
    }
    return wrong == s->size ? 0 : SHOAL_AGAIN;
}

static int judge_calls(struct shoal *s, const uint8_t *all)
{
    for (uint32_t one = 0; one < s->size; one++) {
        struct roll first = from_words(all + ROLL_BYTES * one);
        for (uint32_t rank = one + 1; rank < s->size; rank++) {
            struct roll other = from_words(all + ROLL_BYTES * rank);
            int error = compare_calls(s, &first, &other);
            if (error != 0) {
                return error;
            }
        }
    }
    return 0;
}

static bool all_balance(const struct shoal *s, const uint8_t *all)
{
    bool do_all = true;
    for (uint32_t rank = 0; rank < s->size; rank++) {
        do_all = do_all && (from_words(all + ROLL_BYTES * rank).own_rank & BALANCES) != 0;
    }
    return do_all;
}

int client_roll_call(struct shoal *s, const bool has_state[PLAN_RANKS_MAX])
{
    s->balance.is_on = s->balance.is_wanted;
    if (s->size == 1) {
        return 0;
    }
    uint8_t *all = calloc(s->size, ROLL_BYTES);
    if (all == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left to enter a group");
    }
    struct roll own = own_roll(s);
    to_words(&own, all + ROLL_BYTES * s->rank);
    int error = client_gather(s, all, ROLL_BYTES);
    if (error == 0) {
        s->balance.is_on = all_balance(s, all);
        error = judge_calls(s, all);
        error = error == 0 ? judge_state(s, all, has_state) : error;
        if (error != 0) {
            client_gather_heard(s);
        }
        error = error == SHOAL_AGAIN ? client_elastic_failed(s, ERR_CLOSED) : error;
    }
    free(all);
    return error;
}
