#ifndef TRAIN_GROUP_REDUCE_CPU_H
#define TRAIN_GROUP_REDUCE_CPU_H
/* What this processor can run. A shell: it asks the processor. */

#include <stdbool.h>

#include "train/plan/reduce.h"

bool reduce_cpu_runs(enum reduce_variant variant);

/* The fastest of them. */
enum reduce_variant reduce_cpu_best(void);

#endif
