// The part of NVIDIA's kernel driver that says what a process has open of others: `ioctl` on files that stand for the
// device nodes. Objects belong to the control file's client, a GPU needs its own file, sizes have to fit.
#define _GNU_SOURCE
#include "state.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 0x1f, NO_PERMISSION = 0x1b, INVALID_CLIENT = 0x23 };
enum { CLIENT = 0xc1d00001, DEVICE = 0x1000, SUBDEVICE = 0x2000 };

struct allocate { uint32_t root, parent, object, class; uint64_t parameters; uint32_t size, status; };
struct control { uint32_t client, object, command, flags; uint64_t parameters; uint32_t size, status; };
struct pid_info { uint32_t pid, index, result; uint64_t memory[6]; uint32_t instances[2]; };
struct pid_list { uint32_t count; struct pid_info infos[200]; };
struct pci { uint32_t id, domain; uint16_t bus, slot; };
_Static_assert(sizeof(struct pid_list) == 14408, "as in ctrl2080gpu.h of driver 580");

static int registered[MAX_GPUS];

// The name of an open file without its directory.
static void name_of(int fd, char *name, size_t size) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  char *slash = strrchr(path, '/');
  snprintf(name, size, "%s", slash ? slash + 1 : "");
}

static uint32_t id_of(struct machine *machine, int gpu) {
  unsigned domain = 0, bus = 0, slot = 0;
  sscanf(machine->gpus[gpu].bus_id, "%x:%x:%x", &domain, &bus, &slot);
  return domain << 16 | bus << 8 | slot;
}

static int gpu_with(struct machine *machine, uint32_t id) {
  for (unsigned i = 0; i < machine->gpu_count; i++)
    if (machine->gpus[i].present && id_of(machine, i) == id) return i;
  return -1;
}

static uint32_t allocate(struct machine *machine, struct allocate *request) {
  if (request->class == 0x41) return request->object = CLIENT, OK;
  if (request->root != CLIENT) return INVALID_CLIENT;
  uint32_t *parameters = (uint32_t *)(uintptr_t)request->parameters;
  if (request->class == 0x80) {
    if (request->size != 56 || parameters[0] >= machine->gpu_count) return INVALID_ARGUMENT;
    if (!registered[parameters[0]]) return NO_PERMISSION;
    return request->object = DEVICE + parameters[0], OK;
  }
  if (request->class != 0x2080 || request->size != 4 || request->parent < DEVICE) return INVALID_ARGUMENT;
  return request->object = request->parent - DEVICE + SUBDEVICE, OK;
}

static uint32_t control(struct machine *machine, struct control *request) {
  if (request->client != CLIENT) return INVALID_CLIENT;
  void *parameters = (void *)(uintptr_t)request->parameters;
  if (request->command == 0x201 && request->size == 128) {
    uint32_t *ids = parameters;
    unsigned count = 0;
    // Last attached first, as seen on a real machine.
    for (int i = machine->gpu_count - 1; i >= 0; i--)
      if (machine->gpus[i].present) ids[count++] = id_of(machine, i);
    while (count < 32) ids[count++] = 0xffffffff;
    return OK;
  }
  if (request->command == 0x21b && request->size == sizeof(struct pci)) {
    struct pci *pci = parameters;
    int gpu = gpu_with(machine, pci->id);
    if (gpu < 0) return INVALID_ARGUMENT;
    pci->domain = pci->id >> 16, pci->bus = pci->id >> 8 & 0xff, pci->slot = pci->id & 0xff;
    return OK;
  }
  if (request->command == 0x205 && request->size == 32) {
    uint32_t *info = parameters;
    int gpu = gpu_with(machine, info[0]);
    if (gpu < 0) return INVALID_ARGUMENT;
    info[2] = gpu;
    return OK;
  }
  if (request->command != 0x2080018e || request->size != sizeof(struct pid_list) || machine->foreign_kernel)
    return INVALID_ARGUMENT;
  struct pid_list *list = parameters;
  if (list->count > 200) return INVALID_ARGUMENT;
  for (unsigned i = 0; i < list->count; i++) {
    struct process *process = machine_process(machine, list->infos[i].pid);
    int is_here = process && process->state != CHECKPOINTED && (int)(request->object - SUBDEVICE) == process->gpu;
    list->infos[i].memory[1] = is_here ? process->bytes : 0;
    list->infos[i].memory[2] = is_here ? process->imported : 0;
  }
  return OK;
}

int ioctl(int fd, unsigned long code, void *argument) {
  struct machine *machine = machine_open();
  unsigned size = code >> 16 & 0x3fff, number = code & 0xff;
  if (!machine || (code >> 8 & 0xff) != 'F' || code >> 30 != 3) return -1;
  char name[64];
  name_of(fd, name, sizeof name);
  if (number == 201 && size == 4) {
    char target[64];
    name_of(*(int *)argument, target, sizeof target);
    unsigned minor;
    if (sscanf(name, "nvidia%u", &minor) != 1 || minor >= MAX_GPUS || strcmp(target, "nvidiactl")) return -1;
    registered[minor] = 1;
    return 0;
  }
  if (strcmp(name, "nvidiactl") || size != 32) return -1;
  machine_lock(machine);
  if (number == 0x2b) ((struct allocate *)argument)->status = allocate(machine, argument);
  else if (number == 0x2a) ((struct control *)argument)->status = control(machine, argument);
  machine_unlock(machine);
  return number == 0x2a || number == 0x2b ? 0 : -1;
}
