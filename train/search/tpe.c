#include "train/search/tpe.h"

#include <math.h> /* isnan and NAN only, no function is called */
#include <string.h>

#include "base/err.h"
#include "base/number.h"
#include "train/search/parzen.h"
#include "train/search/space.h"

/* What a draw works with; all arrays are in the caller's room. */
struct tpe {
    const struct parameters *parameters;
    const struct tpe_observation *observations;
    uint32_t observation_count;
    bool smaller_is_better;
    uint32_t *order;        /* of the trials that are over, the best first */
    bool *is_good;          /* by observation */
    const double **points;  /* of the observations that an estimator is made of */
    double *numbers;        /* for the estimators */
};

#define BAD_NUMBERS 2560 /* values of all bad trials that a density is made of */
#define BAD_LEAST 50
#define BAD_MOST 1000

/* Kernels of both estimators, with two priors. With c dimensions the bad one has (BAD_NUMBERS / c + 1) (1 + 3 c) numbers, or those of
 * BAD_LEAST trials, or of all there are. */
static size_t numbers_needed(uint32_t parameter_count, uint32_t observation_count)
{
    size_t all = parzen_room(parameter_count, observation_count);
    size_t most = parzen_room(parameter_count, BAD_LEAST) + (size_t)4 * BAD_NUMBERS;
    return (all < most ? all : most) + parzen_room(parameter_count, TPE_GOOD_MAX);
}

size_t tpe_room_bytes(uint32_t parameter_count, uint32_t observation_count)
{
    size_t of_each = sizeof(uint32_t) + sizeof(bool) + sizeof(const double *);
    return numbers_needed(parameter_count, observation_count) * sizeof(double) + observation_count * of_each + 3 * sizeof(double);
}

uint32_t tpe_good_count(uint32_t count)
{
    uint32_t tenth = count / 10 + (count % 10 > 0 ? 1 : 0);
    return tenth < TPE_GOOD_MAX ? tenth : TPE_GOOD_MAX;
}

uint32_t tpe_bad_max(uint32_t dimensions)
{
    uint32_t most = BAD_NUMBERS / (dimensions > 0 ? dimensions : 1);
    return most < BAD_LEAST ? BAD_LEAST : most > BAD_MOST ? BAD_MOST : most;
}

/* ---- which trials are good ---- */

/* Below 0: `a` is the better metric; NaN is the worst. */
static int compare_metrics(const struct tpe *tpe, double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return (isnan(a) ? 1 : 0) - (isnan(b) ? 1 : 0);
    }
    int order = (a > b) - (a < b);
    return tpe->smaller_is_better ? order : -order;
}

/* Whether observation `left` stands before `right`; no two are equal. */
static bool is_better(const struct tpe *tpe, uint32_t left, uint32_t right)
{
    const struct tpe_observation *a = &tpe->observations[left], *b = &tpe->observations[right];
    int order = (int)a->state - (int)b->state;
    if (order == 0 && a->state == TPE_STOPPED) {
        order = (a->has_metric ? 0 : 1) - (b->has_metric ? 0 : 1);
        order = order == 0 && a->has_metric ? (a->step < b->step) - (a->step > b->step) : order;
    }
    if (order == 0 && (a->state == TPE_COMPLETED || a->has_metric)) {
        order = compare_metrics(tpe, a->metric, b->metric);
    }
    return order < 0 || (order == 0 && left < right);
}

static void sift(const struct tpe *tpe, uint32_t root, uint32_t count)
{
    uint32_t *order = tpe->order;
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        child += child + 1 < count && is_better(tpe, order[child], order[child + 1]);
        if (!is_better(tpe, order[root], order[child])) {
            return;
        }
        uint32_t swapped = order[root];
        order[root] = order[child];
        order[child] = swapped;
    }
}

