// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD for an srun of one's own: a user's own programs do what she wants.
//   SHIM_LOG=FILE          writes there what the plugin hands to the nodes in the environment, NAME=VALUE
//   SHIM_<NAME>=VALUE      hands this in its place; SHIM_FROM and SHIM_TO replace a part of any of them
//   SHIM_MUTE=1            the plugin never accepts a connection; the kernel does
//   SHIM_NODES=LIST        Slurm seems to call the step's nodes so
#define _GNU_SOURCE
#include <dlfcn.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ours "SLURM_RDMA_NCCL_"

static char* replaced(const char* value) {
    const char* const from = getenv("SHIM_FROM");
    const char* const to = getenv("SHIM_TO");
    const char* const at = from && to ? strstr(value, from) : NULL;
    char* text = NULL;
    if (!at)
        return strdup(value);
    if (asprintf(&text, "%.*s%s%s", (int)(at - value), value, to, at + strlen(from)) < 0)
        abort();
    return text;
}

int setenv(const char* name, const char* value, int overwrite) {
    int (*const real)(const char*, const char*, int) = dlsym(RTLD_NEXT, "setenv");
    if (strncmp(name, ours, strlen(ours)) != 0 || *value == 0)
        return real(name, value, overwrite);
    char instead[256];
    snprintf(instead, sizeof instead, "SHIM_%s", name + strlen(ours));
    char* const text = getenv(instead) ? strdup(getenv(instead)) : replaced(value);
    FILE* const log = getenv("SHIM_LOG") ? fopen(getenv("SHIM_LOG"), "a") : NULL;
    if (log) {
        fprintf(log, "%s=%s\n", name, text);
        fclose(log);
    }
    return real(name, text, overwrite);
}

static int is_of_plugin(const void* caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "rdma_nccl.so");
}

int accept4(int listener, struct sockaddr* address, socklen_t* length, int flags) {
    int (*const real)(int, struct sockaddr*, socklen_t*, int) = dlsym(RTLD_NEXT, "accept4");
    while (getenv("SHIM_MUTE") && is_of_plugin(__builtin_return_address(0)))
        pause();
    return real(listener, address, length, flags);
}

slurm_step_layout_t* slurm_job_step_layout_get(slurm_step_id_t* step) {
    slurm_step_layout_t* (*const real)(slurm_step_id_t*) = dlsym(RTLD_NEXT, "slurm_job_step_layout_get");
    slurm_step_layout_t* const layout = real(step);
    if (layout && getenv("SHIM_NODES"))
        layout->node_list = strdup(getenv("SHIM_NODES"));
    return layout;
}

// Slurm's would see that the names are not its own memory.
void slurm_job_step_layout_free(slurm_step_layout_t* layout) {
    void (*const real)(slurm_step_layout_t*) = dlsym(RTLD_NEXT, "slurm_job_step_layout_free");
    if (layout && getenv("SHIM_NODES"))
        layout->node_list = NULL;
    real(layout);
}
