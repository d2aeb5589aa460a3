/* All-reduce of MPI; mpirun chooses the transport.
 *
 * usage: mpirun -n RANKS ... bench_mpi SIZES BLOCKS pinned|free (tools/bench/allreduce and allreduce_net run it) */

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/collectives/bench.h"

static void all_reduce(void *context, float *in, float *out, size_t count)
{
    (void)context;
    MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double worst_of(void *context, double own)
{
    (void)context;
    double worst;
    MPI_Allreduce(&own, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

int main(int argument_count, char **arguments)
{
    MPI_Init(&argument_count, &arguments);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argument_count != 4) {
        bench_die("usage: bench_mpi SIZES BLOCKS pinned|free");
    }
    if (strcmp(arguments[3], "pinned") == 0) {
        bench_pin((uint32_t)rank);
    }
    const struct bench bench = {.rank = (uint32_t)rank, .size = (uint32_t)size, .all_reduce = all_reduce, .worst = worst_of};
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(arguments[1], sizes);
    for (size_t s = 0; s < kinds; s++) {
        size_t count = sizes[s] / sizeof(float);
        float *in = bench_floats(count), *out = bench_floats(count);
        bench_measure(&bench, in, out, count, sizes[s], atoi(arguments[2]));
        free(in);
        free(out);
    }
    MPI_Finalize();
    return 0;
}
