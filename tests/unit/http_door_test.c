/* The daemon's side of the HTTP door: where it may listen, how the process is started again, and that one that lies
 * harms nobody. This test program stands for shoal-http, too: as such it does what the first letter of its --listen
 * says. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "gossip/fingerprint.h"
#include "node/daemon/api/client.h"
#include "node/daemon/ground/jobs.h"
#include "node/daemon/local/http.h"
#include "node/daemon/peers/peers.h"

#define CONTROL_FD 3
#define FOR_OTHERS "10.0.0.5:7412"
#define DAY_MS 86400000
#define PEM_OF(letters) "-----BEGIN CERTIFICATE-----\n" letters "==\n-----END CERTIFICATE-----\n"
#define FIRST_PEM PEM_OF("YQ")
#define SECOND_PEM PEM_OF("Yg")

static uint64_t now_ms = 1000;

uint64_t __wrap_daemon_now_ms(void);
uint64_t __wrap_daemon_now_ms(void)
{
    return now_ms;
}

/* ---- shoal-http ---------------------------------------------------------------------------------------------------
 */

/* One packet with `count` descriptors. */
static void tell(const void *bytes, size_t byte_count, const int *fds, size_t count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(16 * sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {(void *)(uintptr_t)bytes, byte_count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    if (sendmsg(CONTROL_FD, &message, MSG_NOSIGNAL) < 0) {
        _exit(3);
    }
}

/* A certificate that ENDS, and one that LACKS a name if any is asked for, gives way to another one. */
static int certify(int argc)
{
    char text[512];
    size_t count = fread(text, 1, sizeof text - 1, stdin);
    text[count] = '\0';
    bool is_good = count > 0 && strstr(text, "ENDS") == NULL && (strstr(text, "LACKS") == NULL || argc <= 4);
    (void)fputs(is_good ? text : count > 0 ? SECOND_PEM : FIRST_PEM, stdout);
    return 0;
}

static int be_the_door(const char *listen)
{
    int ends[2], many[16];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        return 3;
    }
    for (size_t i = 0; i < 16; i++) {
        many[i] = ends[1];
    }
    switch (listen[0]) {
    case 'p': /* as it should */
        tell("p\x1c\xf4", 3, NULL, 0);
        tell("c", 1, &ends[1], 1);
        tell("lcannot listen", 14, NULL, 0);
        break;
    case 'm': /* descriptors where none or one is wanted */
        tell("c", 1, many, 16);
        tell("c", 1, many, 2);
        tell("c", 1, NULL, 0);
        tell("l", 1, many, 16);
        tell("p\x1c\xf4", 3, many, 1);
        tell("p\x1c", 2, many, 2);
        tell("x", 1, many, 1);
        tell("p\x1c\xf4", 3, NULL, 0);
        break;
    case 'e': /* an empty packet */
        tell("", 0, NULL, 0);
        break;
    case '1': /* for other machines: it tells which certificate it has */
    {
        char text[512] = "l";
        ssize_t bytes = recv(CONTROL_FD, text + 1, sizeof text - 1, 0);
        tell(text, bytes > 0 ? (size_t)bytes + 1 : 1, NULL, 0);
        break;
    }
    default: /* it ends at once */
        return 0;
    }
    char byte;
    return recv(CONTROL_FD, &byte, 1, 0) == 0 ? 0 : 3; /* until the daemon closes its end */
}

/* ---- a daemon ---------------------------------------------------------------------------------------------------- */

static char place[64];

static int make_place(void **state)
{
    (void)state;
    char link[96], own[512];
    (void)snprintf(place, sizeof place, "/tmp/shoal-door-XXXXXX");
    ssize_t bytes = readlink("/proc/self/exe", own, sizeof own - 1);
    if (mkdtemp(place) == NULL || bytes < 0) {
        return -1;
    }
    own[bytes] = '\0';
    (void)snprintf(link, sizeof link, "%s/shoal-http", place);
    return symlink(own, link);
}

static int remove_place(void **state)
{
    (void)state;
    char link[96];
    static const char *const files[] = {"shoal-http", "http.pem", "http-certificate.pem"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(link, sizeof link, "%s/%s", place, files[i]);
        (void)unlink(link);
    }
    return rmdir(place);
}

static struct daemon *new_daemon(const char *http)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    daemon->api = calloc(1, sizeof *daemon->api);
    daemon->lines = calloc(DAEMON_EVENTS_MAX, sizeof *daemon->lines);
    daemon->options.quiet = true;
    daemon->options.http = http;
    (void)snprintf(daemon->keep_program, sizeof daemon->keep_program, "%s/shoal-keep", place);
    return daemon;
}

static void free_daemon(struct daemon *daemon)
{
    http_close(daemon);
    assert_null(daemon->http);
    assert_int_equal(http_fd(daemon), -1);
    free(daemon->lines);
    free(daemon->api);
    free(daemon);
}

static void open_door(struct daemon *daemon)
{
    struct fact_door door = {0};
    http_prepare(daemon, &door);
    assert_int_equal(door.address[0], '\0');
    http_open(daemon);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory) != NULL) {
        count++;
    }
    (void)closedir(directory);
    return count;
}

