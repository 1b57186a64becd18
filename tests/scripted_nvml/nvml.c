/* A stand-in libnvidia-ml.so.1 that does what a script beside it says: "<this file>.script".
 *
 * A line is FUNCTION INDEX ACTION; INDEX is the device or '*'. ACTION is
 *   = VALUE      answer with VALUE (numbers, separated by spaces; strings as hex digits)
 *   NUMBER       return this NVML code
 *   hang | segv | bus | abort | kill | memory | noise | sleep MILLISECONDS
 * The last fitting line counts. A function without a line gives NOT_SUPPORTED (3).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { char legacy[16]; u32 domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } pci_t;
typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned char uuid[16]; u32 status, clique; unsigned char state; } fabric_t;

static char value[4096];

static int act(const char *action) {
    int code;
    if (action[0] == '=') { strncpy(value, action + 2, sizeof value - 1); return 0; }
    if (!strncmp(action, "hang", 4)) for (;;) pause();
    if (!strncmp(action, "segv", 4)) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
    if (!strncmp(action, "bus", 3)) raise(SIGBUS);
    if (!strncmp(action, "abort", 5)) abort();
    if (!strncmp(action, "kill", 4)) raise(SIGKILL);
    if (!strncmp(action, "memory", 6)) exit(137);
    if (!strncmp(action, "noise", 5)) { puts("{\"step\": \"noise\"}"); fflush(stdout); return 0; }
    if (sscanf(action, "sleep %d", &code) == 1) { usleep(code * 1000); return 0; }
    return atoi(action);
}

static int look(const char *function, int index) {
    Dl_info self;
    char path[4096], line[8192], name[128], which[16], action[4096], *found = NULL, kept[4096];
    int n;
    dladdr((void *)look, &self);
    snprintf(path, sizeof path, "%s.script", self.dli_fname);
    FILE *file = fopen(path, "r");
    if (!file) return 999;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%127s %15s %n", name, which, &n) < 2) continue;
        strncpy(action, line + n, sizeof action - 1);
        action[sizeof action - 1] = 0;
        if (strcmp(name, function) || (strcmp(which, "*") && atoi(which) != index)) continue;
        strcpy(kept, action);
        found = kept;
    }
    fclose(file);
    value[0] = 0;
    return found ? act(found) : 3;
}

static int index_of(void *device) { return (int)((long)device - 1) % 1000; }
static void text(char *out, u32 size) {
    u32 length = strlen(value) / 2, byte;
    if (length >= size) length = size - 1;
    for (u32 i = 0; i < length; i++) { sscanf(value + 2 * i, "%2x", &byte); out[i] = (char)byte; }
    out[length] = 0;
}
#define TEXT(NAME) EXPORT int NAME(void *d, char *out, u32 size) \
    { int code = look(#NAME, index_of(d)); if (!code) text(out, size); return code; }
#define NUMBER(NAME) EXPORT int NAME(void *d, u32 *out) \
    { int code = look(#NAME, index_of(d)); if (!code) *out = strtoul(value, NULL, 10); return code; }
#define SYSTEM(NAME) EXPORT int NAME(char *out, u32 size) \
    { int code = look(#NAME, -1); if (!code) text(out, size); return code; }

EXPORT int nvmlInitWithFlags(u32 flags) { (void)flags; return look("nvmlInit", -1); }
EXPORT int nvmlInit_v2(void) { return look("nvmlInit", -1); }
EXPORT int nvmlShutdown(void) { return 0; }
EXPORT const char *nvmlErrorString(int code) { (void)code; return "scripted error"; }
SYSTEM(nvmlSystemGetDriverVersion)
SYSTEM(nvmlSystemGetNVMLVersion)
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out)
{ int code = look("nvmlSystemGetCudaDriverVersion_v2", -1); if (!code) *out = atoi(value); return code; }
EXPORT int nvmlDeviceGetCount_v2(u32 *out)
{ int code = look("nvmlDeviceGetCount_v2", -1); if (!code) *out = atoi(value); return code; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(u32 index, void **out)
{ *out = (void *)(long)(index + 1); return look("nvmlDeviceGetHandleByIndex_v2", index); }
EXPORT int nvmlDeviceGetName(void *d, char *out, u32 size) {
    int code = look((long)d > 1000 ? "migName" : "nvmlDeviceGetName", index_of(d));
    if (!code) text(out, size);
    return code;
}
TEXT(nvmlDeviceGetUUID)
EXPORT int nvmlDeviceGetPciInfo_v3(void *d, pci_t *out) {
    int code = look("nvmlDeviceGetPciInfo_v3", index_of(d));
    if (!code) { memset(out, 0, sizeof *out); sscanf(value, "%31s %u", out->busId, &out->pciDeviceId); }
    return code;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) {
    int code = look("nvmlDeviceGetCudaComputeCapability", index_of(d));
    if (!code) sscanf(value, "%d %d", major, minor);
    return code;
}
EXPORT int nvmlDeviceGetMemoryInfo(void *d, memory_t *out) {
    int code = look((long)d > 1000 ? "mig" : "nvmlDeviceGetMemoryInfo", index_of(d));
    if (!code) { out->free = 0; sscanf(value, "%llu %llu", &out->total, &out->used); }
    return code;
}
NUMBER(nvmlDeviceGetPersistenceMode)
NUMBER(nvmlDeviceGetMaxMigDeviceCount)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus)
NUMBER(nvmlDeviceGetVirtualizationMode)
EXPORT int nvmlDeviceGetMigMode(void *d, u32 *current, u32 *pending) {
    int code = look("nvmlDeviceGetMigMode", index_of(d));
    if (!code) { *current = atoi(value); *pending = *current; }
    return code;
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *d, u32 place, void **out) {
    *out = (void *)((long)d + 1000 + 100000 * (long)place);
    int code = look("nvmlDeviceGetMigDeviceHandleByIndex", index_of(d));
    return code ? code : (place < strtoul(value, NULL, 10) ? 0 : 6);
}
EXPORT int nvmlDeviceGetTotalEccErrors(void *d, u32 kind, u32 counter, u64 *out) {
    (void)kind; (void)counter;
    int code = look("nvmlDeviceGetTotalEccErrors", index_of(d));
    if (!code) *out = strtoull(value, NULL, 10);
    return code;
}
EXPORT int nvmlDeviceGetRemappedRows(void *d, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    int code = look("nvmlDeviceGetRemappedRows", index_of(d));
    if (!code) { *corrected = *uncorrected = 0; sscanf(value, "%u %u", pending, failed); }
    return code;
}
EXPORT int nvmlDeviceGetGpuFabricInfo(void *d, fabric_t *out) {
    int code = look("nvmlDeviceGetGpuFabricInfo", index_of(d));
    if (!code) { memset(out, 0, sizeof *out); out->state = atoi(value); }
    return code;
}
EXPORT int nvmlDeviceGetNvLinkState(void *d, u32 link, u32 *out) {
    (void)link;
    int code = look("nvmlDeviceGetNvLinkState", index_of(d));
    if (!code) *out = atoi(value);
    return code;
}
