/* A small libnvidia-ml.so.1 for slots_test: two GPUs, of which the second is split into two MIG devices at places 0 and 2
 * of 7. The environment variable FAKE_NVML names what goes wrong: init, count, lost (the first GPU), nothing; with `whole`
 * the second GPU is not split. With FAKE_NVML_BUSY=UUID one process computes on that device, with FAKE_NVML_BUSY_FILE=PATH on
 * the one whose uuid is in that file, which may come and go; behind the uuid the file may have the number of the process. The declarations are written anew here, so that a mistake in
 * nvml.c does not hide itself. Built with FAKE_WITHOUT_MEMORY it lacks a function, with FAKE_WITHOUT_MIG it is an
 * older driver. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 4

typedef struct {
    unsigned long long total, free, used;
} memory;

struct device {
    const char *uuid;
    const char *name;
    unsigned long long total;
};

static const struct device devices[DEVICES] = {
    {"GPU-11111111-2222-3333-4444-555555555555", "NVIDIA RTX A6000", 51527024640ull},
    {"GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "NVIDIA A100-SXM4-40GB", 42949672960ull},
    {"MIG-00000000-1111-2222-3333-444444444444", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20937965568ull},
    {"MIG-99999999-8888-7777-6666-555555555555", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20937965568ull},
};

static int started;

static int asked_for(const char *fault)
{
    const char *value = getenv("FAKE_NVML");
    return value != NULL && strcmp(value, fault) == 0;
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned int *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
int nvmlDeviceGetUUID(void *device, char *text, unsigned int length);
int nvmlDeviceGetName(void *device, char *text, unsigned int length);
int nvmlDeviceGetMemoryInfo(void *device, memory *out);
int nvmlDeviceGetUtilizationRates(void *device, unsigned int rates[2]);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules);
int nvmlEventSetCreate(void **set);
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
int nvmlEventSetWait_v2(void *set, void *data, unsigned int timeout_ms);
int nvmlEventSetFree(void *set);
int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending);
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count);
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int index, void **mig);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *infos);

int nvmlInit_v2(void)
{
    if (asked_for("init")) {
        return 9; /* driver not loaded */
    }
    started = 1;
    return 0;
}

int nvmlShutdown(void)
{
    int before = started;
    started = 0;
    return before ? 0 : 1;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    if (!started) {
        return 1;
    }
    if (asked_for("count")) {
        return 999;
    }
    *count = asked_for("empty") ? 0 : 2;
    return 0;
}

static void *handle(size_t index)
{
    return (void *)(uintptr_t)&devices[index];
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    if (index > 1) {
        return 2;
    }
    if (index == 0 && asked_for("lost")) {
        return 15; /* GPU is lost */
    }
    *device = handle(index);
    return 0;
}

static int put(char *text, unsigned int length, const char *value)
{
    if (length < strlen(value) + 1) {
        return 7; /* insufficient size */
    }
    (void)snprintf(text, length, "%s", value);
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned int length)
{
    return put(text, length, ((const struct device *)device)->uuid);
}

int nvmlDeviceGetName(void *device, char *text, unsigned int length)
{
    return put(text, length, ((const struct device *)device)->name);
}

#ifndef FAKE_WITHOUT_MEMORY
int nvmlDeviceGetMemoryInfo(void *device, memory *out)
{
    unsigned long long total = ((const struct device *)device)->total;
    *out = (memory){.total = total, .free = total - total / 4, .used = total / 4};
    return 0;
}
#endif

#ifndef FAKE_WITHOUT_MIG
int nvmlDeviceGetUtilizationRates(void *device, unsigned int rates[2])
{
    if (device != handle(0) && device != handle(1)) {
        return 3; /* not supported: of a MIG device */
    }
    rates[0] = device == handle(0) ? 37 : 91;
    rates[1] = 5;
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius)
{
    if (sensor != 0 || (device != handle(0) && device != handle(1))) {
        return 3;
    }
    *celsius = device == handle(0) ? 61 : 48;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts)
{
    if (device != handle(0)) {
        return 3; /* the second GPU does not tell */
    }
    *milliwatts = 212500;
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
    if (device != handle(0)) {
        return 3;
    }
    *millijoules = 7000500;
    return 0;
}

/* Errors come from the file FAKE_NVML_XID_FILE, one for each of its lines, "GPU NUMBER". */
static int event_set;
static unsigned int errors_taken;

int nvmlEventSetCreate(void **set)
{
    *set = &event_set;
    return 0;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    return set != &event_set || types != 8 || (device != handle(0) && device != handle(1)) ? 2 : 0;
}

struct event {
    void *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};

int nvmlEventSetWait_v2(void *set, void *data, unsigned int timeout_ms)
{
    const char *path = getenv("FAKE_NVML_XID_FILE");
    FILE *file = path != NULL && set == &event_set && timeout_ms == 0 ? fopen(path, "re") : NULL;
    struct event *out = data;
    char line[32];
    int result = 10; /* timeout */
    for (unsigned int i = 0; file != NULL && result != 0 && fgets(line, sizeof line, file) != NULL; i++) {
        if (i == errors_taken) {
            char *end;
            size_t gpu = (size_t)strtoul(line, &end, 10) % 2;
            *out = (struct event){.device = handle(gpu), .type = 8, .data = strtoull(end, NULL, 10)};
            result = 0;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    errors_taken += result == 0;
    return result;
}

int nvmlEventSetFree(void *set)
{
    return set == &event_set ? 0 : 2;
}

int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending)
{
    if (device != handle(1) || asked_for("whole")) {
        return 3; /* not supported */
    }
    *current = 1;
    *pending = 1;
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count)
{
    *count = device == handle(1) ? 7 : 0;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int index, void **mig)
{
    if (device != handle(1) || (index != 0 && index != 2)) {
        return 6; /* not found */
    }
    *mig = handle(index == 0 ? 2 : 3);
    return 0;
}
#endif

typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
} process;

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *infos)
{
    const char *busy = getenv("FAKE_NVML_BUSY"), *path = getenv("FAKE_NVML_BUSY_FILE");
    char line[96] = "", *pid = NULL;
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    if (file != NULL) {
        busy = fgets(line, sizeof line, file);
        line[strcspn(line, "\n")] = '\0';
        pid = strchr(line, ' ');
        (void)fclose(file);
    }
    if (pid != NULL) {
        *pid++ = '\0';
    }
    if (asked_for("silent")) {
        return 4; /* no permission */
    }
    if (busy == NULL || strcmp(busy, ((const struct device *)device)->uuid) != 0) {
        *count = 0;
        return 0;
    }
    if (infos == NULL || *count < 1) {
        *count = 1;
        return 7;
    }
    *(process *)infos = (process){.pid = pid != NULL ? (unsigned int)strtoul(pid, NULL, 10) : 1};
    *count = 1;
    return 0;
}
