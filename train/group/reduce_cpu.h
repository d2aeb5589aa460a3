#ifndef TRAIN_GROUP_REDUCE_CPU_H
#define TRAIN_GROUP_REDUCE_CPU_H
/* Which variants of train/plan/reduce.h this processor can run. A shell: it asks the processor. */

#include <stdbool.h>

#include "train/plan/reduce.h"

/* Whether this processor can run the variant. */
bool reduce_cpu_runs(enum reduce_variant variant);

/* The fastest variant that this processor can run. */
enum reduce_variant reduce_cpu_best(void);

#endif
