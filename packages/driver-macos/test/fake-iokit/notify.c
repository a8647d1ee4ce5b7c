// Notifications by the kernel's rules (xnu, IOServiceUserNotification in IOUserClient.cpp):
// a notification keeps its own objects whether or not its port is serviced; it keeps 1024 and drops the rest; it hands
// them out last in, first out; it pings its port only when it is armed, that is once it was drained, and was empty. A
// port that nobody services keeps every ping (MACH_SEND_ALWAYS).
#include "fake.h"

enum { MOST_OUTSTANDING = 1024 };

Object *notifications;
extern pthread_mutex_t *fake_mutex(void);
static pthread_cond_t pinged = PTHREAD_COND_INITIALIZER;

typedef struct Ping { Object *notification; struct Ping *next; } Ping;
struct Port { Ping *first, **last; CF *source; pthread_t thread; int threaded, stop, queue; };

static void ping(Object *notification) {
  if (!notification->port) return;
  Ping *message = calloc(1, sizeof *message);
  live_pings++;
  message->notification = notification;
  *notification->port->last = message;
  notification->port->last = &message->next;
  pthread_cond_broadcast(&pinged);
}

void notify(Node *node, int published) {
  kern_return_t ignored;
  if (injected("notify", &ignored)) return;
  for (Object *notification = notifications; notification; notification = notification->next) {
    int wants_terminated = !strcmp(notification->type, "IOServiceTerminate");
    if (wants_terminated == published || !node_matches(node, notification->matching)) continue;
    if (notification->count >= MOST_OUTSTANDING) continue;
    list_add(notification, node);
    if (notification->armed && notification->count == 1) {
      notification->armed = 0;
      ping(notification);
    }
  }
}

void notification_dispose(Object *notification) {
  for (Object **link = &notifications; *link; link = &(*link)->next)
    if (*link == notification) { *link = notification->next; break; }
  for (Ping *message = notification->port ? notification->port->first : NULL; message; message = message->next)
    if (message->notification == notification) message->notification = NULL;
  cf_drop(notification->matching);
}

API Port *IONotificationPortCreate(uint32_t main_port) {
  (void)main_port;
  lock();
  kern_return_t ignored;
  if (injected("IONotificationPortCreate", &ignored)) {
    unlock();
    return NULL;
  }
  Port *port = calloc(1, sizeof *port);
  port->last = &port->first;
  port->source = cf_new(CF_SOURCE, 1);
  port->source->payload = port;
  live_ports++;
  unlock();
  return port;
}
API CF *IONotificationPortGetRunLoopSource(Port *port) { return port->source; }

static void add_existing(Node *node, void *context) {
  Object *notification = context;
  if (node_matches(node, notification->matching)) list_add(notification, node);
}
API kern_return_t IOServiceAddMatchingNotification(
    Port *port, const char *type, CF *matching, void (*callback)(void *, uint32_t), void *refcon, uint32_t *out) {
  lock();
  kern_return_t result = KR_OK;
  if (!port || !matching || !callback) {
    if (!callback) fault("IOServiceAddMatchingNotification without a callback crashes once its port is serviced");
    result = KR_BAD_ARGUMENT;
  } else if (!injected("IOServiceAddMatchingNotification", &result)) {
    Object *notification = calloc(1, sizeof *notification);
    notification->kind = OBJECT_NOTIFICATION;
    notification->port = port;
    notification->matching = matching;
    notification->callback = callback;
    notification->refcon = refcon;
    snprintf(notification->type, sizeof notification->type, "%s", type);
    if (strcmp(type, "IOServiceTerminate")) node_walk(root, add_existing, notification);
    notification->next = notifications;
    notifications = notification;
    notification->handle = *out = object_new(notification);
    matching = NULL;
  }
  if (matching) cf_drop(matching);
  unlock();
  return result;
}

