/* All-reduce of MPI.
 *
 * usage: mpirun -n RANKS ... bench_mpi SIZES BLOCKS (tools/bench/allreduce runs it) */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/collectives/bench.h"

static void measure(int rank, int size, size_t bytes, int blocks)
{
    int count = (int)(bytes / sizeof(float));
    float *in = malloc(bytes), *out = calloc(1, bytes);
    if (in == NULL || out == NULL) {
        bench_die("no memory");
    }
    bench_fill(in, (size_t)count, (uint32_t)rank);
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (!bench_sum_holds(out, (size_t)count, (uint32_t)size)) {
        bench_die("MPI sums wrongly");
    }
    memset(in, 0, bytes);
    uint32_t calls = 2;
    for (int b = -1; b < blocks; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = bench_seconds();
        for (uint32_t i = 0; i < calls; i++) {
            MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
        double own = (bench_seconds() - start) / calls, worst;
        MPI_Allreduce(&own, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (b < 0) {
            calls = bench_calls(worst);
        } else if (rank == 0) {
            (void)printf("%zu %.3f\n", bytes, worst * 1e6);
        }
    }
    free(in);
    free(out);
}

int main(int argument_count, char **arguments)
{
    MPI_Init(&argument_count, &arguments);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argument_count != 3) {
        bench_die("usage: bench_mpi SIZES BLOCKS");
    }
    bench_pin((uint32_t)rank);
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(arguments[1], sizes);
    for (size_t s = 0; s < kinds; s++) {
        measure(rank, size, sizes[s], atoi(arguments[2]));
    }
    MPI_Finalize();
    return 0;
}
