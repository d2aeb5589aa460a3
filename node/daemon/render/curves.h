#ifndef NODE_DAEMON_RENDER_CURVES_H
#define NODE_DAEMON_RENDER_CURVES_H
/* What this node has seen of the trials since its daemon started: a few points of searcher.metric, the best value, and the steps
 * per second. Records keep the latest values only, and series keep all points; a curve is a bounded picture in between, so that
 * a document about 1,000 trials asks no other node. Two nodes may have seen different points. No clock is read. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/core.h"
#include "node/core/view/view.h"
#include "base/pack.h"

#define CURVES_MAX 4096      /* trials of all experiments together: about 3 MiB */
#define CURVE_POINTS_MAX 24  /* of one trial */
#define CURVE_SAMPLES_MAX 8  /* times at which the step of the running attempt rose */

/* The curve of one trial. All zero: nothing was seen. */
struct curve {
    attempt_id attempt; /* the attempt that was seen last; number 0: none */
    uint64_t start_step;
    bool runs;
    uint32_t count;
    struct curve_point {
        uint64_t step;
        double value;
    } points[CURVE_POINTS_MAX]; /* by step, ascending; the last one is the newest value */
    uint32_t every, since;      /* every so many new values leave a point; so many came since the last point that stays */
    bool has_best;
    struct curve_point best;
    uint32_t sample_count;
    struct {
        uint64_t ms, step;
    } samples[CURVE_SAMPLES_MAX];
    uint64_t now_ms; /* when the trial was last looked at */
};

/* Adds a value that is new. When the points are full, every second one goes, so the points stay evenly spread. */
void curve_add(struct curve *curve, uint64_t step, double value, bool smaller_is_better);

/* Forgets values beyond the step from which a later attempt went on. */
void curve_take_back(struct curve *curve, uint64_t step, bool smaller_is_better);

/* Notes that the running attempt was at this step at this time (ms of a monotonic clock). */
void curve_note_step(struct curve *curve, uint64_t now_ms, uint64_t step);

/* Steps per second over the last samples; 0: not known. A program that stands still for longer than 15 s gets slower. */
double curve_rate(const struct curve *curve);

/* ---- of all experiments ------------------------------------------------------------------------------------------- */

struct curves;

/* NULL: no memory is left. The caller frees the curves with curves_free, which takes NULL, too. */
struct curves *curves_new(void);
void curves_free(struct curves *curves);

/* Looks at all trials of the experiment. Without memory, or beyond CURVES_MAX, a trial has no curve. */
void curves_note(struct curves *curves, const struct node_core *core, const struct view_experiment *experiment, uint64_t now_ms);

/* Looks at the live experiments, and forgets those that are deleted. */
void curves_tick(struct curves *curves, const struct node_core *core, uint64_t now_ms);

/* The curve of a trial, or NULL. */
const struct curve *curves_find(const struct curves *curves, experiment_id experiment, uint32_t trial);

/* Writes `curves`: an array of maps `index best best_step rate steps values`, of the trials with a curve; pairs and parts as in
 * render.h. */
#define RENDER_CURVES_PAIRS 1
bool render_curves(const struct curves *curves, const struct view_experiment *experiment, uint32_t *from, struct pack_writer *frame);

#endif