// Serves one ping; the lock is held and let go while the callback runs.
static int serve(Port *port) {
  Ping *message = port->first;
  if (!message) return 0;
  port->first = message->next;
  if (!port->first) port->last = &port->first;
  Object *notification = message->notification;
  free(message);
  live_pings--;
  if (notification) {
    void (*callback)(void *, uint32_t) = notification->callback;
    void *refcon = notification->refcon;
    uint32_t handle = notification->handle;
    unlock();
    callback(refcon, handle);
    lock();
  }
  return 1;
}

// ---- dispatch queues: one thread for each port
static void *serve_queue(void *context) {
  Port *port = context;
  lock();
  while (!port->stop)
    if (!serve(port)) pthread_cond_wait(&pinged, fake_mutex());
  unlock();
  return NULL;
}
API void *dispatch_queue_create(const char *label, void *attributes) {
  (void)label;
  (void)attributes;
  return malloc(1);
}
API void dispatch_release(void *queue) { free(queue); }
API void IONotificationPortSetDispatchQueue(Port *port, void *queue) {
  lock();
  if (port->threaded) {
    port->stop = 1;
    pthread_cond_broadcast(&pinged);
    unlock();
    pthread_join(port->thread, NULL);
    lock();
    port->threaded = 0;
  }
  if (queue) {
    port->threaded = 1;
    port->stop = 0;
    pthread_create(&port->thread, NULL, serve_queue, port);
  }
  unlock();
}
API void IONotificationPortDestroy(Port *port) {
  if (port->threaded) IONotificationPortSetDispatchQueue(port, NULL);
  lock();
  for (Object *notification = notifications; notification; notification = notification->next)
    if (notification->port == port) notification->port = NULL;
  while (port->first) {
    Ping *next = port->first->next;
    free(port->first);
    live_pings--;
    port->first = next;
  }
  port->source->payload = NULL;
  cf_drop(port->source);
  free(port);
  live_ports--;
  unlock();
}

// ---- run loops: one for each thread
enum { MOST_SOURCES = 16 };
typedef struct { CF *sources[MOST_SOURCES]; int count, stopped; } RunLoop;
static __thread RunLoop current;

API RunLoop *CFRunLoopGetCurrent(void) { return &current; }
API void CFRunLoopAddSource(RunLoop *loop, CF *source, CF *mode) {
  (void)mode;
  lock();
  if (loop->count < MOST_SOURCES) {
    loop->sources[loop->count++] = source;
    source->refs++;
  }
  unlock();
}
API void CFRunLoopRemoveSource(RunLoop *loop, CF *source, CF *mode) {
  (void)mode;
  lock();
  for (int i = 0; i < loop->count; i++)
    if (loop->sources[i] == source) {
      loop->sources[i] = loop->sources[--loop->count];
      cf_drop(source);
      break;
    }
  unlock();
}
API void CFRunLoopStop(RunLoop *loop) {
  lock();
  loop->stopped = 1;
  pthread_cond_broadcast(&pinged);
  unlock();
}
enum { RUN_FINISHED = 1, RUN_STOPPED = 2, RUN_TIMED_OUT = 3, RUN_HANDLED_SOURCE = 4 };
API int32_t CFRunLoopRunInMode(CF *mode, double seconds, uint8_t return_after_source) {
  (void)mode;
  lock();
  RunLoop *loop = &current;
  if (loop->count == 0) {
    unlock();
    return RUN_FINISHED;
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds * 1e9);
  until.tv_sec += nanoseconds / 1000000000;
  until.tv_nsec = nanoseconds % 1000000000;
  int32_t result = 0;
  while (!result) {
    int served = 0;
    for (int i = 0; i < loop->count; i++)
      if (loop->sources[i]->payload) served |= serve(loop->sources[i]->payload);
    if (loop->stopped) result = RUN_STOPPED;
    else if (served && return_after_source) result = RUN_HANDLED_SOURCE;
    else if (!served && pthread_cond_timedwait(&pinged, fake_mutex(), &until)) result = RUN_TIMED_OUT;
  }
  loop->stopped = 0;
  unlock();
  return result;
}
