// What a test does to the machine.
#include "fake.h"

typedef struct { char function[64]; kern_return_t result; int left; } Injection;
static Injection injections[16];
static uint32_t thermal_level = 255;
static kern_return_t thermal_result = KR_NOT_FOUND;

int injected(const char *function, kern_return_t *result) {
  for (int i = 0; i < 16; i++)
    if (injections[i].left > 0 && !strcmp(injections[i].function, function)) {
      injections[i].left--;
      *result = injections[i].result;
      return 1;
    }
  return 0;
}

// The next `count` calls of a function fail with `result`.
API void FakeIOKit_fail(const char *function, int32_t result, int count) {
  lock();
  for (int i = 0; i < 16; i++)
    if (injections[i].left == 0 || !strcmp(injections[i].function, function)) {
      snprintf(injections[i].function, sizeof injections[i].function, "%s", function);
      injections[i].result = result;
      injections[i].left = count;
      break;
    }
  unlock();
}

API int FakeIOKit_load(const char *plist) {
  lock();
  CF *parsed = plist_parse(plist);
  if (parsed) {
    if (root) node_terminate(root, 0);
    root = node_build(parsed, NULL);
  }
  unlock();
  return parsed ? 0 : -1;
}

static void publish(Node *node, void *context) {
  node->matched = *(int *)context;
  notify(node, 1);
}
// Publishes a subtree, parents first. Unless `matched`, enumeration does not show it before FakeIOKit_match.
API int FakeIOKit_attach(uint64_t parent_id, const char *plist, int matched) {
  lock();
  Node *parent = node_find(root, parent_id);
  CF *parsed = parent ? plist_parse(plist) : NULL;
  if (parsed) {
    Node *node = node_build(parsed, parent), **tail = &parent->child;
    while (*tail) tail = &(*tail)->sibling;
    *tail = node;
    node_walk(node, publish, &matched);
  }
  unlock();
  return parsed ? 0 : -1;
}
static void set_matched(Node *node, void *context) { (void)context; node->matched = 1; }
API int FakeIOKit_match(uint64_t id) {
  lock();
  Node *node = node_find(root, id);
  node_walk(node, set_matched, NULL);
  unlock();
  return node ? 0 : -1;
}

// Terminates a subtree. Its properties can be read for as long as somebody holds it, or not, as the kernel pleases.
API int FakeIOKit_detach(uint64_t id, int keep_properties) {
  lock();
  Node *node = node_find(root, id);
  if (node) node_terminate(node, keep_properties);
  unlock();
  return node ? 0 : -1;
}

// Terminates an entry in the middle of somebody reading it: after so many properties.
API int FakeIOKit_vanish(uint64_t id, int after_reads, int keep_properties) {
  lock();
  Node *node = node_find(root, id);
  if (node) {
    node->vanish_after = after_reads;
    node->keeps_properties = keep_properties;
  }
  unlock();
  return node ? 0 : -1;
}

// Changes one property; an empty text removes it.
API int FakeIOKit_set(uint64_t id, const char *key, const char *plist) {
  lock();
  Node *node = node_find(root, id);
  CF *value = node && *plist ? plist_parse(plist) : NULL;
  int done = node && (value || !*plist);
  if (done) cf_put(node->properties, key, value);
  unlock();
  return done ? 0 : -1;
}

API void FakeIOKit_thermal(uint32_t level, int32_t result) { thermal_level = level; thermal_result = result; }
API kern_return_t IOPMGetThermalWarningLevel(uint32_t *level) {
  *level = thermal_level;
  return thermal_result;
}

// Objects alive, handles alive, ports alive, faults since the start, pings that nobody took.
API void FakeIOKit_stats(int64_t *out) {
  lock();
  out[0] = live_cf;
  out[1] = live_objects;
  out[2] = live_ports;
  out[3] = faults;
  out[4] = live_pings;
  unlock();
}
