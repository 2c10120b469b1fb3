/* NVIDIA devices as a server would find them: NVML for driver and memory in use, NVRTC for the
 * compiler. Both are opened at run time; nothing is computed and no context is made.
 * Source: NVML and NVRTC API references (nvmlDeviceGetMemoryInfo, nvrtcVersion). */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/doctor.h"

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver)(char *version, unsigned length);
    int (*cuda)(int *version);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *name, unsigned length);
    int (*memory)(void *device, struct nvml_memory *memory);
    int (*capability)(void *device, int *major, int *minor);
};

/* dlsym() gives an object pointer; POSIX allows this way to a function pointer. */
static int load(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    return *(void **)function != NULL;
}

static int open_nvml(struct nvml *n)
{
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    return n->library && load(n->library, "nvmlInit_v2", &n->init) &&
           load(n->library, "nvmlShutdown", &n->shutdown) &&
           load(n->library, "nvmlSystemGetDriverVersion", &n->driver) &&
           load(n->library, "nvmlSystemGetCudaDriverVersion_v2", &n->cuda) &&
           load(n->library, "nvmlDeviceGetCount_v2", &n->count) &&
           load(n->library, "nvmlDeviceGetHandleByIndex_v2", &n->handle) &&
           load(n->library, "nvmlDeviceGetName", &n->name) &&
           load(n->library, "nvmlDeviceGetMemoryInfo", &n->memory) &&
           load(n->library, "nvmlDeviceGetCudaComputeCapability", &n->capability);
}

static void check_device(struct doctor_report *r, const struct nvml *n, unsigned index)
{
    void *device;
    char name[96] = "?";
    struct nvml_memory memory = { 0 };
    int major = 0, minor = 0;
    if (n->handle(index, &device) != 0 || n->name(device, name, sizeof(name)) != 0 ||
        n->memory(device, &memory) != 0 || n->capability(device, &major, &minor) != 0) {
        doctor_add(r, DOCTOR_WARN, "GPU", "device %u does not answer", index);
        doctor_fix(r, "look at nvidia-smi; a reset or a reboot may be needed");
        return;
    }
    doctor_add(r, DOCTOR_OK, "GPU", "cuda:%u %s, compute %d.%d, %.1f of %.1f GiB in use", index,
               name, major, minor, (double)memory.used / 1073741824.0,
               (double)memory.total / 1073741824.0);
}

/* Returns the driver's CUDA version (12040 for 12.4), 0 without a driver. */
static int check_driver(struct doctor_report *r)
{
    struct nvml n = { 0 };
    int cuda = 0;
    if (open_nvml(&n) && n.init() == 0) {
        char driver[96] = "?";
        unsigned count = 0;
        n.driver(driver, sizeof(driver));
        n.cuda(&cuda);
        n.count(&count);
        doctor_add(r, DOCTOR_OK, "driver", "NVIDIA %s (CUDA %d.%d), %u device%s", driver,
                   cuda / 1000, cuda % 1000 / 10, count, count == 1 ? "" : "s");
        for (unsigned i = 0; i < count && i < 64; i++)
            check_device(r, &n, i);
        n.shutdown();
    } else {
        doctor_add(r, DOCTOR_OK, "driver", "no NVIDIA driver: the CPU computes");
    }
    if (n.library)
        dlclose(n.library);
    return cuda;
}

static void *open_nvrtc(void)
{
    static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };
    static const char *const variables[] = { NULL, "CUDA_PATH", "CUDA_HOME" };
    for (size_t v = 0; v < ARRAY_SIZE(variables); v++) {
        const char *folder = variables[v] ? getenv(variables[v]) : NULL;
        for (size_t i = 0; i < ARRAY_SIZE(names) && (v == 0 || folder); i++) {
            char path[1024];
            if (v == 0)
                snprintf(path, sizeof(path), "%s", names[i]);
            else
                snprintf(path, sizeof(path), "%.900s/lib64/%s", folder, names[i]);
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (library)
                return library;
        }
    }
    return NULL;
}

static void check_nvrtc(struct doctor_report *r, int cuda)
{
    void *library = open_nvrtc();
    int (*version)(int *major, int *minor);
    int major = 0, minor = 0;
    if (!library || !load(library, "nvrtcVersion", &version) || version(&major, &minor) != 0) {
        doctor_add(r, DOCTOR_WARN, "NVRTC", "not found: the GPU cannot be used");
        doctor_fix(r, "pip install nvidia-cuda-nvrtc and put its lib folder on LD_LIBRARY_PATH, "
                      "or set CUDA_PATH");
    } else if (major != cuda / 1000) {
        doctor_add(r, DOCTOR_WARN, "NVRTC", "%d.%d, while the driver has CUDA %d.%d", major, minor,
                   cuda / 1000, cuda % 1000 / 10);
        doctor_fix(r, "install an NVRTC of the driver's major version");
    } else {
        doctor_add(r, DOCTOR_OK, "NVRTC", "%d.%d", major, minor);
    }
    if (library)
        dlclose(library);
}

void doctor_gpu(struct doctor_report *r)
{
    int cuda = check_driver(r);
    if (cuda > 0)
        check_nvrtc(r, cuda);
}
