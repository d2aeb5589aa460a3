#include "node/slots/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

/* The part of the published ABI that is used here (nvml.h of CUDA 11 and later). */
#define NVML_OK 0
#define NVML_NOT_SUPPORTED 3
#define NVML_INSUFFICIENT_SIZE 7
#define NVML_MIG_ENABLED 1u
#define PROCESSES_MAX 64
#define NVML_TEXT_BYTES SLOTS_NVML_UUID_BYTES /* the largest buffer size that NVML needs for names and uuids */
#define NVML_TEMPERATURE_GPU 0
#define NVML_EVENT_XID 8ull /* nvmlEventTypeXidCriticalError */

typedef struct nvml_device *nvml_device; /* opaque */

struct nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

struct nvml_utilization {
    unsigned int gpu, memory; /* percent of time */
};

struct nvml_process { /* nvmlProcessInfo_v2_t, which the _v2 and _v3 calls fill in */
    unsigned int pid;
    unsigned long long used_memory;
    unsigned int gpu_instance;
    unsigned int compute_instance;
};

struct nvml_event { /* nvmlEventData_t, as the _v2 call fills it in */
    nvml_device device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};

struct slots_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*device_count)(unsigned int *count);
    int (*device_by_index)(unsigned int index, nvml_device *device);
    int (*device_uuid)(nvml_device device, char *text, unsigned int bytes);
    int (*device_name)(nvml_device device, char *text, unsigned int bytes);
    int (*device_memory)(nvml_device device, struct nvml_memory *memory);
    /* The next three are NULL if the driver is older than MIG. */
    int (*mig_mode)(nvml_device device, unsigned int *current, unsigned int *pending);
    int (*mig_count_max)(nvml_device device, unsigned int *count);
    int (*mig_by_index)(nvml_device device, unsigned int index, nvml_device *mig);
    int (*utilization)(nvml_device device, struct nvml_utilization *rates); /* may be NULL */
    /* Each may be NULL. */
    int (*temperature)(nvml_device device, int sensor, unsigned int *celsius);
    int (*power)(nvml_device device, unsigned int *milliwatts);
    int (*energy)(nvml_device device, unsigned long long *millijoules);
    int (*events_new)(void **events);
    int (*events_register)(nvml_device device, unsigned long long types, void *events);
    int (*events_next)(void *events, struct nvml_event *event, unsigned int timeout_ms);
    int (*events_free)(void *events);
    void *events; /* NULL: not listening */
    /* NULL if the driver is older than 450. */
    int (*processes)(nvml_device device, unsigned int *count, struct nvml_process *processes);
};

/* Sets a function pointer. ISO C has no conversion from dlsym's result; POSIX promises that this works. */
static bool symbol_find(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The name of a needed function that the library lacks; NULL: it has all of them. */
static const char *symbols_find(struct slots_nvml *nvml)
{
    const struct {
        const char *name;
        void *function_pointer;
    } needed[] = {
        {"nvmlInit_v2", &nvml->init},
        {"nvmlShutdown", &nvml->shutdown},
        {"nvmlDeviceGetCount_v2", &nvml->device_count},
        {"nvmlDeviceGetHandleByIndex_v2", &nvml->device_by_index},
        {"nvmlDeviceGetUUID", &nvml->device_uuid},
        {"nvmlDeviceGetName", &nvml->device_name},
        {"nvmlDeviceGetMemoryInfo", &nvml->device_memory},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!symbol_find(nvml->library, needed[i].name, needed[i].function_pointer)) {
            return needed[i].name;
        }
    }
    if (!symbol_find(nvml->library, "nvmlDeviceGetMigMode", &nvml->mig_mode) ||
        !symbol_find(nvml->library, "nvmlDeviceGetMaxMigDeviceCount", &nvml->mig_count_max) ||
        !symbol_find(nvml->library, "nvmlDeviceGetMigDeviceHandleByIndex", &nvml->mig_by_index)) {
        nvml->mig_mode = NULL;
    }
    (void)symbol_find(nvml->library, "nvmlDeviceGetUtilizationRates", &nvml->utilization);
    (void)symbol_find(nvml->library, "nvmlDeviceGetTemperature", &nvml->temperature);
    (void)symbol_find(nvml->library, "nvmlDeviceGetPowerUsage", &nvml->power);
    (void)symbol_find(nvml->library, "nvmlDeviceGetTotalEnergyConsumption", &nvml->energy);
    if (!symbol_find(nvml->library, "nvmlEventSetCreate", &nvml->events_new) ||
        !symbol_find(nvml->library, "nvmlDeviceRegisterEvents", &nvml->events_register) ||
        !symbol_find(nvml->library, "nvmlEventSetWait_v2", &nvml->events_next) ||
        !symbol_find(nvml->library, "nvmlEventSetFree", &nvml->events_free)) {
        nvml->events_new = NULL;
    }
    if (!symbol_find(nvml->library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml->processes)) {
        (void)symbol_find(nvml->library, "nvmlDeviceGetComputeRunningProcesses_v2", &nvml->processes);
    }
    return NULL;
}

