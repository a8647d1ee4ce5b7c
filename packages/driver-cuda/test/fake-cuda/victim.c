// A program with memory on a fake GPU that computes on it and prints what it gets. Its output is the same however often
// it was moved, and is not when a single byte got lost.
// victim <gpu> <bytes> <steps, 0 until SIGTERM> <ms per step> [trait]...
//   uvm, badly: cannot be checkpointed, and is left running or beyond repair   managed: the same, and it shows
//   mig: on an instance   busy: never comes to rest   only: may see its own GPU alone   event, nccl: shares with others
#define _GNU_SOURCE
#include "state.h"
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct machine *machine;
static struct process *process;
static int slot;
static volatile sig_atomic_t finish;

static void on_term(int signal) {
  (void)signal;
  finish = 1;
}

// Opens a file below the directory that stands for /dev.
static int open_node(const char *name, int flags) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", getenv("EGPU_FAKE_DEV") ? getenv("EGPU_FAKE_DEV") : "/nowhere", name);
  return open(path, flags | O_CLOEXEC, 0600);
}

static void *map_node(const char *name, int flags, size_t size) {
  int fd = open_node(name, flags);
  if (fd < 0) return 0;
  if (flags & O_CREAT && ftruncate(fd, size) != 0) return 0;
  void *mapped = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return mapped;
}

static int nodes[MAX_GPUS] = {-1, -1, -1, -1};

static void open_nodes(void) {
  for (int i = 0; i < MAX_GPUS; i++) {
    char name[16];
    snprintf(name, sizeof name, "nvidia%d", i);
    if (process->visible & 1u << i && nodes[i] < 0) nodes[i] = open_node(name, O_RDWR);
  }
}

static void close_nodes(void) {
  for (int i = 0; i < MAX_GPUS; i++) {
    if (nodes[i] >= 0) close(nodes[i]);
    nodes[i] = -1;
  }
}

static void listen_as_nccl(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "tmp/nccl-socket-0-%x", getpid());
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bind(fd, (struct sockaddr *)&address, sizeof address.sun_family + 1 + length);
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
        close_nodes();
        process->state = CHECKPOINTED;
      } else {
        memcpy(device, process->host, sizeof process->host);
        memset(process->host, 0xdd, sizeof process->host);
        // Who sees all GPUs opens all again; who sees one opens the one it is on now.
        if (process->visible == 1u << process->gpu) process->visible = 1u << process->request_gpu;
        process->gpu = process->request_gpu;
        open_nodes();
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
  process->visible = (1u << machine->gpu_count) - 1;
  for (int i = 5; i < argc; i++) {
    if (!strcmp(argv[i], "uvm")) process->uvm = 1;
    if (!strcmp(argv[i], "badly")) process->uvm = process->fails_badly = 1;
    if (!strcmp(argv[i], "mig")) process->gpu_instance = 3;
    if (!strcmp(argv[i], "busy")) busy = 1;
    if (!strcmp(argv[i], "only")) process->visible = 1u << process->gpu;
    if (!strcmp(argv[i], "managed")) process->uvm = 1, map_node("nvidia-uvm", O_RDWR, 2 << 20);
    if (!strcmp(argv[i], "event")) {
      char name[40];
      snprintf(name, sizeof name, "shm/cuda.shm.0.%x.1", getpid());
      map_node(name, O_RDWR | O_CREAT, 81920);
    }
    if (!strcmp(argv[i], "nccl")) listen_as_nccl();
  }
  map_node("nvidia-uvm", O_RDWR, 2 << 20);
  open_nodes();
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
