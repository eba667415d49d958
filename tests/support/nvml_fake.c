/* A small libnvidia-ml.so.1: answers from the text file that FAKE_NVML_STATE names, read anew at
 * each call, so that a test can change the machine under the probe.
 *
 *   count=2                         number of GPUs
 *   driver=550.54
 *   0.uuid=GPU-...  0.name=...  0.bus=00000000:07:00.0  0.total=MiB  0.used=MiB  0.util=37
 *   0.temp=40  0.power=mW  0.ecc=0  0.pids=12,13  0.graphics=14  0.mps=15
 *   0.rows.pending=1  0.rows.failure=1  0.mig=1
 *   0.link.0=00000000:0F:00.0       other end of an active NVLink; "switch" for an NVSwitch
 *   topo.0.1=30                     common ancestor
 *   0.lost=1                        every call about the GPU says so
 *   0.error.nvmlDeviceGetPowerUsage=3   error of one call about one GPU
 *   error.nvmlInitWithFlags=9       error of one call
 *   event.1=0:79                    first event: XID 79 of GPU 0; then event.2, ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { MAX_GPUS = 64, LINE = 512 };
static const unsigned long long XID_EVENT = 8;

typedef struct { int index; } Device;
typedef struct { unsigned long long watched; } EventSet;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_device, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
typedef struct { Device *device; unsigned long long type, data; unsigned gi, ci; } Event;

static Device devices[MAX_GPUS];

static int lookup(const char *key, char *value) {
    FILE *file = fopen(getenv("FAKE_NVML_STATE"), "r");
    char line[LINE];
    size_t size = strlen(key);
    int found = 0;
    while (file && !found && fgets(line, LINE, file))
        if (!strncmp(line, key, size) && line[size] == '=') {
            line[strcspn(line, "\n")] = 0;
            strcpy(value, line + size + 1);
            found = 1;
        }
    if (file) fclose(file);
    return found;
}

static long long number(const char *key, long long otherwise) {
    char value[LINE];
    return lookup(key, value) ? atoll(value) : otherwise;
}

static const char *of(Device *device, const char *name) {
    static _Thread_local char key[LINE];
    snprintf(key, LINE, "%d.%s", device->index, name);
    return key;
}

static int failure(Device *device, const char *call) {
    char name[LINE];
    if (number(of(device, "lost"), 0)) return GPU_IS_LOST;
    snprintf(name, LINE, "error.%s", call);
    return (int)number(of(device, name), OK);
}

#define CHECK(device) \
    do { int error = failure(device, __func__); if (error) return error; } while (0)

static int text(Device *device, const char *name, char *out, unsigned size) {
    char value[LINE];
    if (!lookup(of(device, name), value)) return NOT_SUPPORTED;
    snprintf(out, size, "%s", value);
    return OK;
}

static int count(void) { return (int)number("count", 0); }

static int next_event; /* of the state file: sets share it, as a driver's events come once */

int nvmlInitWithFlags(unsigned flags) { (void)flags; next_event = 1; return (int)number("error.nvmlInitWithFlags", OK); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int error) { static char words[32]; snprintf(words, 32, "fake error %d", error); return words; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    char value[LINE];
    if (!lookup("driver", value)) return NOT_SUPPORTED;
    snprintf(out, size, "%s", value);
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = (unsigned)count();
    return (int)number("error.nvmlDeviceGetCount_v2", OK);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    if ((int)index >= count()) return INVALID_ARGUMENT;
    devices[index].index = (int)index;
    *out = &devices[index];
    CHECK(*out);
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **out) {
    char value[LINE];
    for (int index = 0; index < count(); index++) {
        devices[index].index = index;
        if (lookup(of(&devices[index], "uuid"), value) && !strcmp(value, uuid)) {
            *out = &devices[index];
            CHECK(*out);
            return OK;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Device *device, char *out, unsigned size) { CHECK(device); return text(device, "uuid", out, size); }
int nvmlDeviceGetName(Device *device, char *out, unsigned size) { CHECK(device); return text(device, "name", out, size); }

int nvmlDeviceGetPciInfo_v3(Device *device, Pci *out) {
    CHECK(device);
    memset(out, 0, sizeof *out);
    return text(device, "bus", out->bus_id, sizeof out->bus_id);
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *out) {
    CHECK(device);
    out->total = (unsigned long long)number(of(device, "total"), 0) << 20;
    out->used = (unsigned long long)(number(of(device, "used"), 0) + 500) << 20; /* with reserved */
    out->free = out->total - out->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *out) {
    CHECK(device);
    if (out->version != 0x02000028) return INVALID_ARGUMENT;
    out->total = (unsigned long long)number(of(device, "total"), 0) << 20;
    out->used = (unsigned long long)number(of(device, "used"), 0) << 20;
    out->reserved = 500ull << 20;
    out->free = out->total - out->used - out->reserved;
    return OK;
}

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *out) {
    CHECK(device);
    out->gpu = (unsigned)number(of(device, "util"), 0);
    out->memory = 0;
    return OK;
}

int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *out) {
    CHECK(device);
    (void)sensor;
    *out = (unsigned)number(of(device, "temp"), 0);
    return OK;
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned *out) {
    CHECK(device);
    *out = (unsigned)number(of(device, "power"), 0);
    return OK;
}