/* Marks the good ones. Returns how many trials are over. */
static uint32_t mark_good(const struct tpe *tpe)
{
    uint32_t over = 0;
    for (uint32_t i = 0; i < tpe->observation_count; i++) {
        tpe->is_good[i] = false;
        if (tpe->observations[i].state != TPE_RUNNING) {
            tpe->order[over++] = i;
        }
    }
    for (uint32_t i = over / 2; i-- > 0;) {
        sift(tpe, i, over);
    }
    for (uint32_t last = over; last-- > 1;) { /* a heap sort, which needs no memory */
        uint32_t swapped = tpe->order[0];
        tpe->order[0] = tpe->order[last];
        tpe->order[last] = swapped;
        sift(tpe, 0, last);
    }
    for (uint32_t i = 0; i < tpe_good_count(over); i++) {
        tpe->is_good[tpe->order[i]] = true;
    }
    return over;
}

/* ---- a draw ---- */

/* Makes the estimator of the good or the bad observations that have all of the parameters. Returns the numbers used. */
static size_t make_estimator(const struct tpe *tpe, const struct parzen_dimension *dimensions, const uint32_t *columns, uint32_t count,
                             bool of_good, double *numbers, struct parzen *out)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < tpe->observation_count; i++) {
        const double *point = tpe->observations[i].point;
        bool has_all = tpe->is_good[i] == of_good;
        for (uint32_t d = 0; d < count && has_all; d++) {
            has_all = !isnan(point[columns[d]]);
        }
        if (has_all) {
            tpe->points[used++] = point;
        }
    }
    uint32_t most = tpe_bad_max(count), left_out = used > most ? used - most : 0;
    used -= left_out;
    parzen_make(out, dimensions, columns, count, tpe->points + left_out, used, numbers);
    return parzen_room(count, used);
}

/* Draws the parameters of `columns` together. */
static void draw_together(const struct tpe *tpe, const uint32_t *columns, uint32_t count, struct random *random, double *point)
{
    struct parzen_dimension dimensions[SEARCH_PARAMETERS_MAX];
    double candidate[SEARCH_PARAMETERS_MAX], best[SEARCH_PARAMETERS_MAX], best_ratio = 0;
    struct parzen good, bad;
    for (uint32_t d = 0; d < count; d++) {
        dimensions[d] = parzen_dimension_of(&tpe->parameters->list[columns[d]]);
    }
    size_t used = make_estimator(tpe, dimensions, columns, count, true, tpe->numbers, &good);
    (void)make_estimator(tpe, dimensions, columns, count, false, tpe->numbers + used, &bad);
    for (uint32_t i = 0; i < TPE_CANDIDATES; i++) {
        parzen_draw(&good, random, candidate);
        for (uint32_t d = 0; d < count; d++) { /* as the trial will have it */
            bool is_rounded = dimensions[d].choices == 0 && tpe->parameters->list[columns[d]].kind != SEARCH_INT;
            candidate[d] = is_rounded ? space_rounded(&tpe->parameters->list[columns[d]], candidate[d]) : candidate[d];
        }
        double ratio = parzen_log_density(&good, candidate) - parzen_log_density(&bad, candidate);
        if (i == 0 || ratio > best_ratio) {
            best_ratio = ratio;
            memcpy(best, candidate, count * sizeof *best);
        }
    }
    for (uint32_t d = 0; d < count; d++) {
        point[columns[d]] = best[d];
    }
}

/* The first conditional parameter, in the form that space_is_active reads. */
static void settle(const struct search_parameter *parameter, double value, struct drawn *drawn)
{
    drawn->choice = parameter->kind == SEARCH_CATEGORICAL ? (uint64_t)value : 0;
    drawn->integer = parameter->kind == SEARCH_INT ? (int64_t)value : 0;
    drawn->number = value;
}

static void draw_from_results(const struct tpe *tpe, uint64_t seed, uint32_t index, double *point)
{
    const struct parameters *parameters = tpe->parameters;
    struct drawn drawn[SEARCH_PARAMETERS_MAX];
    uint32_t together[SEARCH_PARAMETERS_MAX], count = 0;
    struct random random;
    for (uint32_t i = 0; i < parameters->count; i++) {
        bool is_always = parameters->list[i].kind != SEARCH_CONST && parameters->list[i].when_bytes == 0;
        together[count] = i;
        count += is_always;
    }
    space_random_by_name(&random, seed, index, ""); /* no parameter has this name */
    if (count > 0) {
        draw_together(tpe, together, count, &random, point);
    }
    memset(drawn, 0, sizeof drawn);
    for (uint32_t i = 0; i < parameters->count; i++) {
        const struct search_parameter *parameter = &parameters->list[i];
        drawn[i].is_active = space_is_active(parameters, i, drawn);
        if (parameter->kind == SEARCH_CONST) {
            point[i] = drawn[i].is_active ? 0 : NAN;
        } else if (parameter->when_bytes > 0 && drawn[i].is_active) {
            space_random_by_name(&random, seed, index, parameter->name);
            draw_together(tpe, &i, 1, &random, point);
        } else if (parameter->when_bytes > 0) {
            point[i] = NAN;
        }
        if (drawn[i].is_active) {
            settle(parameter, point[i], &drawn[i]);
        }
    }
}

