// What the tests do to the fake machine from outside. `ctl create <gpus>` makes it; the rest change or print one thing.
#define _GNU_SOURCE
#include "state.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int create(int gpus) {
  int fd = open(getenv("EGPU_FAKE_CUDA"), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct machine)) != 0) return 1;
  struct machine *machine = machine_open();
  if (!machine) return 1;
  machine->gpu_count = gpus;
  machine->driver_major = 580;
  machine->cuda_version = 13000;
  machine->checkpoint_ms = 5;
  for (int i = 0; i < gpus; i++) {
    struct gpu *gpu = &machine->gpus[i];
    for (int k = 0; k < 16; k++) gpu->uuid[k] = 16 * (i + 1) + k;
    snprintf(gpu->bus_id, sizeof gpu->bus_id, "00000000:%02X:00.0", 6 + i);
    snprintf(gpu->name, sizeof gpu->name, "NVIDIA GeForce RTX 4090");
    gpu->pci_device = 0x268410de;
    gpu->pci_subsystem = 0x40bf1458;
    gpu->memory_total = 24ULL << 30;
    gpu->present = 1;
    gpu->temperature = 41 + i;
    gpu->slowdown = 92;
    gpu->power_mw = 31500;
    gpu->gen = 1, gpu->max_gen = 4, gpu->width = gpu->max_width = 4;
  }
  return 0;
}

static int call_named(const char *name) {
  static const char *names[] = {"lock", "checkpoint", "restore", "unlock", "state", "nvml"};
  for (int i = 0; i < CALLS; i++)
    if (!strcmp(names[i], name)) return i;
  fprintf(stderr, "no call %s\n", name);
  exit(2);
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[1] : "";
  if (!strcmp(verb, "create")) return create(atoi(argv[2]));
  struct machine *machine = machine_open();
  if (!machine) return 1;
  machine_lock(machine);
  if (!strcmp(verb, "gpu")) {
    // gpu <index> <field> <value>
    struct gpu *gpu = &machine->gpus[atoi(argv[2])];
    const char *field = argv[3];
    uint64_t value = strtoull(argv[4], 0, 0);
    if (!strcmp(field, "present")) gpu->present = value;
    else if (!strcmp(field, "lost")) gpu->lost = value;
    else if (!strcmp(field, "temperature")) gpu->temperature = value;
    else if (!strcmp(field, "replays")) gpu->replays = value;
    else if (!strcmp(field, "width")) gpu->width = value;
    else if (!strcmp(field, "gen")) gpu->gen = value;
    else if (!strcmp(field, "utilization")) gpu->utilization = value;
    else if (!strcmp(field, "recovery")) gpu->recovery_action = value;
    else if (!strcmp(field, "device")) gpu->pci_device = value;
    else if (!strcmp(field, "memory")) gpu->memory_total = value;
    else if (!strcmp(field, "serial")) snprintf(gpu->serial, sizeof gpu->serial, "%s", argv[4]);
    else return 2;
  } else if (!strcmp(verb, "event")) {
    struct event event = {atoi(argv[2]), strtoull(argv[3], 0, 0), strtoull(argv[4], 0, 0)};
    machine->events[machine->event_count] = event;
    machine->event_count++;
  } else if (!strcmp(verb, "driver")) {
    machine->driver_major = atoi(argv[2]);
    machine->cuda_version = atoi(argv[3]);
  } else if (!strcmp(verb, "pause")) {
    // pause <call> <before|after> [how many to let pass]
    machine->pause_reached = 0;
    machine->pause_after = !strcmp(argv[3], "after");
    machine->pause_skip = argc > 4 ? atoi(argv[4]) : 0;
    machine->pause_call = call_named(argv[2]) + 1;
  } else if (!strcmp(verb, "go-on")) {
    machine->pause_call = machine->pause_reached = 0;
  } else if (!strcmp(verb, "paused")) {
    printf("%d\n", machine->pause_reached);
  } else if (!strcmp(verb, "fail")) {
    // fail <call> <result> <count>
    machine->fail_call = call_named(argv[2]);
    machine->fail_result = atoi(argv[3]);
    machine->fail_count = atoi(argv[4]);
  } else if (!strcmp(verb, "hang-nvml")) {
    machine->nvml_hangs = atoi(argv[2]);
  } else if (!strcmp(verb, "hang-init")) {
    machine->init_hangs = atoi(argv[2]);
    machine->init_reached = 0;
  } else if (!strcmp(verb, "hanging")) {
    printf("%u\n", machine->init_reached);
  } else if (!strcmp(verb, "foreign-kernel")) {
    machine->foreign_kernel = atoi(argv[2]);
  } else if (!strcmp(verb, "import")) {
    // import <pid> <bytes>: it opens memory of another process
    struct process *process = machine_process(machine, atoi(argv[2]));
    if (process) process->imported = strtoull(argv[3], 0, 0);
  } else if (!strcmp(verb, "grow")) {
    // grow <pid> <bytes>: it holds so much from now on
    struct process *process = machine_process(machine, atoi(argv[2]));
    if (process) process->bytes = strtoull(argv[3], 0, 0);
  } else if (!strcmp(verb, "state")) {
    // state <pid> <state>: somebody else has put it there
    struct process *process = machine_process(machine, atoi(argv[2]));
    if (process) process->state = atoi(argv[3]);
  } else if (!strcmp(verb, "adopt")) {
    // adopt <gpu> <bytes> <pid>...: programs that only are there
    for (int i = 4, slot = 0; i < argc; i++) {
      while (slot < MAX_PROCESSES && machine->processes[slot].pid) slot++;
      if (slot == MAX_PROCESSES) return 2;
      struct process process = {.pid = atoi(argv[i]), .gpu = atoi(argv[2]), .bytes = strtoull(argv[3], 0, 0)};
      machine->processes[slot] = process;
    }
  } else if (!strcmp(verb, "checkpoint-ms")) {
    machine->checkpoint_ms = atoi(argv[2]);
  } else if (!strcmp(verb, "attached")) {
    printf("%u\n", machine->gpus[atoi(argv[2])].attached);
  } else if (!strcmp(verb, "process")) {
    // process <pid>: its state and GPU
    struct process *process = machine_process(machine, atoi(argv[2]));
    if (process) printf("%d %d\n", process->state, process->gpu);
    else printf("gone\n");
  } else if (!strcmp(verb, "log")) {
    static const char *names[] = {"lock", "checkpoint", "restore", "unlock", "state", "nvml"};
    for (unsigned i = 0; i < machine->log_count; i++) {
      struct logged *entry = &machine->log[i];
      printf("%s %d %d\n", names[entry->call], entry->pid, entry->result);
    }
  } else {
    machine_unlock(machine);
    return 2;
  }
  machine_unlock(machine);
  return 0;
}