int nvmlDeviceGetTotalEccErrors(Device *device, int type, int counter, unsigned long long *out) {
    CHECK(device);
    *out = type == 1 && counter == 0 ? (unsigned long long)number(of(device, "ecc"), 0) : 0;
    return OK;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *now, unsigned *pending) {
    CHECK(device);
    int found = (int)number(of(device, "mig"), -1);
    if (found < 0)
        return NOT_SUPPORTED; /* as most GPUs */
    *now = *pending = (unsigned)found;
    return OK;
}

int nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    CHECK(device);
    *corrected = *uncorrected = 0;
    *pending = (unsigned)number(of(device, "rows.pending"), 0);
    *failed = (unsigned)number(of(device, "rows.failure"), 0);
    return OK;
}

static int processes(Device *device, const char *kind, unsigned *size, Process *out) {
    char value[LINE];
    unsigned found = 0;
    if (lookup(of(device, kind), value))
        for (char *pid = strtok(value, ","); pid; pid = strtok(NULL, ","), found++)
            if (out && found < *size) out[found] = (Process){(unsigned)atoi(pid), 1 << 20, 0, 0};
    int fits = found <= *size;
    *size = found;
    return fits ? OK : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *size, Process *out) { CHECK(device); return processes(device, "pids", size, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *size, Process *out) { CHECK(device); return processes(device, "graphics", size, out); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device *device, unsigned *size, Process *out) { CHECK(device); return processes(device, "mps", size, out); }

int nvmlDeviceGetTopologyCommonAncestor(Device *one, Device *other, int *out) {
    char key[LINE];
    CHECK(one);
    int low = one->index < other->index ? one->index : other->index;
    snprintf(key, LINE, "topo.%d.%d", low, one->index + other->index - low);
    *out = (int)number(key, -1);
    return *out < 0 ? NOT_SUPPORTED : OK;
}

static int link_end(Device *device, unsigned link, char *value) {
    char name[LINE];
    snprintf(name, LINE, "link.%u", link);
    return lookup(of(device, name), value);
}

int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *active) {
    char value[LINE];
    CHECK(device);
    if (!link_end(device, 0, value)) return NOT_SUPPORTED;
    if (link >= 18) return INVALID_ARGUMENT;
    *active = (unsigned)link_end(device, link, value);
    return OK;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device *device, unsigned link, unsigned *type) {
    char value[LINE];
    CHECK(device);
    if (!link_end(device, link, value)) return INVALID_ARGUMENT;
    *type = strcmp(value, "switch") ? 0 : 2;
    return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, unsigned link, Pci *out) {
    char value[LINE];
    CHECK(device);
    if (!link_end(device, link, value)) return INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%.31s", value);
    return OK;
}

int nvmlDeviceGetSupportedEventTypes(Device *device, unsigned long long *out) {
    CHECK(device);
    *out = 31;
    return OK;
}

int nvmlEventSetCreate(EventSet **out) {
    *out = calloc(1, sizeof **out);
    return (int)number("error.nvmlEventSetCreate", OK);
}

int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, EventSet *set) {
    CHECK(device);
    if (types & XID_EVENT) set->watched |= 1ull << device->index;
    return OK;
}

int nvmlEventSetWait_v2(EventSet *set, Event *out, unsigned timeout_ms) {
    char key[LINE], value[LINE];
    struct timespec moment = {0, 10 * 1000 * 1000};
    for (unsigned waited = 0; waited <= timeout_ms; waited += 10) {
        int error = (int)number("error.nvmlEventSetWait_v2", OK);
        if (error) return error;
        snprintf(key, LINE, "event.%d", next_event);
        if (lookup(key, value)) {
            int index = atoi(value);
            next_event++;
            if (!(set->watched >> index & 1)) continue;
            devices[index].index = index;
            *out = (Event){&devices[index], XID_EVENT, strtoull(strchr(value, ':') + 1, NULL, 10), 0, 0};
            return OK;
        }
        nanosleep(&moment, NULL);
    }
    return TIMEOUT;
}

int nvmlEventSetFree(EventSet *set) { free(set); return OK; }