static bool is_inside(const struct parameters *parameters, const double *point)
{
    for (uint32_t p = 0; p < parameters->count; p++) {
        const struct search_parameter *parameter = &parameters->list[p];
        bool is_choice = parameter->kind == SEARCH_CATEGORICAL;
        if (parameter->kind == SEARCH_CONST || isnan(point[p])) {
            continue;
        }
        if (is_choice ? !(point[p] >= 0 && point[p] < space_choice_count(parameter) && (double)(uint32_t)point[p] == point[p])
                      : !search_value_fits(parameter, point[p])) {
            return false;
        }
    }
    return true;
}

/* Whether the observations are in order and inside of the space. */
static bool are_good(const struct parameters *parameters, const struct tpe_observation *observations, uint32_t count, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((i > 0 && observations[i].trial <= observations[i - 1].trial) || observations[i].trial == index ||
            !is_inside(parameters, observations[i].point)) {
            return false;
        }
    }
    return true;
}

uint32_t tpe_keep_good(const struct search_space *space, struct tpe_observation *observations, uint32_t count, uint32_t index)
{
    struct parameters parameters;
    size_t values_max;
    uint32_t kept = 0;
    bool is_read = space_read(space, &parameters, &values_max) == 0;
    for (uint32_t i = 0; i < count && is_read; i++) {
        if (observations[i].trial != index && is_inside(&parameters, observations[i].point)) {
            uint32_t at = kept++;
            const struct tpe_observation moved = observations[i];
            for (; at > 0 && observations[at - 1].trial > moved.trial; at--) { /* nearly in order, as they come from a table of trials */
                observations[at] = observations[at - 1];
            }
            observations[at] = moved;
            if (at > 0 && observations[at - 1].trial == moved.trial) { /* the later one goes */
                memmove(observations + at, observations + at + 1, (--kept - at) * sizeof *observations);
            }
        }
    }
    return kept;
}

int tpe_draw(const struct search_space *space, const struct tpe_observation *observations, uint32_t observation_count,
             bool smaller_is_better, uint32_t startup, uint64_t seed, uint32_t index, void *room, size_t room_bytes, double *point)
{
    struct parameters parameters;
    size_t values_max;
    uint32_t trials;
    if (search_trial_count(space, &trials) != 0 || space_read(space, &parameters, &values_max) != 0 ||
        !are_good(&parameters, observations, observation_count, index)) {
        return ERR_MALFORMED;
    }
    if (index >= SEARCH_TRIALS_MAX) {
        return ERR_NOT_FOUND;
    }
    if (room_bytes < tpe_room_bytes(parameters.count, observation_count)) {
        return ERR_FULL;
    }
    size_t numbers = numbers_needed(parameters.count, observation_count);
    struct tpe tpe = {.parameters = &parameters,
                      .observations = observations,
                      .observation_count = observation_count,
                      .smaller_is_better = smaller_is_better,
                      .numbers = room};
    tpe.points = (const double **)(tpe.numbers + numbers); /* from the widest to the narrowest type, so that all are aligned */
    tpe.order = (uint32_t *)(tpe.points + observation_count);
    tpe.is_good = (bool *)(tpe.order + observation_count);
    struct pack_reader own;
    if (mark_good(&tpe) < startup || index < space_initial_count(&parameters, &own)) {
        return search_trial_point(space, seed, index, point);
    }
    draw_from_results(&tpe, seed, index, point);
    return 0;
}
