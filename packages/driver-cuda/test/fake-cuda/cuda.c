// The part of libcuda.so.1 that moves processes. Rules as measured on driver 580: a mapping lists every GPU of the
// machine or restore answers INVALID_VALUE and the process stays checkpointed; unlock out of turn is ILLEGAL_STATE; the
// target process does the copying itself, so it finishes even if the caller is killed meanwhile. Who has memory of
// another process open is checkpointed without complaint and never restored; neither is who once found no memory.
#define _GNU_SOURCE
#include "state.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum result {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_DEVICE = 101,
  OPERATING_SYSTEM = 304,
  ILLEGAL_STATE = 401,
  NOT_READY = 600,
  NOT_SUPPORTED = 801,
  UNKNOWN = 999,
};

struct lock_args { unsigned timeout_ms, reserved0; uint64_t reserved1[7]; };
struct plain_args { uint64_t reserved[8]; };
struct gpu_pair { uint8_t from[16], to[16]; };
struct restore_args { struct gpu_pair *pairs; unsigned count; char reserved[44]; uint64_t reserved1; };
_Static_assert(sizeof(struct lock_args) == 64 && sizeof(struct plain_args) == 64, "64 bytes each");
_Static_assert(sizeof(struct restore_args) == 64 && sizeof(struct gpu_pair) == 32, "as in cuda.h of CUDA 13.0");

static int initialized;

static int dirty(const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (((const char *)bytes)[i]) return 1;
  return 0;
}

int cuInit(unsigned flags) {
  if (flags) return INVALID_VALUE;
  struct machine *machine = machine_open();
  if (!machine) return UNKNOWN;
  while (machine->init_hangs) machine->init_reached = 1, sleep_ms(5);
  initialized = 1;
  return SUCCESS;
}

int cuDriverGetVersion(int *version) {
  struct machine *machine = machine_open();
  if (!machine) return UNKNOWN;
  *version = machine->cuda_version;
  return SUCCESS;
}

// Everything a call has in common: initialised, the process exists, an injected failure, a planned pause, the log.
static int begin(int call, int pid, struct machine **machine, struct process **process) {
  if (!initialized) return NOT_INITIALIZED;
  *machine = machine_open();
  machine_pause(*machine, call, 0);
  machine_lock(*machine);
  int failure = machine_failure(*machine, call);
  *process = machine_process(*machine, pid);
  if (failure) return failure;
  return *process ? SUCCESS : INVALID_VALUE;
}

static int end(int call, int pid, struct machine *machine, int result) {
  machine_log(machine, call, pid, result);
  machine_unlock(machine);
  machine_pause(machine, call, 1);
  return result;
}

int cuCheckpointProcessGetState(int pid, int *state) {
  struct machine *machine;
  struct process *process;
  int result = begin(CALL_STATE, pid, &machine, &process);
  if (result == NOT_INITIALIZED) return result;
  if (result == SUCCESS) *state = process->state;
  machine_unlock(machine);
  return result;
}

int cuCheckpointProcessLock(int pid, struct lock_args *args) {
  struct machine *machine;
  struct process *process;
  int result = begin(CALL_LOCK, pid, &machine, &process);
  if (result == NOT_INITIALIZED) return result;
  if (result == SUCCESS && args && (args->reserved0 || dirty(args->reserved1, sizeof args->reserved1)))
    result = INVALID_VALUE;
  if (result == SUCCESS && process->state != RUNNING) result = ILLEGAL_STATE;
  if (result == SUCCESS) {
    process->state = LOCKED;
    // Work that was submitted has to end first.
    for (unsigned waited = 0; process->in_call; waited++) {
      machine_unlock(machine);
      sleep_ms(1);
      machine_lock(machine);
      if (kill(pid, 0) != 0) return end(CALL_LOCK, pid, machine, OPERATING_SYSTEM);
      if (args && args->timeout_ms && waited >= args->timeout_ms && process->in_call) {
        process->state = RUNNING;
        return end(CALL_LOCK, pid, machine, NOT_READY);
      }
    }
  }
  return end(CALL_LOCK, pid, machine, result);
}

