/*
 * A cable in user space: joins a TAP interface of one network namespace with a TAP interface of another. Each direction
 * has its own delay and loss, and the whole cable can lose its carrier. Steered by lines on stdin:
 *
 *   delay <direction> <microseconds>      direction 0 is from the first end to the second, 1 the other way
 *   loss <direction> <permille>           1000 loses everything: the carrier stays up, as in a real one-way link
 *   carrier <0|1>                         as if the plug were pulled and put back
 *
 * Every line is answered with `ok` once it holds. Ends when stdin does, so it never outlives its test.
 *
 * usage: cable <namespace file> <interface> <namespace file> <interface>
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define QUEUE 4096
/* The largest MTU of thunderbolt_net (65522) with its Ethernet header. */
#define FRAME_BYTES 65600

struct frame {
  uint64_t due_us;
  ssize_t length;
  unsigned char *bytes;
};

struct direction {
  struct frame queue[QUEUE];
  unsigned head, tail;
  uint64_t delay_us;
  int loss_permille;
};

static int ends[2];
static struct direction directions[2];

static uint64_t now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_nsec / 1000u;
}

static int open_end(const char *namespace, const char *name) {
  int file = open(namespace, O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) != 0) {
    perror(namespace);
    exit(1);
  }
  close(file);
  int end = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (end < 0 || ioctl(end, TUNSETIFF, &request) != 0) {
    perror(name);
    exit(1);
  }
  return end;
}

static void obey(const char *line) {
  int direction;
  long value;
  if (sscanf(line, "delay %d %ld", &direction, &value) == 2 && (direction | 1) == 1)
    directions[direction].delay_us = (uint64_t)value;
  else if (sscanf(line, "loss %d %ld", &direction, &value) == 2 && (direction | 1) == 1)
    directions[direction].loss_permille = (int)value;
  else if (sscanf(line, "carrier %ld", &value) == 1) {
    int on = value != 0;
    for (int end = 0; end < 2; end++)
      if (ioctl(ends[end], TUNSETCARRIER, &on) != 0) perror("TUNSETCARRIER");
  } else {
    printf("what? %s\n", line);
    return;
  }
  puts("ok");
}

/* Lines may arrive in pieces. Returns 0 at the end of stdin. */
static int read_commands(void) {
  static char text[512];
  static size_t used;
  ssize_t got = read(0, text + used, sizeof text - 1 - used);
  if (got <= 0) return 0;
  used += (size_t)got;
  text[used] = 0;
  char *line = text;
  for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = 0;
    obey(line);
  }
  used = strlen(line);
  memmove(text, line, used + 1);
  return 1;
}

static void take(struct direction *direction, int from) {
  while (direction->tail - direction->head < QUEUE) {
    struct frame *frame = &direction->queue[direction->tail % QUEUE];
    ssize_t length = read(from, frame->bytes, FRAME_BYTES);
    if (length <= 0) return;
    if (random() % 1000 < direction->loss_permille) continue;
    frame->length = length;
    frame->due_us = now_us() + direction->delay_us;
    direction->tail++;
  }
}

static void give(struct direction *direction, int to) {
  uint64_t now = now_us();
  while (direction->head != direction->tail && direction->queue[direction->head % QUEUE].due_us <= now) {
    struct frame *frame = &direction->queue[direction->head % QUEUE];
    /* A frame that the other end does not take now (no carrier, its queue is full) is lost, as on a wire. */
    if (write(to, frame->bytes, (size_t)frame->length) < 0) (void)0;
    direction->head++;
  }
}

int main(int count, char **arguments) {
  if (count != 5) {
    fprintf(stderr, "usage: cable <namespace file> <interface> <namespace file> <interface>\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int end = 0; end < 2; end++) ends[end] = open_end(arguments[1 + 2 * end], arguments[2 + 2 * end]);
  for (int way = 0; way < 2; way++)
    for (int slot = 0; slot < QUEUE; slot++) directions[way].queue[slot].bytes = malloc(FRAME_BYTES);
  puts("ok");
  for (;;) {
    struct pollfd polled[3] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}, {0, POLLIN, 0}};
    uint64_t now = now_us(), wait_us = 1000000;
    for (int way = 0; way < 2; way++) {
      struct direction *direction = &directions[way];
      if (direction->head == direction->tail) continue;
      uint64_t due = direction->queue[direction->head % QUEUE].due_us;
      uint64_t left = due > now ? due - now : 0;
      if (left < wait_us) wait_us = left;
      /* A full queue is not read from, so waiting for it to become readable would spin. */
      if (direction->tail - direction->head == QUEUE) polled[way].fd = -1;
    }
    struct timespec timeout = {(time_t)(wait_us / 1000000), (long)(wait_us % 1000000) * 1000};
    if (ppoll(polled, 3, &timeout, NULL) < 0) continue;
    if (polled[2].revents != 0 && !read_commands()) return 0;
    for (int way = 0; way < 2; way++) {
      take(&directions[way], ends[way]);
      give(&directions[way], ends[1 - way]);
    }
  }
}
