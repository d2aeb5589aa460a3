#include "train/trainer/plan_command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "train/plan/element.h"
#include "train/plan/plan.h"

#define BYTES_MAX (1ull << 60)

struct request {
    struct plan_options plan;
    enum element_type type;
    uint64_t bytes;
    bool bytes_given, json;
};

__attribute__((format(printf, 2, 3))) static int usage(FILE *errors, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("shoal-train plan: ", errors);
    (void)vfprintf(errors, format, arguments);
    (void)fputs("; see shoal-train --help\n", errors);
    va_end(arguments);
    return 2;
}

/* Reads "4096", "64K", "16M", "1G", in powers of 1024. */
static bool read_number(const char *text, uint64_t max, bool suffixes, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno != 0) {
        return false;
    }
    const char *suffix = *end != 0 ? strchr("KMG", *end) : NULL;
    unsigned shift = 0;
    if (suffixes && suffix != NULL) {
        shift = *suffix == 'K' ? 10 : *suffix == 'M' ? 20 : 30;
        end++;
    }
    if (*end != 0 || value > max >> shift) {
        return false;
    }
    *out = value << shift;
    return true;
}

/* Takes an option with its value. 0, or 2 with the sentence written. */
static int take(struct request *r, const char *name, const char *value, FILE *errors)
{
    uint64_t number;
    if (strcmp(name, "--ranks") == 0) {
        if (!read_number(value, PLAN_RANKS_MAX, false, &number) || number == 0) {
            return usage(errors, "--ranks is '%.40s'; it must be a number from 1 to %d", value, PLAN_RANKS_MAX);
        }
        r->plan.size = (uint32_t)number;
    } else if (strcmp(name, "--bytes") == 0) {
        if (!read_number(value, BYTES_MAX, true, &r->bytes)) {
            return usage(errors, "--bytes is '%.40s'; it must be a number of bytes, such as 65536, 64K or 16M", value);
        }
        r->bytes_given = true;
    } else if (strcmp(name, "--collective") == 0) {
        r->plan.kind = plan_kind_named(value);
        if (r->plan.kind == 0) {
            return usage(errors,
                         "--collective is '%.40s'; it must be all-reduce, broadcast, reduce-scatter, all-gather or barrier",
                         value);
        }
    } else if (strcmp(name, "--algorithm") == 0) {
        r->plan.algorithm = plan_algorithm_named(value);
        if (r->plan.algorithm == 0) {
            return usage(errors, "--algorithm is '%.40s'; it must be ring, doubling, halving, chain or tree", value);
        }
    } else if (strcmp(name, "--type") == 0) {
        r->type = element_type_named(value);
        if (r->type == 0) {
            return usage(errors, "--type is '%.40s'; it must be f32, f16, bf16 or bytes", value);
        }
    } else if (strcmp(name, "--root") == 0) {
        if (!read_number(value, PLAN_RANKS_MAX - 1, false, &number)) {
            return usage(errors, "--root is '%.40s'; it must be a rank", value);
        }
        r->plan.root = (uint32_t)number;
    } else {
        return usage(errors, "there is no option %.40s", name);
    }
    return 0;
}

static int read_options(struct request *r, int argc, char *const *argv, FILE *errors)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            r->json = true;
            continue;
        }
        char name[32];
        const char *equals = strchr(argv[i], '=');
        size_t length = equals != NULL ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        if (length < 2 || length >= sizeof name || strncmp(argv[i], "--", 2) != 0) {
            return usage(errors, "there is no option %.40s", argv[i]);
        }
        memcpy(name, argv[i], length);
        name[length] = 0;
        const char *value = equals != NULL ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (value == NULL) {
            return usage(errors, "%s needs a value", name);
        }
        int result = take(r, name, value, errors);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

static int check(struct request *r, FILE *errors)
{
    if (r->plan.size == 0) {
        return usage(errors, "name the number of ranks: --ranks N");
    }
    if (r->plan.kind == PLAN_BARRIER) {
        r->bytes = 0;
    } else if (!r->bytes_given) {
        return usage(errors, "name the size of the array: --bytes SIZE");
    }
    if (r->plan.root >= r->plan.size) {
        return usage(errors, "there is no rank %u in a group of %u", r->plan.root, r->plan.size);
    }
    if (r->plan.algorithm != 0 && !plan_exists(r->plan.kind, r->plan.algorithm)) {
        return usage(errors, "there is no %s by %s", plan_kind_name(r->plan.kind),
                     plan_algorithm_name(r->plan.algorithm));
    }
    uint32_t element_bytes = (uint32_t)element_type_bytes(r->type);
    if (r->bytes % element_bytes != 0) {
        return usage(errors, "%llu bytes are no whole number of %s, which have %u bytes", (unsigned long long)r->bytes,
                     element_type_name(r->type), element_bytes);
    }
    r->plan.count = r->bytes / element_bytes;
    r->plan.element_bytes = element_bytes;
    r->plan.piece_count = UINT64_MAX;
    return 0;
}