static unsigned added;

static void add(struct daemon *daemon, int fd)
{
    (void)daemon;
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_true(S_ISSOCK(info.st_mode));
    (void)close(fd);
    added++;
}

/* Takes messages until the condition holds. */
#define WAIT_FOR(condition)                             \
    for (int i_ = 0; i_ < 2000 && !(condition); i_++) { \
        http_process(daemon, add);                      \
        (void)usleep(5000);                             \
    }                                                   \
    assert_true(condition)

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void a_numeric_address_and_a_port_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_tls;
    } good[] = {{"off", false}, {"127.0.0.1:7412", false}, {"127.0.0.1:0", false}, {"127.74.1.2:65535", false},
                {"[::1]:7412", false}, {"0.0.0.0:7412", true}, {"10.0.0.5:7412", true}, {"[::]:7412", true},
                {"[::ffff:127.0.0.1]:7412", true}, {"128.0.0.1:7412", true}};
    static const struct {
        const char *text, *part;
    } bad[] = {{"", "wants HOST:PORT"},
               {"7412", "wants HOST:PORT"},
               {"127.0.0.1", "wants HOST:PORT"},
               {"127.0.0.1:", "wants HOST:PORT"},
               {"127.0.0.1:65536", "wants HOST:PORT"},
               {"127.0.0.1:-1", "wants HOST:PORT"},
               {"127.0.0.1:74x", "wants HOST:PORT"},
               {"::1:7412", "wants HOST:PORT"},
               {"Off", "wants HOST:PORT"},
               {"localhost:7412", "wants a numeric address"},
               {"127.example.com:7412", "wants a numeric address"},
               {"127.1:7412", "wants a numeric address"},
               {"127.0.0.1.evil.example:7412", "wants a numeric address"},
               {"[::1%lo]:7412", "wants a numeric address"},
               {"*:7412", "wants a numeric address"},
               {"0.0.0.0:0", "have to know the port"},
               {"[::]:0", "have to know the port"}};
    char error[256];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct daemon_options options = {.http = good[i].text};
        assert_int_equal(http_check(good[i].text, error), 0);
        assert_int_equal(http_is_tls(&options), good[i].is_tls);
        options.http_plain = true;
        assert_false(http_is_tls(&options));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(http_check(bad[i].text, error), ERR_USAGE);
        if (strstr(error, bad[i].part) == NULL || strchr(error, '\n') != NULL || strncmp(error, "--http ", 7) != 0) {
            fail_msg("'%s': %s", bad[i].text, error);
        }
    }
    char longer[600];
    memset(longer, '1', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(http_check(longer, error), ERR_USAGE);
}

static void a_daemon_without_the_program_has_no_door(void **state)
{
    (void)state;
    struct daemon *daemon = new_daemon("off");
    open_door(daemon);
    assert_int_equal(http_fd(daemon), -1);
    assert_int_equal(daemon->line_seq, 0);
    daemon->options.http = HTTP_DEFAULT;
    (void)snprintf(daemon->keep_program, sizeof daemon->keep_program, "/nowhere/shoal-keep");
    open_door(daemon);
    assert_int_equal(http_fd(daemon), -1);
    assert_int_equal(daemon->line_seq, 1);
    http_tick(daemon, now_ms);
    free_daemon(daemon);
}

static void the_door_tells_its_port_and_hands_connections_over(void **state)
{
    (void)state;
    added = 0;
    struct daemon *daemon = new_daemon("port");
    unsigned before = open_descriptors();
    open_door(daemon);
    WAIT_FOR(added == 1 && daemon->line_seq == 1);
    assert_int_equal(daemon->api->http_port, 7412);
    http_close(daemon);
    assert_int_equal(open_descriptors(), before);
    free_daemon(daemon);
}

static void a_door_that_sends_descriptors_without_end_leaves_none_open(void **state)
{
    (void)state;
    added = 0;
    struct daemon *daemon = new_daemon("many");
    unsigned before = open_descriptors();
    open_door(daemon);
    WAIT_FOR(daemon->api->http_port == 7412 && added == 2);
    assert_int_equal(open_descriptors(), before + 1);
    free_daemon(daemon);
    assert_int_equal(open_descriptors(), before);
}

