#include "node/slots/slots.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/slots/nvml.h"
#include "node/slots/processors.h"

/* The value of the first line "name   : value" in a file of /proc; false if there is no such line. */
static bool proc_find(const char *path, const char *name, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (colon != NULL && strncmp(line, name, strlen(name)) == 0) {
            char *value = colon + 1 + strspn(colon + 1, " \t");
            value[strcspn(value, "\n")] = '\0';
            (void)bytes_copy_text(out, size, value);
            found = true;
        }
    }
    (void)fclose(file);
    return found;
}

static uint64_t memory_bytes(void)
{
    char text[64];
    unsigned long long kib;
    if (proc_find("/proc/meminfo", "MemTotal", text, sizeof text) && sscanf(text, "%llu", &kib) == 1) {
        return (uint64_t)kib * 1024;
    }
    return 0;
}

/* The field is "model name" on x86; on other processors "Model", "Hardware" or absent. */
static void cpu_model(char *out, size_t size)
{
    if (!proc_find("/proc/cpuinfo", "model name", out, size) && !proc_find("/proc/cpuinfo", "Model", out, size) &&
        !proc_find("/proc/cpuinfo", "Hardware", out, size)) {
        (void)bytes_copy_text(out, size, "CPU");
    }
}

/* A number that stays the same for this machine. Hashed, since the machine id itself is to stay private
 * (machine-id(5)). */
static uint64_t machine_number(const char *salt)
{
    char text[256] = "";
    FILE *file = fopen("/etc/machine-id", "re");
    if (file != NULL) {
        if (fgets(text, sizeof text, file) == NULL) {
            text[0] = '\0';
        }
        (void)fclose(file);
    }
    text[strcspn(text, "\n")] = '\0';
    if (text[0] == '\0') {
        (void)gethostname(text, sizeof text - 1);
    }
    uint64_t number = bytes_hash64(text, strlen(text), 0);
    return salt == NULL ? number : bytes_hash64(salt, strlen(salt), number);
}

static void cpu_slots(size_t count, const char *salt, struct slot_info slots[SLOTS_MAX])
{
    uint64_t number = machine_number(salt);
    for (size_t i = 0; i < count; i++) {
        slots[i] = (struct slot_info){
            .kind = SLOT_CPU, .index = (uint32_t)i, .memory_bytes = memory_bytes() / count};
        cpu_model(slots[i].model, sizeof slots[i].model);
        (void)snprintf(slots[i].uuid, sizeof slots[i].uuid, "cpu-%016llx-%zu", (unsigned long long)number, i);
    }
}

/* The N of "cpu:N"; 0 if the text is anything else. */
static size_t cpu_text_count(const char *text)
{
    static const char prefix[] = "cpu:";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) {
        return 0;
    }
    const char *digits = text + sizeof prefix - 1;
    size_t length = strlen(digits);
    if (length == 0 || length > 2 || strspn(digits, "0123456789") != length) {
        return 0;
    }
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count = count * 10 + (size_t)(digits[i] - '0');
    }
    return count <= SLOTS_MAX ? count : 0;
}

/* Finds GPUs and returns their number; if it is 0, `remark` tells why. */
static size_t gpu_slots(const struct slots_options *options, struct slot_info slots[SLOTS_MAX],
                        char remark[SLOTS_ERROR_BYTES])
{
    struct slots_nvml *nvml;
    size_t count = 0;
    if (slots_nvml_open(options->nvml_path, &nvml, remark) == 0) {
        if (slots_nvml_list(nvml, slots, &count, remark) == 0 && count == 0 && remark[0] == '\0') {
            (void)snprintf(remark, SLOTS_ERROR_BYTES, "NVIDIA's driver reports no GPU or MIG device");
        }
        slots_nvml_close(&nvml);
    }
    return count;
}

int slots_discover(const char *text, const struct slots_options *options, struct slot_info slots[SLOTS_MAX],
                   size_t *count, char error[SLOTS_ERROR_BYTES])
{
    if (strcmp(text, "none") == 0) {
        error[0] = '\0';
        *count = 0;
        return 0;
    }
    size_t wanted = cpu_text_count(text);
    if (wanted == 0 && strcmp(text, "auto") != 0) {
        (void)snprintf(error, SLOTS_ERROR_BYTES, "slots are '%.100s'; allowed are auto, cpu:N with N from 1 to %d, none",
                       text, SLOTS_MAX);
        return ERR_USAGE;
    }
    error[0] = '\0';
    if (wanted == 0) {
        char remark[SLOTS_ERROR_BYTES] = "";
        size_t found = gpu_slots(options, slots, remark);
        if (found > 0) {
            (void)bytes_copy_text(error, SLOTS_ERROR_BYTES, remark);
            *count = found;
            return 0;
        }
        size_t allowed = processors_allowed();
        wanted = allowed < SLOTS_MAX ? allowed : SLOTS_MAX;
        (void)snprintf(error, SLOTS_ERROR_BYTES, "the slots are processors, for no GPU is found: %.450s", remark);
    }
    cpu_slots(wanted, options->salt, slots);
    *count = wanted;
    return 0;
}

int slots_gpu_busy(const struct slots_options *options, const char *uuid, bool *busy)
{
    struct slots_nvml *nvml;
    char error[SLOTS_ERROR_BYTES];
    int result = slots_nvml_open(options->nvml_path, &nvml, error);
    if (result == 0) {
        result = slots_nvml_busy(nvml, uuid, NULL, NULL, busy);
        slots_nvml_close(&nvml);
    }
    return result;
}
