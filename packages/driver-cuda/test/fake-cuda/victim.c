// A program with memory on a fake GPU that computes on it and prints what it gets. Its output is the same however often
// it was moved, and is not when a single byte got lost.
// victim <gpu> <bytes> <steps, 0 until SIGTERM> <ms per step> [uvm|badly|mig|busy]...
#define _GNU_SOURCE
#include "state.h"
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct machine *machine;
static struct process *process;
static int slot;
static volatile sig_atomic_t finish;

static void on_term(int signal) {
  (void)signal;
  finish = 1;
}

// What the driver does inside the process on behalf of a controller.
static void *serve(void *unused) {
  (void)unused;
  for (;;) {
    if (process->request != REQUEST_NONE) {
      sleep_ms(machine->checkpoint_ms);
      machine_lock(machine);
      uint64_t *device = machine->gpus[process->request == REQUEST_RESTORE ? process->request_gpu : process->gpu].memory[slot];
      if (process->request == REQUEST_CHECKPOINT) {
        memcpy(process->host, device, sizeof process->host);
        memset(device, 0xee, sizeof process->host);
        process->state = CHECKPOINTED;
      } else {
        memcpy(device, process->host, sizeof process->host);
        memset(process->host, 0xdd, sizeof process->host);
        process->gpu = process->request_gpu;
        process->state = LOCKED;
      }
      process->request = REQUEST_NONE;
      machine_unlock(machine);
    }
    sleep_ms(1);
  }
  return 0;
}

// A CUDA call: waits while the process is locked.
static void enter(void) {
  for (;;) {
    machine_lock(machine);
    int may = process->state == RUNNING;
    if (may) process->in_call = 1;
    machine_unlock(machine);
    if (may) return;
    sleep_ms(1);
  }
}

int main(int argc, char **argv) {
  machine = machine_open();
  if (!machine || argc < 5) return 2;
  machine_lock(machine);
  machine_process(machine, 0);
  while (machine->processes[slot].pid) slot++;
  process = &machine->processes[slot];
  memset(process, 0, sizeof *process);
  process->gpu = atoi(argv[1]);
  process->bytes = strtoull(argv[2], 0, 10);
  int busy = 0;
  for (int i = 5; i < argc; i++) {
    if (!strcmp(argv[i], "uvm")) process->uvm = 1;
    if (!strcmp(argv[i], "badly")) process->uvm = process->fails_badly = 1;
    if (!strcmp(argv[i], "mig")) process->gpu_instance = 3;
    if (!strcmp(argv[i], "busy")) busy = 1;
  }
  process->pid = getpid();
  uint64_t *memory = machine->gpus[process->gpu].memory[slot];
  for (int i = 0; i < CELLS; i++) memory[i] = 0x9e3779b97f4a7c15u * (i + 1);
  machine_unlock(machine);
  signal(SIGTERM, on_term);
  pthread_t thread;
  pthread_create(&thread, 0, serve, 0);
  printf("ready\n");
  fflush(stdout);
  for (int step = 0, steps = atoi(argv[3]); (steps ? step < steps : !finish); step++) {
    enter();
    memory = machine->gpus[process->gpu].memory[slot];
    uint64_t sum = 0;
    for (int i = 0; i < CELLS; i++) {
      memory[i] = memory[i] * 6364136223846793005u + memory[(i + 7) % CELLS] + step;
      sum ^= memory[i];
    }
    // One kernel that never ends: the process cannot be locked.
    while (busy) sleep_ms(10);
    process->in_call = 0;
    printf("step %d %016" PRIx64 "\n", step, sum);
    fflush(stdout);
    sleep_ms(atoi(argv[4]));
  }
  return 0;
}
