#include "node/slots/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define LINE_BYTES 65536 /* of /proc/interrupts, with a number for each processor */

bool machine_processors(const char *root, uint64_t *busy, uint64_t *all)
{
    char path[PATH_BYTES];
    unsigned long long n[8] = {0}; /* user nice system idle iowait irq softirq steal */
    (void)snprintf(path, sizeof path, "%s/proc/stat", root);
    FILE *file = fopen(path, "re");
    bool is_read = file != NULL && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
                                          &n[6], &n[7]) == 8;
    if (file != NULL) {
        (void)fclose(file);
    }
    *all = 0;
    for (int i = 0; i < 8; i++) {
        *all += n[i];
    }
    *busy = *all - n[3] - n[4] - n[7];
    return is_read;
}

uint32_t machine_processor_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (uint32_t)count;
}

uint32_t machine_others_permille(uint64_t busy, uint64_t all, uint64_t own_permille, uint32_t processors)
{
    uint64_t used = all == 0 ? 0 : busy * 1000 / all, own = processors == 0 ? 0 : own_permille / processors;
    return used > own ? (uint32_t)(used - own) : 0;
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(1099511628211) + 1;
}

/* True for the driver of a keyboard, a mouse or a touchpad that is not behind USB. */
static bool is_of_hands(const char *line)
{
    static const char *const drivers[] = {"i8042", "i2c_hid", "i2c-hid", "keyboard", "mouse", "touchpad", "elan", "ELAN", "SYNA", "synaptics"};
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        if (strstr(line, drivers[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The counters of a line "NAME: COUNT COUNT ... CHIP DRIVER". */
static uint64_t counters_of(const char *line)
{
    uint64_t hash = 0;
    const char *at = strchr(line, ':');
    while (at != NULL && *++at != '\0') {
        char *end;
        uint64_t count = strtoull(at, &end, 10);
        if (end == at || !isspace((unsigned char)*end)) {
            break;
        }
        hash = mixed(hash, count);
        at = end - 1;
        at += strspn(at + 1, " ");
    }
    return hash;
}

static uint64_t of_interrupts(const char *root)
{
    static __thread char line[LINE_BYTES];
    char path[PATH_BYTES];
    uint64_t hash = 0;
    (void)snprintf(path, sizeof path, "%s/proc/interrupts", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (is_of_hands(line)) {
            hash = mixed(hash, counters_of(line));
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return hash;
}

/* The first word of a small file; "": it cannot be read. */
static void read_word(char out[32], const char *directory, const char *name, const char *file_name)
{
    char path[PATH_BYTES];
    out[0] = '\0';
    (void)snprintf(path, sizeof path, "%s/%.255s/%s", directory, name, file_name);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%31s", out) != 1) {
            out[0] = '\0';
        }
        (void)fclose(file);
    }
}

/* Requests of each USB device with an interface of the class HID for a keyboard (protocol 1) or a mouse (2): one that nobody touches
 * completes none. An interface is a directory DEVICE:CONFIGURATION.NUMBER beside its device. */
static uint64_t of_usb(const char *root)
{
    char directory[PATH_BYTES - 300];
    uint64_t hash = 0;
    (void)snprintf(directory, sizeof directory, "%s/sys/bus/usb/devices", root);
    DIR *list = opendir(directory);
    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        char class[32], protocol[32], requests[32], device[256];
        const char *colon = strchr(entry->d_name, ':');
        if (colon == NULL) {
            continue;
        }
        read_word(class, directory, entry->d_name, "bInterfaceClass");
        read_word(protocol, directory, entry->d_name, "bInterfaceProtocol");
        if (strcmp(class, "03") == 0 && (strcmp(protocol, "01") == 0 || strcmp(protocol, "02") == 0)) {
            (void)snprintf(device, sizeof device, "%.*s", (int)(colon - entry->d_name), entry->d_name);
            read_word(requests, directory, device, "urbnum");
            hash += mixed(strtoull(requests, NULL, 10), 1); /* in whatever order they are listed */
        }
    }
    if (list != NULL) {
        (void)closedir(list);
    }
    return hash;
}

/* The last use of each terminal: of a console (tty1), or of a remote one (pts/0). */
static uint64_t of_terminals(const char *root, const char *below, const char *prefix)
{
    char directory[PATH_BYTES - 300], path[PATH_BYTES];
    uint64_t hash = 0;
    (void)snprintf(directory, sizeof directory, "%s/dev%s", root, below);
    DIR *list = opendir(directory);
    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        struct stat info;
        const char *digits = entry->d_name + strlen(prefix);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || !isdigit((unsigned char)*digits)) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%.255s", directory, entry->d_name);
        if (stat(path, &info) == 0) {
            hash += mixed((uint64_t)info.st_atime, strtoull(digits, NULL, 10));
        }
    }
    if (list != NULL) {
        (void)closedir(list);
    }
    return hash;
}

uint64_t machine_activity(const char *root)
{
    uint64_t hash = mixed(of_interrupts(root), of_usb(root));
    hash = mixed(hash, of_terminals(root, "", "tty"));
    return mixed(hash, of_terminals(root, "/pts", ""));
}
