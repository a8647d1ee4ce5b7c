#define _GNU_SOURCE
#include "state.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct machine *machine_open(void) {
  static struct machine *machine;
  if (machine) return machine;
  const char *path = getenv("EGPU_FAKE_CUDA");
  if (!path) return 0;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  void *mapped = mmap(0, sizeof(struct machine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return 0;
  return machine = mapped;
}

void sleep_ms(unsigned ms) {
  struct timespec wait = {ms / 1000, (ms % 1000) * 1000000L};
  nanosleep(&wait, 0);
}

static int alive(int pid) { return kill(pid, 0) == 0 || errno == EPERM; }

// A holder that was killed loses the lock, as with a robust mutex.
void machine_lock(struct machine *machine) {
  int self = getpid();
  for (;;) {
    int holder = 0;
    if (__atomic_compare_exchange_n(&machine->mutex, &holder, self, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
    if (holder != self && !alive(holder)) {
      if (__atomic_compare_exchange_n(&machine->mutex, &holder, self, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
    }
    usleep(50);
  }
}

void machine_unlock(struct machine *machine) { __atomic_store_n(&machine->mutex, 0, __ATOMIC_SEQ_CST); }

struct process *machine_process(struct machine *machine, int pid) {
  for (int i = 0; i < MAX_PROCESSES; i++) {
    struct process *process = &machine->processes[i];
    if (process->pid == 0) continue;
    if (!alive(process->pid)) process->pid = 0;
    else if (process->pid == pid) return process;
  }
  return 0;
}

void machine_log(struct machine *machine, int call, int pid, int result) {
  struct logged entry = {call, pid, result, getpid()};
  if (machine->log_count < MAX_LOG) machine->log[machine->log_count++] = entry;
}

void machine_pause(struct machine *machine, int call, int after) {
  machine_lock(machine);
  int hit = machine->pause_call == call + 1 && machine->pause_after == after && !machine->pause_reached;
  if (hit && machine->pause_skip > 0) {
    machine->pause_skip--;
    hit = 0;
  }
  if (hit) machine->pause_reached = 1;
  machine_unlock(machine);
  while (hit && machine->pause_call == call + 1) sleep_ms(2);
}

int machine_failure(struct machine *machine, int call) {
  if (machine->fail_count <= 0 || machine->fail_call != call) return 0;
  machine->fail_count--;
  return machine->fail_result;
}

uint64_t machine_memory_used(struct machine *machine, int gpu) {
  uint64_t used = 4ULL << 20;
  for (int i = 0; i < MAX_PROCESSES; i++) {
    struct process *process = &machine->processes[i];
    if (process->pid == 0 || process->gpu != gpu || process->state == CHECKPOINTED || !alive(process->pid)) continue;
    used += process->bytes;
  }
  return used;
}