static int await_request(struct machine *machine, struct process *process, int pid) {
  while (process->request != REQUEST_NONE) {
    machine_unlock(machine);
    sleep_ms(1);
    machine_lock(machine);
    if (process->pid != pid || kill(pid, 0) != 0) return OPERATING_SYSTEM;
  }
  return SUCCESS;
}

int cuCheckpointProcessCheckpoint(int pid, struct plain_args *args) {
  struct machine *machine;
  struct process *process;
  int result = begin(CALL_CHECKPOINT, pid, &machine, &process);
  if (result == NOT_INITIALIZED) return result;
  if (result == SUCCESS && args && dirty(args, sizeof *args)) result = INVALID_VALUE;
  if (result == SUCCESS && (process->state != LOCKED || process->request)) result = ILLEGAL_STATE;
  if (result == SUCCESS && process->uvm) {
    if (process->fails_badly) process->state = FAILED;
    result = NOT_SUPPORTED;
  }
  if (result == SUCCESS && machine->gpus[process->gpu].lost) {
    process->state = FAILED;
    result = UNKNOWN;
  }
  if (result == SUCCESS) {
    process->request = REQUEST_CHECKPOINT;
    result = await_request(machine, process, pid);
  }
  return end(CALL_CHECKPOINT, pid, machine, result);
}

static int find_gpu(struct machine *machine, const uint8_t *uuid) {
  for (unsigned i = 0; i < machine->gpu_count; i++)
    if (machine->gpus[i].present && memcmp(machine->gpus[i].uuid, uuid, 16) == 0) return i;
  return -1;
}

// Where the process goes, or a refusal as a negative result.
static int destination(struct machine *machine, struct process *process, struct restore_args *args) {
  if (!args || !args->count) return machine->gpus[process->gpu].present ? process->gpu : -INVALID_DEVICE;
  unsigned present = 0, used = 0;
  int to = -1;
  for (unsigned i = 0; i < machine->gpu_count; i++) present += machine->gpus[i].present;
  if (args->count != present) return -INVALID_VALUE;
  for (unsigned i = 0; i < args->count; i++) {
    int target = find_gpu(machine, args->pairs[i].to);
    if (target < 0 || (used & 1u << target)) return -INVALID_VALUE;
    used |= 1u << target;
    if (memcmp(args->pairs[i].from, machine->gpus[process->gpu].uuid, 16) == 0) to = target;
  }
  if (to < 0 || machine->gpus[to].pci_device != machine->gpus[process->gpu].pci_device) return -INVALID_VALUE;
  return to;
}

int cuCheckpointProcessRestore(int pid, struct restore_args *args) {
  struct machine *machine;
  struct process *process;
  int result = begin(CALL_RESTORE, pid, &machine, &process);
  if (result == NOT_INITIALIZED) return result;
  if (result == SUCCESS && args && (dirty(args->reserved, sizeof args->reserved) || args->reserved1)) result = INVALID_VALUE;
  if (result == SUCCESS && (process->state != CHECKPOINTED || process->request)) result = ILLEGAL_STATE;
  if (result == SUCCESS && process->spoiled) result = OPERATING_SYSTEM;
  if (result == SUCCESS) {
    int to = destination(machine, process, args);
    if (to < 0) result = -to;
    else if (process->imported) {
      process->spoiled = 1;
      result = INVALID_VALUE;
    }
    else if (machine->gpus[to].lost) result = UNKNOWN;
    else if (machine_memory_used(machine, to) + process->bytes > machine->gpus[to].memory_total) {
      process->spoiled = 1;
      result = OUT_OF_MEMORY;
    }
    else {
      process->request_gpu = to;
      process->request = REQUEST_RESTORE;
      result = await_request(machine, process, pid);
    }
  }
  return end(CALL_RESTORE, pid, machine, result);
}

int cuCheckpointProcessUnlock(int pid, struct plain_args *args) {
  struct machine *machine;
  struct process *process;
  int result = begin(CALL_UNLOCK, pid, &machine, &process);
  if (result == NOT_INITIALIZED) return result;
  if (result == SUCCESS && args && dirty(args, sizeof *args)) result = INVALID_VALUE;
  if (result == SUCCESS && (process->state != LOCKED || process->request)) result = ILLEGAL_STATE;
  if (result == SUCCESS) process->state = RUNNING;
  return end(CALL_UNLOCK, pid, machine, result);
}
