/* shoald: reads options, runs the daemon. */

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "node/config/names.h"
#include "node/daemon/local/http.h"
#include "node/daemon/start.h"
#include "node/daemon/workers/inherited.h"
#include "node/daemon/workers/program_search.h"
#include "store/data_dir.h"

#define DESCRIPTORS 8192

static const char help[] =
    "usage: shoald [options]\n"
    "\n"
    "Runs this machine's node of a Shoal mesh until SIGTERM. Run `shoal init` or `shoal join TOKEN` once before.\n"
    "\n"
    "  --dir DIR             data directory (default: $SHOAL_DIR, else ~/.local/state/shoal/<machine-id>)\n"
    "  --listen HOST:PORT    control socket (default *:7410; port 0: any free one)\n"
    "  --ports LOW-HIGH      TCP ports for bulk data, the links of workers and MASTER_PORT (default " DAEMON_PORTS ")\n"
    "  --bulk HOST:PORT      bulk socket (default: the same host, a port of --ports)\n"
    "  --advertise HOST      host, without a port, at which other nodes reach this node; can be repeated, best first\n"
    "                        (default: the host of --listen, else the addresses of all network interfaces, followed as\n"
    "                        they change; shoal nodes shows which one is in use)\n"
    "  --slots auto|cpu:N|none\n"
    "                        slots of this machine (default auto: NVIDIA GPUs, else one for each CPU)\n"
    "  --peer HOST:PORT      address of another node, as a hint; can be repeated\n"
    "  --name NAME           name of this node (default: what init or join stored)\n"
    "  --label NAME[=VALUE]  what experiments may ask for by resources.constraints, such as room=12 or fast; can be repeated\n"
    "  --beacon PORT         UDP port of the LAN beacon (default 7411; 0: no beacon)\n"
    "  --http HOST:PORT|off  where the dashboard and the HTTP API are (default " HTTP_DEFAULT "; port 0: any free one); `shoal open`\n"
    "                        opens it. At an address of other machines, such as 0.0.0.0:7412, it speaks HTTPS only; they get\n"
    "                        the certificate by `shoal connect`\n"
    "  --http-host NAME      name by which browsers reach this machine, beside localhost and its own; can be repeated\n"
    "  --http-plain          plain HTTP for other machines too: everybody on the way can read and change what is said\n"
    "  --bandwidth BYTES     most bytes per second that bulk transfers send (default 0: no limit)\n"
    "  --worker-env NAME     variable of this daemon's environment that programs get too (see shoald(8) for those that always\n"
    "                        pass); also NAME=VALUE, or PREFIX* for all that begin so; can be repeated\n"
    "  --polite on|off       on: the machine's other processes get the processor and the disks before workers (default:\n"
    "                        $SHOAL_POLITE, else on)\n"
    "  --no-exec             members of the mesh run no commands beside the trials here (shoal exec), and reach no ports\n"
    "                        (shoal port-forward, shoal notebook)\n"
    "  --nvml PATH           NVIDIA management library (default: the loader searches for it)\n"
    "  --quiet               no log on standard error; `shoal events` shows it all the same\n"
    "  --version, --help\n";

static int usage(const char *problem, const char *which)
{
    fprintf(stderr, "shoald: %s%s; see shoald --help.\n", problem, which);
    return 2;
}

/* Prints the error; returns the exit status for the result. */
static int fail(int result, const char *error)
{
    fprintf(stderr, "shoald: %s\n", error);
    return result == ERR_USAGE ? 2 : 1;
}

static bool default_dir(char *out, size_t size)
{
    const char *given = getenv("SHOAL_DIR");
    if (given != NULL && given[0] != '\0') {
        (void)snprintf(out, size, "%s", given);
        return true;
    }
    char machine[64] = "machine";
    FILE *file = fopen("/etc/machine-id", "re");
    if (file != NULL) {
        if (fscanf(file, "%63[0-9a-f]", machine) != 1) {
            (void)snprintf(machine, sizeof machine, "machine");
        }
        (void)fclose(file);
    }
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == '\0') {
        return false;
    }
    (void)snprintf(out, size, "%s/.local/state/shoal/%s", home, machine);
    return true;
}

static bool read_switch(const char *text, bool *out)
{
    *out = strcmp(text, "on") == 0;
    return *out || strcmp(text, "off") == 0;
}

static bool read_number(const char *text, unsigned long long max, unsigned long long *out)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value > max) {
        return false;
    }
    *out = value;
    return true;
}

/* Resolves the host that our peers get: the result is numeric, since nodes ask no name server. ERR_USAGE;
 * ERR_NOT_FOUND: no name server knows the name now. */
