/* shoal-webhook: sends one message to a webhook. A process of its own for each try, without keys, that the daemon
 * starts: standard input is a MessagePack map {url, allowed, fields (texts), body}, standard output {status, text}.
 * Nothing of it waits longer than SEND_S, no redirect is followed, and at most ANSWER_BYTES_MAX of an answer are read.
 * `allowed`: the mesh allows the url's host by name; else an address of this machine or of its links is refused, and
 * the address that is looked at is the one connected to. */

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/pack.h"
#include "node/webhooks/reach.h"

#define INPUT_BYTES_MAX (64u << 10)
#define ANSWER_BYTES_MAX (64u << 10)
#define SEND_S 10L
#define TEXT_BYTES 200

struct sending {
    bool is_allowed, is_refused;
    size_t answer_bytes;
    char error[CURL_ERROR_SIZE];
};

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct sending *sending = context;
    (void)purpose;
    if (!sending->is_allowed && !webhook_reaches(&address->addr)) {
        sending->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* The answer is of no use but for its status. */
static size_t take_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct sending *sending = context;
    (void)bytes;
    sending->answer_bytes += size * count;
    return sending->answer_bytes > ANSWER_BYTES_MAX ? 0 : size * count;
}

static void say(long status, const char *text)
{
    uint8_t bytes[TEXT_BYTES + 64];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 2);
    pack_text(&writer, "status");
    pack_u64(&writer, status > 0 ? (uint64_t)status : 0);
    pack_text(&writer, "text");
    pack_text_n(&writer, text, strlen(text) < TEXT_BYTES ? strlen(text) : TEXT_BYTES);
    (void)fwrite(bytes, 1, writer.used_bytes, stdout);
    (void)fflush(stdout);
}

static char *text_of(const struct pack_reader *map, const char *key, size_t *bytes)
{
    struct pack_reader value = pack_find(map, key);
    const char *text = pack_read_text(&value, bytes);
    return value.failed ? NULL : strndup(text, *bytes);
}

static struct curl_slist *fields_of(const struct pack_reader *map)
{
    struct pack_reader value = pack_find(map, "fields");
    struct curl_slist *list = NULL;
    for (uint32_t left = pack_read_array(&value); left > 0 && !value.failed; left--) {
        size_t bytes;
        const char *text = pack_read_text(&value, &bytes);
        char *field = value.failed ? NULL : strndup(text, bytes);
        struct curl_slist *longer = field != NULL ? curl_slist_append(list, field) : NULL;
        list = longer != NULL ? longer : list;
        free(field);
    }
    return list;
}

static void send_it(const struct pack_reader *map, CURL *curl, struct sending *sending)
{
    size_t url_bytes = 0, body_bytes = 0;
    char *url = text_of(map, "url", &url_bytes), *body = text_of(map, "body", &body_bytes);
    struct curl_slist *fields = fields_of(map);
    struct pack_reader allowed = pack_find(map, "allowed");
    sending->is_allowed = pack_read_bool(&allowed) && !allowed.failed;
    if (url == NULL || body == NULL || fields == NULL) {
        say(0, "the message is malformed");
        return;
    }
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT, SEND_S);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, SEND_S);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "shoal-webhook/" SHOAL_VERSION);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body_bytes);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, sending);
    (void)curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, sending);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, sending->error);
    CURLcode code = curl_easy_perform(curl);
    long status = 0;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    bool is_too_long = code == CURLE_WRITE_ERROR && sending->answer_bytes > ANSWER_BYTES_MAX;
    if (sending->is_refused && code != CURLE_OK) {
        say(0, "the host is of this machine or its network; allow it by shoal webhook allow HOST");
    } else if (code != CURLE_OK && !is_too_long) {
        say(0, sending->error[0] != '\0' ? sending->error : curl_easy_strerror(code));
    } else if (status >= 300 && status < 400) {
        say(status, "the receiver redirects, which is not followed");
    } else {
        say(status, status >= 200 && status < 300 ? "" : "the receiver refuses it");
    }
    curl_slist_free_all(fields);
    free(url);
    free(body);
}

int main(void)
{
    static uint8_t input[INPUT_BYTES_MAX];
    const struct rlimit none = {0, 0};
    struct sending sending = {.is_allowed = false};
    struct pack_reader map;
    if (descriptors_fill_standard() != 0) {
        return 1;
    }
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)alarm((unsigned int)SEND_S + 5); /* whatever a library waits for */
    size_t bytes = fread(input, 1, sizeof input, stdin);
    pack_reader_init(&map, input, bytes);
    CURL *curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
    if (curl == NULL) {
        say(0, "libcurl cannot be started");
        return 1;
    }
    send_it(&map, curl, &sending);
    curl_easy_cleanup(curl);
    return 0;
}
