#include "node/daemon/peers/own_addresses.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "node/daemon/peers/peers.h"

#define SETTLE_MS 200  /* from the first word of a change: many come at once */
#define AGAIN_MS 60000 /* read also without such a word */
#define RETRY_MS 5000  /* when they could not be read */
#define LOOPBACK_SPEED 1000

static bool is_any(const char *host)
{
    return strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static void add(struct daemon *daemon, struct node_addresses *out, const struct address_of_ours *ours)
{
    struct fact_addresses *list = &out->announced;
    if (list->count == FACT_ANNOUNCED_MAX) {
        return;
    }
    struct fact_address *address = &list->items[list->count++];
    (void)snprintf(address->text, sizeof address->text, ours->is_wide ? "[%.50s]:%u" : "%.50s:%u", ours->host,
                   (unsigned)control_port(daemon->control));
    address->prefix = ours->prefix;
    address->speed = ours->speed;
}

/* A host that the user has named, whatever interface has it; perhaps a router has it. */
static void add_named(struct daemon *daemon, struct node_addresses *out, const char *host)
{
    struct address_of_ours ours;
    if (!addresses_find(host, &ours)) {
        ours = (struct address_of_ours){.speed = LOOPBACK_SPEED, .is_wide = strchr(host, ':') != NULL};
        bytes_copy_text(ours.host, sizeof ours.host, host);
        ours.prefix = strncmp(host, "127.", 4) == 0 ? 8 : 0;
    }
    add(daemon, out, &ours);
}

static void note_zone(struct node_addresses *out, const char *interface)
{
    for (uint32_t i = 0; i < out->zone_count; i++) {
        if (strcmp(out->zones[i], interface) == 0) {
            return;
        }
    }
    if (out->zone_count < NODE_ZONES_MAX) {
        bytes_copy_text(out->zones[out->zone_count++], NODE_ZONE_BYTES, interface);
    }
}

/* False: the addresses could not be read, for example because no descriptor is free; `*out` then has what the user has named. */
static bool find(struct daemon *daemon, struct node_addresses *out)
{
    char listen_host[FACT_ADDRESS_BYTES];
    struct addresses_of_ours all;
    memset(out, 0, sizeof *out);
    address_host(daemon->options.listen, listen_host, sizeof listen_host);
    bool is_read = addresses_read(&all) == 0;
    for (uint32_t i = 0; i < all.count; i++) {
        if (all.items[i].is_wide && all.items[i].is_link_local) {
            note_zone(out, all.items[i].interface);
        }
    }
    for (uint32_t i = 0; i < daemon->options.advertise_count; i++) {
        add_named(daemon, out, daemon->options.advertise[i]);
    }
    if (out->announced.count > 0) {
        return is_read;
    }
    if (!is_any(listen_host)) {
        add_named(daemon, out, listen_host);
        return is_read;
    }
    bool has_ipv4_only = strcmp(listen_host, "0.0.0.0") == 0;
    for (uint32_t i = 0; i < all.count; i++) {
        if (!has_ipv4_only || !all.items[i].is_wide) {
            add(daemon, out, &all.items[i]);
        }
    }
    if (out->announced.count == 0) {
        add_named(daemon, out, "127.0.0.1"); /* no network yet */
    }
    return is_read;
}

static void take(struct daemon *daemon, const struct node_addresses *found)
{
    daemon->peers->own.announced = *found;
    address_host(found->announced.items[0].text, daemon->host, sizeof daemon->host);
}

void daemon_own_addresses_open(struct daemon *daemon)
{
    struct own_addresses *own = &daemon->peers->own;
    struct node_addresses found;
    own->fd = addresses_watch();
    own->read_ms = daemon_now_ms() + (find(daemon, &found) ? AGAIN_MS : RETRY_MS);
    take(daemon, &found);
}

void daemon_own_addresses_close(struct daemon *daemon)
{
    if (daemon->peers->own.read_ms != 0 && daemon->peers->own.fd >= 0) {
        (void)close(daemon->peers->own.fd);
        daemon->peers->own.fd = -1;
    }
}

int daemon_own_addresses_fd(const struct daemon *daemon)
{
    return daemon->peers->own.fd;
}

uint64_t daemon_own_addresses_next_ms(const struct daemon *daemon)
{
    return daemon->peers->own.read_ms;
}

static bool has(const struct node_addresses *list, const char *text)
{
    for (uint32_t i = 0; i < list->announced.count; i++) {
        if (strcmp(list->announced.items[i].text, text) == 0) {
            return true;
        }
    }
    return false;
}

/* Writes one line, and tells whether an address is gone. */
static bool tell_changes(struct daemon *daemon, const struct node_addresses *before, const struct node_addresses *now)
{
    char line[512] = "";
    size_t used = 0;
    bool is_one_gone = false;
    for (uint32_t i = 0; i < now->announced.count && used < sizeof line; i++) {
        used += (size_t)snprintf(line + used, sizeof line - used, " %s", now->announced.items[i].text);
    }
    for (uint32_t i = 0; i < before->announced.count; i++) {
        is_one_gone |= !has(now, before->announced.items[i].text);
    }
    daemon_line_of(daemon, event_of_node(EVENT_NODE_ADDRESS, daemon->keys.id),
                   "the addresses of this node have changed:%s", line);
    return is_one_gone;
}

void daemon_own_addresses_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct own_addresses *own = &daemon->peers->own;
    if (own->fd >= 0 && addresses_changed(own->fd) && !own->is_due_soon) {
        own->is_due_soon = true;
        own->read_ms = now_ms + SETTLE_MS;
    }
    if (now_ms < own->read_ms) {
        return;
    }
    own->is_due_soon = false;
    struct node_addresses found;
    bool is_read = find(daemon, &found);
    own->read_ms = now_ms + (is_read ? AGAIN_MS : RETRY_MS);
    if (!is_read) {
        return; /* the node keeps what it had */
    }
    if (memcmp(&found, &own->announced, sizeof found) == 0) {
        return;
    }
    struct node_addresses before = own->announced;
    take(daemon, &found);
    if (tell_changes(daemon, &before, &found)) {
        control_renew(daemon->control);
    }
    struct node_event event = {.kind = NODE_EVENT_ADDRESSES};
    event.u.addresses = found;
    daemon_event(daemon, &event);
}