static int read_advertised(const char *text, char out[CONTROL_HOST_BYTES], char error[256])
{
    char address[CONTROL_ADDRESS_BYTES + 8], resolved[CONTROL_ADDRESS_BYTES] = "";
    uint16_t port;
    bool is_wide = strchr(text, ':') != NULL; /* IPv6: no name has colons */
    int length = snprintf(address, sizeof address, is_wide ? "[%s]:1" : "%s:1", text);
    int result = (size_t)length < sizeof address ? control_address_resolve(address, resolved, error) : ERR_USAGE;
    if (result == ERR_NOT_FOUND && !is_wide) {
        return result;
    }
    if (result == 0 && control_address_split(resolved, out, &port)) {
        bool is_loopback = strncmp(out, "127.", 4) == 0 || strcmp(out, "::1") == 0;
        /* Debian's /etc/hosts maps the machine's own name to 127.0.1.1. */
        if (is_loopback && control_address_check(address) != 0 && strcmp(text, "localhost") != 0) {
            (void)snprintf(error, 256,
                           "--advertise %.63s: on this machine that name means %.63s, where no other machine reaches this one; "
                           "give the IP address that others use",
                           text, out);
            return ERR_USAGE;
        }
        return 0;
    }
    (void)snprintf(error, 256,
                   "--advertise wants an IP address, or a name that has one, without a port, by which other machines reach "
                   "this one, and not '%.60s'",
                   text);
    return ERR_USAGE;
}

/* Raises the limit of open descriptors. Each peer takes three: our connection to the peer, libzmq's mailbox for the
 * connection, and the peer's connection to us. So 1,024, the usual limit, is too low for a mesh of a thousand nodes,
 * and libzmq ends the process when descriptors run out. Where the hard limit is lower, the mesh has to stay small
 * enough. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS) {
        limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool label_is_good(const char *label)
{
    bool is_good = label[0] != '\0' && label[0] != '=' && strlen(label) < FACT_NODE_LABEL_BYTES;
    for (const char *at = label; *at != '\0' && is_good; at++) {
        is_good = (unsigned char)*at >= ' ' && *at != 127;
    }
    return is_good;
}

/* A name in --worker-env that this process does not have is perhaps misspelt, but no reason not to start. */
static void warn_of_absent(const struct daemon_options *options)
{
    for (size_t i = 0; i < options->worker_env_count; i++) {
        const char *rule = options->worker_env[i];
        if (strpbrk(rule, "=*") == NULL && getenv(rule) == NULL) {
            fprintf(stderr, "shoald: --worker-env %s: the environment of shoald has no such variable, so programs will not get it.\n",
                    rule);
        }
    }
}