static void print_costs(const struct request *r, FILE *out)
{
    const char *between = "";
    for (enum plan_algorithm a = PLAN_RING; a < PLAN_ALGORITHMS; a++) {
        if (plan_exists(r->plan.kind, a)) {
            uint64_t ns = plan_cost_ns(r->plan.kind, a, r->plan.size, r->bytes);
            (void)fprintf(out, r->json ? "%s\"%s\": %llu.%03llu" : "%s%s %llu.%03llu us", between, plan_algorithm_name(a),
                          (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000));
            between = ", ";
        }
    }
}

static void print_transfer(const struct plan *plan, uint32_t step, bool json, bool first, FILE *out)
{
    const struct plan_step *s = &plan->steps[step];
    if (s->to == PLAN_NOBODY) {
        return;
    }
    if (json) {
        (void)fprintf(out, "%s\n  {\"step\": %u, \"from\": %u, \"to\": %u, \"offset\": %llu, \"count\": %llu, \"add\": %s}",
                      first ? "" : ",", step, plan->rank, s->to, (unsigned long long)s->send_offset,
                      (unsigned long long)s->send_count, s->sent_is_added ? "true" : "false");
        return;
    }
    char line[160];
    plan_line(plan, step, line, sizeof line);
    (void)fprintf(out, "%s\n", line);
}

int plan_command(int argc, char *const *argv, FILE *out, FILE *errors)
{
    struct request r = {.plan = {.kind = PLAN_ALL_REDUCE}, .type = ELEMENT_F32};
    int result = read_options(&r, argc, argv, errors);
    if (result == 0) {
        result = check(&r, errors);
    }
    if (result != 0) {
        return result;
    }
    struct plan *plans = calloc(r.plan.size, sizeof *plans);
    if (plans == NULL) {
        (void)fputs("shoal-train plan: no memory is left\n", errors);
        return 1;
    }
    uint64_t sent = 0, most = 0;
    for (uint32_t rank = 0; rank < r.plan.size; rank++) {
        r.plan.rank = rank;
        plan_init(&plans[rank], &r.plan);
        uint64_t own = 0;
        for (uint32_t step = 0; step < plans[rank].step_count; step++) {
            own += plans[rank].steps[step].send_count * r.plan.element_bytes;
        }
        sent += own;
        most = own > most ? own : most;
    }
    uint32_t steps = plans[0].step_count;
    const char *kind = plan_kind_name(r.plan.kind), *algorithm = plan_algorithm_name(plans[0].algorithm);
    if (r.json) {
        (void)fprintf(out,
                      "{\"collective\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %u, \"type\": \"%s\", \"count\": %llu, "
                      "\"steps\": %u, \"bytes_sent\": %llu, \"bytes_sent_most\": %llu, \"cost_us\": {",
                      kind, algorithm, r.plan.size, element_type_name(r.type), (unsigned long long)r.plan.count, steps,
                      (unsigned long long)sent, (unsigned long long)most);
        print_costs(&r, out);
        (void)fputs("}, \"transfers\": [", out);
    } else {
        (void)fprintf(out, "%s of %llu %s on %u ranks by %s: %u steps, %llu bytes sent, %llu by the busiest rank\ncost: ", kind,
                      (unsigned long long)r.plan.count, element_type_name(r.type), r.plan.size, algorithm, steps,
                      (unsigned long long)sent, (unsigned long long)most);
        print_costs(&r, out);
        (void)fputc('\n', out);
    }
    bool first = true;
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t rank = 0; rank < r.plan.size; rank++) {
            print_transfer(&plans[rank], step, r.json, first, out);
            first = first && plans[rank].steps[step].to == PLAN_NOBODY;
        }
    }
    if (r.json) {
        (void)fputs("\n]}\n", out);
    }
    free(plans);
    return 0;
}