/* Whether a child of this process has not been waited for, be it alive or not. */
static bool has_child(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void a_door_that_ends_is_started_again_after_a_while(void **state)
{
    (void)state;
    static const char *const ways[] = {"quits", "empty packet"};
    for (size_t i = 0; i < 2; i++) {
        struct daemon *daemon = new_daemon(ways[i]);
        unsigned before = open_descriptors();
        open_door(daemon);
        for (uint64_t wait_ms = 1000; wait_ms < 300000; wait_ms *= 2) {
            uint64_t wanted_ms = wait_ms < 60000 ? wait_ms : 60000;
            daemon->api->http_port = 7412;
            WAIT_FOR(http_fd(daemon) < 0);
            assert_int_equal(daemon->api->http_port, 0);
            for (int k = 0; k < 100 || has_child(); k++) { /* until the process is gone, however slow the machine is */
                http_tick(daemon, now_ms);
                assert_int_equal(http_fd(daemon), -1);
                assert_true(k < 30000);
                (void)usleep(1000);
            }
            now_ms += wanted_ms - 1;
            http_tick(daemon, now_ms);
            assert_int_equal(http_fd(daemon), -1);
            now_ms++;
            http_tick(daemon, now_ms);
            assert_true(http_fd(daemon) >= 0);
        }
        WAIT_FOR(http_fd(daemon) < 0);
        free_daemon(daemon);
        assert_int_equal(open_descriptors(), before);
    }
}

static struct fact_door told;
static unsigned told_count;

static void take_event(struct daemon *daemon, struct node_event *event)
{
    (void)daemon;
    assert_int_equal(event->kind, NODE_EVENT_DOOR);
    told = event->u.door;
    told_count++;
}

static void put_certificate(const char *text)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/http.pem", place);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A day goes by, and the look at the certificate is over. */
static void pass_a_day(struct daemon *daemon)
{
    now_ms += DAY_MS - 1;
    http_tick(daemon, now_ms);
    now_ms++;
    http_tick(daemon, now_ms);
    jobs_close(&daemon->idle_jobs, daemon); /* waits for it */
    assert_int_equal(jobs_open("looks", &daemon->idle_jobs), 0);
}

static bool is_last_line(const struct daemon *daemon, const char *part)
{
    uint32_t count = lines_count(daemon);
    return count > 0 && strstr(lines_at(daemon, count - 1)->text, part) != NULL;
}

static void a_certificate_is_made_anew_while_the_door_is_open(void **state)
{
    (void)state;
    struct daemon *daemon = new_daemon(FOR_OTHERS);
    struct fact_door door = {0};
    uint8_t first[FINGERPRINT_BYTES], second[FINGERPRINT_BYTES];
    assert_true(fingerprint_of_pem(FIRST_PEM, strlen(FIRST_PEM), first));
    assert_true(fingerprint_of_pem(SECOND_PEM, strlen(SECOND_PEM), second));
    daemon->peers = calloc(1, sizeof *daemon->peers);
    daemon->events.step = take_event;
    (void)snprintf(daemon->dir, sizeof daemon->dir, "%s", place);
    assert_int_equal(jobs_open("looks", &daemon->idle_jobs), 0);
    http_prepare(daemon, &door);
    assert_string_equal(door.address, FOR_OTHERS);
    assert_memory_equal(door.certificate, first, sizeof first);
    http_open(daemon);
    WAIT_FOR(is_last_line(daemon, "YQ=="));
    int fd = http_fd(daemon);

    pass_a_day(daemon); /* it is good still */
    put_certificate(FIRST_PEM "LACKS"); /* a node gets addresses and loses them: what others trust lasts */
    pass_a_day(daemon);
    assert_int_equal(told_count, 0);
    assert_int_equal(http_fd(daemon), fd);

    put_certificate(FIRST_PEM "ENDS");
    uint32_t lines = lines_count(daemon);
    pass_a_day(daemon);
    assert_int_equal(told_count, 1);
    assert_string_equal(told.address, FOR_OTHERS);
    assert_memory_equal(told.certificate, second, sizeof second);
    assert_non_null(strstr(lines_at(daemon, lines)->text, "has a new certificate"));
    for (int i = 0; i < 10000 && !is_last_line(daemon, "Yg=="); i++) { /* the door begins anew */
        http_tick(daemon, now_ms);
        http_process(daemon, add);
        (void)usleep(1000);
    }
    assert_true(is_last_line(daemon, "Yg=="));

    put_certificate("ENDS");
    char path[96];
    (void)snprintf(path, sizeof path, "%s/http-certificate.pem", place);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    pass_a_day(daemon); /* nothing can be stored: the door goes on as it was */
    assert_true(is_last_line(daemon, "cannot be renewed: http-certificate.pem cannot be written"));
    assert_int_equal(told_count, 1);
    assert_true(http_fd(daemon) >= 0);
    assert_int_equal(rmdir(path), 0);

    put_certificate(FIRST_PEM "ENDS");
    now_ms += DAY_MS;
    http_tick(daemon, now_ms);
    http_close(daemon); /* a look under way at the end of the daemon */
    jobs_close(&daemon->idle_jobs, daemon);
    assert_int_equal(told_count, 1);
    daemon_events_close(daemon);
    free(daemon->peers);
    free_daemon(daemon);
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    if (strcmp(name != NULL ? name + 1 : argv[0], "shoal-http") == 0) {
        return argc > 2 && strcmp(argv[1], "--certify") == 0 ? certify(argc) : argc > 2 ? be_the_door(argv[2]) : 3;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_numeric_address_and_a_port_are_taken),
        cmocka_unit_test(a_daemon_without_the_program_has_no_door),
        cmocka_unit_test(the_door_tells_its_port_and_hands_connections_over),
        cmocka_unit_test(a_door_that_sends_descriptors_without_end_leaves_none_open),
        cmocka_unit_test(a_door_that_ends_is_started_again_after_a_while),
        cmocka_unit_test(a_certificate_is_made_anew_while_the_door_is_open),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
