// A machine with NVIDIA GPUs in a file that every process maps: the fake libraries, their victims and the tests' own
// control program all work on it, so that what one process did is there after it was killed.
#pragma once
#include <stdint.h>

#define MAX_GPUS 4
#define MAX_PROCESSES 256
#define CELLS 256
#define MAX_LOG 512
#define MAX_EVENTS 64

enum call { CALL_LOCK, CALL_CHECKPOINT, CALL_RESTORE, CALL_UNLOCK, CALL_STATE, CALL_NVML, CALLS };
enum process_state { RUNNING, LOCKED, CHECKPOINTED, FAILED };
enum request { REQUEST_NONE, REQUEST_CHECKPOINT, REQUEST_RESTORE };

struct gpu {
  uint8_t uuid[16];
  char bus_id[32];
  char name[64];
  char serial[30];
  uint32_t pci_device, pci_subsystem;
  uint64_t memory_total;
  uint32_t present, lost;
  uint32_t temperature, slowdown, power_mw, replays;
  uint32_t gen, max_gen, width, max_width, utilization;
  uint32_t recovery_action;
  // How often somebody took a handle, which wakes a real GPU.
  uint32_t attached;
  // What its processes keep in its memory.
  uint64_t memory[MAX_PROCESSES][CELLS];
};

struct process {
  int32_t pid;
  volatile int32_t state;
  int32_t gpu;
  uint64_t bytes;
  uint32_t uvm, fails_badly, gpu_instance;
  // Memory of another process that it has open: a checkpoint succeeds, its restore never does.
  uint64_t imported;
  // A restore went wrong in a way after which no other is answered (cuda-checkpoint issue 44).
  uint32_t spoiled;
  // Which GPUs it may see; their nodes are open while it is not parked.
  uint32_t visible;
  volatile uint32_t in_call;
  // Work the process's own thread does on behalf of the controller; it goes on when the controller dies.
  volatile uint32_t request;
  volatile int32_t request_gpu;
  uint64_t host[CELLS];
};

struct logged {
  uint32_t call;
  int32_t pid;
  int32_t result;
  int32_t caller;
};

struct event {
  uint32_t gpu;
  uint64_t type, data;
};

struct machine {
  volatile int32_t mutex;
  uint32_t gpu_count, driver_major, cuda_version;
  struct gpu gpus[MAX_GPUS];
  struct process processes[MAX_PROCESSES];
  // Stop the caller before or after the next such call took effect, for good or until cleared.
  volatile int32_t pause_call, pause_after, pause_reached;
  // How many of these calls let pass first.
  int32_t pause_skip;
  // The next `fail_count` calls answer `fail_result` and do nothing.
  int32_t fail_call, fail_result, fail_count;
  uint32_t checkpoint_ms;
  // NVML calls hang.
  volatile uint32_t nvml_hangs;
  // cuInit hangs, and has been called since.
  volatile uint32_t init_hangs, init_reached;
  // The kernel driver has other structures than those it is asked with.
  uint32_t foreign_kernel;
  volatile uint32_t event_count;
  struct event events[MAX_EVENTS];
  uint32_t log_count;
  struct logged log[MAX_LOG];
};

struct machine *machine_open(void);
void machine_lock(struct machine *machine);
void machine_unlock(struct machine *machine);
struct process *machine_process(struct machine *machine, int pid);
void machine_log(struct machine *machine, int call, int pid, int result);
void machine_pause(struct machine *machine, int call, int after);
// Nonzero when the next such call has to fail with that result.
int machine_failure(struct machine *machine, int call);
uint64_t machine_memory_used(struct machine *machine, int gpu);
void sleep_ms(unsigned ms);
