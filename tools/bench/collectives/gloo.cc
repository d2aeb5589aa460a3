// All-reduce of Gloo over TCP, the ring or the "bcube" of gloo::allreduce.
// usage: bench_gloo RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS ring|bcube (tools/bench/allreduce_net compiles and runs it)

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "tools/bench/collectives/bench.h"

using Options = gloo::AllreduceOptions;

static std::shared_ptr<gloo::Context> group;
static Options::Algorithm algorithm;

static void all_reduce(void *, float *in, float *out, size_t count)
{
    Options options(group);
    options.setAlgorithm(algorithm);
    options.setReduceFunction([](void *to, const void *a, const void *b, size_t n) { gloo::sum<float>(to, a, b, n); });
    options.setInput(in, count);
    options.setOutput(out, count);
    gloo::allreduce(options);
}

static double worst_of(void *, double own)
{
    double worst = 0;
    Options options(group);
    options.setReduceFunction([](void *to, const void *a, const void *b, size_t n) { gloo::max<double>(to, a, b, n); });
    options.setInput(&own, 1);
    options.setOutput(&worst, 1);
    gloo::allreduce(options);
    return worst;
}

int main(int count, char **words)
{
    if (count != 8) {
        bench_die("usage: bench_gloo RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS ring|bcube");
    }
    gloo::transport::tcp::attr attributes;
    attributes.hostname = words[4];
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto store = gloo::rendezvous::FileStore(words[3]);
    auto context = std::make_shared<gloo::rendezvous::Context>(atoi(words[1]), atoi(words[2]));
    context->connectFullMesh(store, device);
    group = context;
    algorithm = std::string(words[7]) == "ring" ? Options::Algorithm::RING : Options::Algorithm::BCUBE;
    struct bench bench = {};
    bench.rank = (uint32_t)context->rank;
    bench.size = (uint32_t)context->size;
    bench.all_reduce = all_reduce;
    bench.worst = worst_of;
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(words[5], sizes);
    for (size_t s = 0; s < kinds; s++) {
        size_t floats = sizes[s] / sizeof(float);
        float *in = bench_floats(floats), *out = bench_floats(floats);
        bench_measure(&bench, in, out, floats, sizes[s], atoi(words[6]));
        free(in);
        free(out);
    }
    (void)worst_of(nullptr, 0); // no rank leaves while another still measures
    return 0;
}