int slots_nvml_open(const char *path, struct slots_nvml **out, char error[SLOTS_ERROR_BYTES])
{
    struct slots_nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL) {
        (void)snprintf(error, SLOTS_ERROR_BYTES, "no memory is left to look for GPUs");
        return ERR_MEMORY;
    }
    int result = ERR_NOT_FOUND;
    nvml->library = dlopen(path == NULL ? "libnvidia-ml.so.1" : path, RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL) {
        (void)snprintf(error, SLOTS_ERROR_BYTES, "NVIDIA's driver library cannot be opened: %.400s", dlerror());
        goto err_free;
    }
    const char *missing = symbols_find(nvml);
    if (missing != NULL) {
        (void)snprintf(error, SLOTS_ERROR_BYTES,
                       "NVIDIA's driver library has no %s: it is too old; install driver 450 or later", missing);
        goto err_close;
    }
    int code = nvml->init();
    if (code != NVML_OK) {
        (void)snprintf(error, SLOTS_ERROR_BYTES,
                       "NVIDIA's driver library does not start (NVML error %d): see what nvidia-smi says", code);
        result = ERR_REFUSED;
        goto err_close;
    }
    *out = nvml;
    return 0;
err_close:
    (void)dlclose(nvml->library);
err_free:
    free(nvml);
    return result;
}

void slots_nvml_close(struct slots_nvml **nvml)
{
    if (*nvml != NULL) {
        if ((*nvml)->events != NULL) {
            (void)(*nvml)->events_free((*nvml)->events);
        }
        (void)(*nvml)->shutdown();
        (void)dlclose((*nvml)->library);
        free(*nvml);
    }
    *nvml = NULL;
}

/* A function that is called for every device a worker could use; it returns false to stop. `number` is the place of the GPU in
 * NVML's order, which is the order of the PCI bus; `is_part`: the device is a MIG device of that GPU. */
typedef bool (*device_visitor)(struct slots_nvml *nvml, nvml_device device, unsigned int number, bool is_part, void *context);

static void remark_device(char remark[SLOTS_ERROR_BYTES], unsigned int index, const char *what, int code)
{
    (void)snprintf(remark, SLOTS_ERROR_BYTES, "GPU %u is left out: its %s cannot be read (NVML error %d)", index, what,
                   code);
}

static bool migs_visit(struct slots_nvml *nvml, nvml_device gpu, unsigned int number, unsigned int count_max,
                       device_visitor visitor, void *context)
{
    for (unsigned int i = 0; i < count_max; i++) {
        nvml_device mig;
        /* A place without a MIG device answers "not found". */
        if (nvml->mig_by_index(gpu, i, &mig) == NVML_OK && !visitor(nvml, mig, number, true, context)) {
            return false;
        }
    }
    return true;
}

/* Visits all GPUs, and instead of a split GPU its MIG devices: CUDA cannot use such a GPU as a whole. 0 or ERR_REFUSED. */
static int devices_visit(struct slots_nvml *nvml, device_visitor visitor, void *context, char remark[SLOTS_ERROR_BYTES])
{
    unsigned int count;
    int code = nvml->device_count(&count);
    if (code != NVML_OK) {
        (void)snprintf(remark, SLOTS_ERROR_BYTES, "GPUs cannot be counted (NVML error %d): see what nvidia-smi says",
                       code);
        return ERR_REFUSED;
    }
    for (unsigned int i = 0; i < count; i++) {
        nvml_device gpu;
        code = nvml->device_by_index(i, &gpu);
        if (code != NVML_OK) {
            remark_device(remark, i, "handle", code);
            continue;
        }
        unsigned int mode = 0;
        unsigned int pending;
        unsigned int mig_count_max = 0;
        if (nvml->mig_mode != NULL && nvml->mig_mode(gpu, &mode, &pending) == NVML_OK && mode == NVML_MIG_ENABLED) {
            code = nvml->mig_count_max(gpu, &mig_count_max);
            if (code != NVML_OK) {
                remark_device(remark, i, "number of MIG devices", code);
                continue;
            }
            if (!migs_visit(nvml, gpu, i, mig_count_max, visitor, context)) {
                return 0;
            }
        } else if (!visitor(nvml, gpu, i, false, context)) {
            return 0;
        }
    }
    return 0;
}