int main(int argc, char **argv)
{
    enum { DIR_ = 256, LISTEN, PORTS, BULK, ADVERTISE, SLOTS, PEER, NAME, BEACON, HTTP, HTTP_HOST, HTTP_PLAIN, BANDWIDTH, POLITE, NO_EXEC, LABEL, NVML, WORKER_ENV, QUIET,
           VERSION, HELP };
    static const struct option names[] = {
        {"dir", required_argument, NULL, DIR_},           {"listen", required_argument, NULL, LISTEN},
        {"ports", required_argument, NULL, PORTS},
        {"bulk", required_argument, NULL, BULK},          {"advertise", required_argument, NULL, ADVERTISE},
        {"slots", required_argument, NULL, SLOTS},        {"peer", required_argument, NULL, PEER},
        {"name", required_argument, NULL, NAME},          {"beacon", required_argument, NULL, BEACON},
        {"http", required_argument, NULL, HTTP},          {"http-host", required_argument, NULL, HTTP_HOST},
        {"http-plain", no_argument, NULL, HTTP_PLAIN},
        {"bandwidth", required_argument, NULL, BANDWIDTH}, {"nvml", required_argument, NULL, NVML},
        {"polite", required_argument, NULL, POLITE},      {"label", required_argument, NULL, LABEL},
        {"worker-env", required_argument, NULL, WORKER_ENV}, {"no-exec", no_argument, NULL, NO_EXEC},
        {"quiet", no_argument, NULL, QUIET},              {"version", no_argument, NULL, VERSION},
        {"help", no_argument, NULL, HELP},                {NULL, 0, NULL, 0}};
    static struct daemon_options options = {
        .listen = "*:7410", .slots = "auto", .beacon_port = BEACON_PORT, .http = HTTP_DEFAULT};
    char dir[KEEP_PATH_BYTES] = "", error[256] = "";
    const char *given_dir = NULL;
    unsigned long long number;
    int option, result;
    opterr = 0;
    (void)ports_read(DAEMON_PORTS, &options.ports);
    const char *polite = getenv("SHOAL_POLITE");
    polite = polite != NULL && polite[0] != '\0' ? polite : "on";
    const char **worker_env = calloc((size_t)argc + 1, sizeof *worker_env); /* used until the process ends */
    if (worker_env == NULL) {
        return fail(ERR_MEMORY, "No memory is left.");
    }
    options.worker_env = worker_env;
    if (descriptors_fill_standard() != 0) {
        return 1; /* silent: stderr is closed */
    }
    if (argc >= 2 && strcmp(argv[1], PROGRAM_SEARCH_OPTION) == 0) {
        return program_search_main(argc, argv); /* not for users: the daemon runs itself so */
    }
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case DIR_:
            given_dir = optarg;
            break;
        case LISTEN:
            options.listen = optarg;
            break;
        case PORTS:
            if (ports_read(optarg, &options.ports) != 0) {
                return usage("--ports wants two ports from 1 to 65535, the lower first, such as " DAEMON_PORTS ", and not ",
                             optarg);
            }
            break;
        case BULK:
            options.bulk_listen = optarg;
            break;
        case ADVERTISE:
            if (options.advertise_count == FACT_ANNOUNCED_MAX) {
                return usage("too many --advertise; others read at most 16 addresses of a node: ", optarg);
            }
            result = read_advertised(optarg, options.advertise[options.advertise_count], error);
            if (result != 0) {
                return result == ERR_USAGE ? usage(error, "") : fail(result, error);
            }
            options.advertise_count++;
            break;
        case SLOTS:
            options.slots = optarg;
            break;
        case PEER:
            if (options.peer_hint_count == DAEMON_PEER_HINTS_MAX) {
                return usage("too many --peer, the rest is found by gossip: ", optarg);
            }
            result = control_address_resolve(optarg, options.peer_hints[options.peer_hint_count], error);
            if (result != 0) {
                return fail(result, error);
            }
            options.peer_hint_count++;
            break;
        case NAME:
            if (!names_node_is_good(optarg)) {
                (void)snprintf(error, sizeof error, "--name wants 1 to %d " NAMES_NODE_WORDS ", and not '%.80s'",
                               FACT_NAME_BYTES - 1, optarg);
                return usage(error, "");
            }
            options.name = optarg;
            break;
        case BEACON:
            if (!read_number(optarg, UINT16_MAX, &number)) {
                return usage("--beacon wants a port from 0 to 65535 and not ", optarg);
            }
            options.beacon_port = (uint16_t)number;
            break;
        case HTTP:
            result = http_check(optarg, error);
            if (result != 0) {
                return usage(error, "");
            }
            options.http = optarg;
            break;
        case HTTP_HOST:
            if (options.http_host_count == DAEMON_HTTP_HOSTS_MAX) {
                return usage("too many --http-host, 8 at most: ", optarg);
            }
            options.http_hosts[options.http_host_count++] = optarg;
            break;
        case HTTP_PLAIN:
            options.http_plain = true;
            break;
        case BANDWIDTH:
            if (!read_number(optarg, UINT64_MAX / 2, &number)) {
                return usage("--bandwidth wants bytes per second and not ", optarg);
            }
            options.bandwidth_bytes_s = number;
            break;
        case POLITE:
            polite = optarg;
            break;
        case NO_EXEC:
            options.no_exec = true;
            break;
        case LABEL:
            if (options.label_count == FACT_NODE_LABELS_MAX || !label_is_good(optarg)) {
                return usage("--label wants NAME or NAME=VALUE of 1 ... 63 bytes without control characters, 16 times at most, and not ", optarg);
            }
            (void)bytes_copy_text(options.labels[options.label_count++], FACT_NODE_LABEL_BYTES, optarg);
            break;
        case NVML:
            options.nvml_path = optarg;
            break;
        case WORKER_ENV:
            if (inherited_refusal(optarg, error) != NULL) {
                return usage(inherited_refusal(optarg, error), "");
            }
            worker_env[options.worker_env_count++] = optarg;
            break;
        case QUIET:
            options.quiet = true;
            break;
        case VERSION:
            printf("shoald %s\n", SHOAL_VERSION);
            return 0;
        case HELP:
            fputs(help, stdout);
            return 0;
        default:
            return usage("unknown option or missing value: ", argv[optind - 1]);
        }
    }
    if (optind < argc) {
        return usage("unexpected argument ", argv[optind]);
    }
    if (!read_switch(polite, &options.is_polite)) {
        return usage("--polite and $SHOAL_POLITE want on or off, and not ", polite);
    }
    char standard_dir[KEEP_PATH_BYTES];
    if (given_dir == NULL && !default_dir(standard_dir, sizeof standard_dir)) {
        return usage("no data directory: set --dir, $SHOAL_DIR or ", "$HOME");
    }
    result = data_dir_absolute(given_dir != NULL ? given_dir : standard_dir, dir, sizeof dir, error, sizeof error);
    if (result != 0) {
        return fail(result, error);
    }
    warn_of_absent(&options);
    options.dir = dir;
    allow_descriptors();
    (void)mallopt(M_ARENA_MAX, 2); /* many threads that allocate little: an arena for each would waste memory */
    result = daemon_serve(&options, error);
    return result == 0 ? 0 : fail(result, error);
}