struct list {
    struct slot_info *slots;
    size_t count;
    char *remark;
};

static bool list_add(struct slots_nvml *nvml, nvml_device device, unsigned int number, bool is_part, void *context)
{
    struct list *list = context;
    if (list->count == SLOTS_MAX) {
        (void)snprintf(list->remark, SLOTS_ERROR_BYTES, "this machine has more GPUs than the %d that one node can offer",
                       SLOTS_MAX);
        return false;
    }
    char uuid[NVML_TEXT_BYTES] = "";
    char name[NVML_TEXT_BYTES] = "";
    struct nvml_memory memory = {0};
    struct slot_info slot = {.kind = SLOT_CUDA, .index = (uint32_t)list->count};
    int code = nvml->device_uuid(device, uuid, sizeof uuid);
    if (code != NVML_OK || !bytes_copy_text(slot.uuid, sizeof slot.uuid, uuid) || uuid[0] == '\0') {
        (void)snprintf(list->remark, SLOTS_ERROR_BYTES, "a GPU is left out: it has no usable uuid (NVML error %d)", code);
        return true;
    }
    code = nvml->device_memory(device, &memory);
    if (code != NVML_OK && code != NVML_NOT_SUPPORTED) { /* boards that share the machine's memory do not report any */
        (void)snprintf(list->remark, SLOTS_ERROR_BYTES, "%s is left out: it does not answer (NVML error %d)", slot.uuid,
                       code);
        return true;
    }
    slot.memory_bytes = memory.total;
    bool named = nvml->device_name(device, name, sizeof name) == NVML_OK;
    (void)bytes_copy_text(slot.model, sizeof slot.model, named ? name : "NVIDIA GPU");
    slot.is_part = is_part;
    if (is_part) {
        (void)bytes_copy_text(slot.visible, sizeof slot.visible, slot.uuid);
    } else { /* a number, since many programs take the variable for a list of numbers */
        (void)snprintf(slot.visible, sizeof slot.visible, "%u", number);
    }
    list->slots[list->count++] = slot;
    return true;
}

int slots_nvml_list(struct slots_nvml *nvml, struct slot_info slots[SLOTS_MAX], size_t *count,
                    char remark[SLOTS_ERROR_BYTES])
{
    remark[0] = '\0';
    struct list list = {.slots = slots, .remark = remark};
    int result = devices_visit(nvml, list_add, &list, remark);
    if (result == 0) {
        *count = list.count;
    }
    return result;
}

struct question {
    const char *uuid;
    slots_nvml_owned is_owned;
    void *context;
    bool busy;
    int result;
};

/* Asks for the list of processes. Every process of the list is passed over that the caller owns. */
static void processes_look(struct slots_nvml *nvml, nvml_device device, struct question *question)
{
    struct nvml_process *processes = NULL;
    unsigned int count = 0;
    int code = nvml->processes == NULL ? NVML_NOT_SUPPORTED : nvml->processes(device, &count, NULL);
    if (code == NVML_INSUFFICIENT_SIZE && question->is_owned != NULL) {
        count = count < PROCESSES_MAX ? PROCESSES_MAX : count + PROCESSES_MAX; /* others may start meanwhile */
        processes = calloc(count, sizeof *processes);
        code = processes != NULL ? nvml->processes(device, &count, processes) : code;
    }
    question->busy = code == NVML_INSUFFICIENT_SIZE || (code == NVML_OK && count > 0 && processes == NULL);
    for (unsigned int i = 0; processes != NULL && code == NVML_OK && i < count; i++) {
        question->busy |= !question->is_owned(question->context, processes[i].pid);
    }
    question->result = code == NVML_OK || code == NVML_INSUFFICIENT_SIZE ? 0 : ERR_REFUSED;
    free(processes);
}

static bool question_ask(struct slots_nvml *nvml, nvml_device device, unsigned int number, bool is_part, void *context)
{
    (void)number;
    (void)is_part;
    struct question *question = context;
    char uuid[NVML_TEXT_BYTES] = "";
    if (nvml->device_uuid(device, uuid, sizeof uuid) != NVML_OK || strcmp(uuid, question->uuid) != 0) {
        return true;
    }
    processes_look(nvml, device, question);
    return false;
}

int slots_nvml_busy(struct slots_nvml *nvml, const char *uuid, slots_nvml_owned is_owned, void *context, bool *busy)
{
    char remark[SLOTS_ERROR_BYTES];
    struct question question = {.uuid = uuid, .is_owned = is_owned, .context = context, .result = ERR_NOT_FOUND};
    int result = devices_visit(nvml, question_ask, &question, remark);
    if (result == 0) {
        result = question.result;
    }
    if (result == 0) {
        *busy = question.busy;
    }
    return result;
}

struct use_question {
    const char *uuid;
    struct slots_nvml_use use;
    int result;
};

static bool use_ask(struct slots_nvml *nvml, nvml_device device, unsigned int number, bool is_part, void *context)
{
    (void)number;
    struct use_question *question = context;
    char uuid[NVML_TEXT_BYTES] = "";
    if (nvml->device_uuid(device, uuid, sizeof uuid) != NVML_OK || strcmp(uuid, question->uuid) != 0) {
        return true;
    }
    struct nvml_memory memory = {0};
    struct nvml_utilization rates = {0};
    bool has_memory = nvml->device_memory(device, &memory) == NVML_OK;
    bool has_rates = !is_part && nvml->utilization != NULL && nvml->utilization(device, &rates) == NVML_OK;
    unsigned int celsius = 0, milliwatts = 0;
    unsigned long long millijoules = 0;
    bool has_celsius = !is_part && nvml->temperature != NULL &&
                       nvml->temperature(device, NVML_TEMPERATURE_GPU, &celsius) == NVML_OK;
    bool has_power = !is_part && nvml->power != NULL && nvml->power(device, &milliwatts) == NVML_OK;
    bool has_energy = !is_part && nvml->energy != NULL && nvml->energy(device, &millijoules) == NVML_OK;
    question->use.celsius = has_celsius ? celsius : SLOTS_NVML_UNKNOWN;
    question->use.milliwatts = has_power ? milliwatts : SLOTS_NVML_UNKNOWN;
    question->use.millijoules = has_energy ? millijoules : SLOTS_NVML_UNKNOWN;
    question->use.memory_bytes = has_memory ? memory.used : 0;
    question->use.percent = has_rates ? rates.gpu : UINT64_MAX;
    question->result = has_memory ? 0 : ERR_REFUSED;
    return false;
}

int slots_nvml_use(struct slots_nvml *nvml, const char *uuid, struct slots_nvml_use *out)
{
    char remark[SLOTS_ERROR_BYTES];
    struct use_question question = {.uuid = uuid, .result = ERR_NOT_FOUND};
    int result = devices_visit(nvml, use_ask, &question, remark);
    result = result == 0 ? question.result : result;
    if (result == 0) {
        *out = question.use;
    }
    return result;
}

bool slots_nvml_listen(struct slots_nvml *nvml)
{
    unsigned int count = 0;
    nvml_device gpu;
    if (nvml->events != NULL || nvml->events_new == NULL) {
        return nvml->events != NULL;
    }
    if (nvml->device_count(&count) != NVML_OK || nvml->events_new(&nvml->events) != NVML_OK) {
        nvml->events = NULL;
        return false;
    }
    bool any = false;
    for (unsigned int i = 0; i < count; i++) {
        any |= nvml->device_by_index(i, &gpu) == NVML_OK &&
               nvml->events_register(gpu, NVML_EVENT_XID, nvml->events) == NVML_OK;
    }
    if (!any) {
        (void)nvml->events_free(nvml->events);
        nvml->events = NULL;
        nvml->events_new = NULL; /* no GPU of this machine tells of errors: it is not asked again */
    }
    return any;
}

bool slots_nvml_next_error(struct slots_nvml *nvml, char uuid[SLOTS_NVML_UUID_BYTES], uint64_t *xid)
{
    struct nvml_event event = {0};
    if (nvml->events == NULL || nvml->events_next(nvml->events, &event, 0) != NVML_OK ||
        nvml->device_uuid(event.device, uuid, SLOTS_NVML_UUID_BYTES) != NVML_OK) {
        return false;
    }
    *xid = event.data;
    return true;
}
