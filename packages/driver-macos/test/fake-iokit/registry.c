// Entries, handles to them, matching and iterators.
#include "fake.h"

Node *root;

// ---- handles: slot and generation, so that a stale one is a fault and slots can be used again
typedef struct { Object *object; uint16_t generation; } Slot;
static Slot *slots;
static uint32_t slot_count, *unused, unused_count;

uint32_t object_new(Object *object) {
  if (unused_count == 0) {
    uint32_t more = slot_count ? slot_count : 1024;
    slots = realloc(slots, (slot_count + more) * sizeof *slots);
    unused = realloc(unused, (slot_count + more) * sizeof *unused);
    for (uint32_t i = 0; i < more; i++) {
      slots[slot_count + i] = (Slot){ NULL, 1 };
      unused[unused_count++] = slot_count + more - 1 - i;
    }
    slot_count += more;
  }
  uint32_t index = unused[--unused_count];
  slots[index].object = object;
  object->refs = 1;
  live_objects++;
  return (uint32_t)slots[index].generation << 18 | (index + 1);
}

static Slot *slot_of(uint32_t handle) {
  uint32_t index = (handle & 0x3ffff) - 1;
  if (index >= slot_count || slots[index].generation != (uint16_t)(handle >> 18)) return NULL;
  return slots[index].object ? &slots[index] : NULL;
}

Object *object_of(uint32_t handle, int kind) {
  Slot *slot = slot_of(handle);
  if (slot && (kind < 0 || (int)slot->object->kind == kind)) return slot->object;
  char message[80];
  snprintf(message, sizeof message, "io_object_t 0x%x is none (wanted kind %d)", handle, kind);
  fault(message);
  return NULL;
}

uint32_t object_entry(Node *node) {
  Object *object = calloc(1, sizeof *object);
  object->kind = OBJECT_ENTRY;
  object->node = node_retain(node);
  return object_new(object);
}

void list_add(Object *object, Node *node) {
  if (object->count == object->capacity) {
    object->capacity = object->capacity ? object->capacity * 2 : 16;
    object->list = realloc(object->list, object->capacity * sizeof *object->list);
  }
  object->list[object->count++] = node_retain(node);
}

API kern_return_t IOObjectRelease(uint32_t handle) {
  lock();
  kern_return_t result = KR_BAD_ARGUMENT;
  Object *object = object_of(handle, -1);
  if (object) {
    result = KR_OK;
    if (--object->refs == 0) {
      if (object->kind == OBJECT_NOTIFICATION) notification_dispose(object);
      for (int i = object->at; i < object->count; i++) node_release(object->list[i]);
      free(object->list);
      if (object->node) node_release(object->node);
      free(object);
      Slot *slot = &slots[(handle & 0x3ffff) - 1];
      slot->object = NULL;
      slot->generation = (uint16_t)(slot->generation % 0x3fff + 1);
      unused[unused_count++] = (handle & 0x3ffff) - 1;
      live_objects--;
    }
  }
  unlock();
  return result;
}
API kern_return_t IOObjectRetain(uint32_t handle) {
  lock();
  Object *object = object_of(handle, -1);
  if (object) object->refs++;
  unlock();
  return object ? KR_OK : KR_BAD_ARGUMENT;
}

// ---- the tree
Node *node_retain(Node *node) { node->refs++; return node; }

void node_release(Node *node) {
  if (--node->refs > 0) return;
  cf_drop(node->properties);
  free(node);
}

// Classes are compared by address, as the kernel compares its metaclasses.
static const char *intern(const char *text) {
  static char *pool[4096];
  unsigned hash = 5381;
  for (const char *c = text; *c; c++) hash = hash * 33 + (unsigned char)*c;
  for (unsigned i = hash % 4096;; i = (i + 1) % 4096) {
    if (!pool[i]) pool[i] = strdup(text);
    if (!strcmp(pool[i], text)) return pool[i];
  }
}

static void copy_text(char *to, size_t size, const CF *from) {
  snprintf(to, size, "%s", from && from->kind == CF_STRING ? from->text : "");
}

Node *node_build(CF *plist, Node *parent) {
  Node *node = calloc(1, sizeof *node);
  node->refs = 1;
  node->matched = 1;
  node->vanish_after = -1;
  node->parent = parent;
  node->properties = plist;
  copy_text(node->name, sizeof node->name, cf_get(plist, "IORegistryEntryName"));
  copy_text(node->location, sizeof node->location, cf_get(plist, "IORegistryEntryLocation"));
  copy_text(node->class_name, sizeof node->class_name, cf_get(plist, "IOObjectClass"));
  CF *id = cf_get(plist, "IORegistryEntryID");
  if (id) node->id = (uint64_t)id->integer;
  node->classes[0] = intern(node->class_name);
  CF *inheritance = cf_get(plist, "IOObjectInheritance");
  for (long i = 0; inheritance && i < inheritance->count && i < 15; i++)
    node->classes[i + 1] = intern(inheritance->values[i]->text);
  CF *children = cf_get(plist, "IORegistryEntryChildren");
  Node **tail = &node->child;
  for (long i = 0; children && children->kind == CF_ARRAY && i < children->count; i++) {
    children->values[i]->refs++;
    *tail = node_build(children->values[i], node);
    tail = &(*tail)->sibling;
  }
  cf_put(plist, "IORegistryEntryChildren", NULL);
  return node;
}

void node_walk(Node *node, void (*visit)(Node *, void *), void *context) {
  if (!node || node->inactive) return;
  visit(node, context);
  for (Node *child = node->child; child; child = child->sibling) node_walk(child, visit, context);
}

Node *node_find(Node *from, uint64_t id) {
  if (!from) return NULL;
  if (from->id == id) return from;
  for (Node *child = from->child; child; child = child->sibling) {
    Node *found = node_find(child, id);
    if (found) return found;
  }
  return NULL;
}

static int conforms(const Node *node, const char *interned) {
  for (int i = 0; i < 16 && node->classes[i]; i++)
    if (node->classes[i] == interned) return 1;
  return 0;
}

int node_matches(const Node *node, const CF *matching) {
  CF *wanted = cf_get(matching, "IOProviderClass");
  if (wanted && !conforms(node, wanted->payload)) return 0;
  wanted = cf_get(matching, "IONameMatch");
  if (wanted && strcmp(node->name, wanted->text)) return 0;
  wanted = cf_get(matching, "IORegistryEntryID");
  return !wanted || (uint64_t)wanted->integer == node->id;
}

// Takes the subtree out of the tree. Every entry outlives this as long as somebody holds a handle to it.
static void mark(Node *node, int keep) {
  node->inactive = 1;
  node->keeps_properties = keep;
  for (Node *child = node->child; child; child = child->sibling) mark(child, keep);
}
static void disband(Node *node) {
  for (Node *child = node->child, *next; child; child = next) {
    next = child->sibling;
    disband(child);
    node_release(child);
  }
  node->child = node->sibling = node->parent = NULL;
}
static void tell(Node *node, void *context) { (void)context; notify(node, 0); }
void node_terminate(Node *node, int keep) {
  node_walk(node, tell, NULL);
  mark(node, keep);
  Node **link = node->parent ? &node->parent->child : &root;
  while (*link && *link != node) link = &(*link)->sibling;
  if (*link) *link = node->sibling;
  disband(node);
  node_release(node);
}

// ---- matching
static CF *matching_dictionary(const char *key, CF *value) {
  CF *dictionary = cf_new(CF_DICTIONARY, 1);
  cf_push(dictionary, cf_string(key, 1), value);
  return dictionary;
}
API CF *IOServiceMatching(const char *name) {
  lock();
  CF *class_name = cf_string(name, 1);
  class_name->payload = (void *)intern(name);
  CF *dictionary = matching_dictionary("IOProviderClass", class_name);
  unlock();
  return dictionary;
}
API CF *IOServiceNameMatching(const char *name) {
  lock();
  CF *dictionary = matching_dictionary("IONameMatch", cf_string(name, 1));
  unlock();
  return dictionary;
}
API CF *IORegistryEntryIDMatching(uint64_t id) {
  lock();
  CF *dictionary = matching_dictionary("IORegistryEntryID", cf_number((int64_t)id, 1));
  unlock();
  return dictionary;
}

typedef struct { const CF *matching; Object *into; } Search;
static void add_match(Node *node, void *context) {
  Search *search = context;
  // A service shows up here once its matching has finished, which for a new one is later than its publication.
  if (node->matched && node_matches(node, search->matching)) list_add(search->into, node);
}
// The kernel's set has no order worth relying on; this one has a wrong one.
static void shuffle(Object *object) {
  uint32_t seed = 0x9e3779b9u;
  for (int i = object->count - 1; i > 0; i--) {
    seed = seed * 1664525u + 1013904223u;
    int j = (int)(seed % (uint32_t)(i + 1));
    Node *other = object->list[i];
    object->list[i] = object->list[j];
    object->list[j] = other;
  }
}
API kern_return_t IOServiceGetMatchingServices(uint32_t port, CF *matching, uint32_t *out) {
  (void)port;
  lock();
  kern_return_t result = KR_OK;
  if (!matching) result = KR_BAD_ARGUMENT;
  else if (!injected("IOServiceGetMatchingServices", &result)) {
    Object *iterator = calloc(1, sizeof *iterator);
    iterator->kind = OBJECT_ITERATOR;
    Search search = { matching, iterator };
    node_walk(root, add_match, &search);
    shuffle(iterator);
    *out = object_new(iterator);
  }
  if (matching) cf_drop(matching); // used up, failed or not
  unlock();
  return result;
}
API uint32_t IOIteratorNext(uint32_t);
API uint32_t IOServiceGetMatchingService(uint32_t port, CF *matching) {
  lock();
  uint32_t iterator, entry = 0;
  if (IOServiceGetMatchingServices(port, matching, &iterator) == KR_OK) {
    entry = IOIteratorNext(iterator);
    IOObjectRelease(iterator);
  }
  unlock();
  return entry;
}

static int invalid_iterators;
API void FakeIOKit_invalidateIterators(int count) { invalid_iterators = count; }
API uint8_t IOIteratorIsValid(uint32_t handle) {
  lock();
  uint8_t valid = object_of(handle, -1) != NULL && !(invalid_iterators > 0 && invalid_iterators--);
  unlock();
  return valid;
}
API uint32_t IOIteratorNext(uint32_t handle) {
  lock();
  Object *object = object_of(handle, -1);
  uint32_t entry = 0;
  Node *node = NULL;
  if (object && object->kind == OBJECT_NOTIFICATION) {
    // Last in, first out; running dry arms it (IOServiceUserNotification::copyNextObject).
    if (object->count > 0) node = object->list[--object->count];
    else object->armed = 1;
  } else if (object && object->kind == OBJECT_ITERATOR && object->at < object->count) {
    node = object->list[object->at++];
  } else if (object && object->kind == OBJECT_ENTRY) {
    fault("IOIteratorNext of an entry");
  }
  if (node) {
    entry = object_entry(node);
    node_release(node);
  }
  unlock();
  return entry;
}

// ---- entries
API uint32_t IORegistryGetRootEntry(uint32_t port) {
  (void)port;
  lock();
  uint32_t entry = root ? object_entry(root) : 0;
  unlock();
  return entry;
}
static kern_return_t text_of(uint32_t handle, const char *function, size_t offset, char *out) {
  lock();
  kern_return_t result = KR_BAD_ARGUMENT;
  Object *object = object_of(handle, OBJECT_ENTRY);
  if (object && !injected(function, &result)) {
    const char *text = (const char *)object->node + offset;
    result = *text ? KR_OK : KR_NOT_FOUND;
    if (*text) strcpy(out, text);
  }
  unlock();
  return result;
}
API kern_return_t IOObjectGetClass(uint32_t handle, char *out) {
  return text_of(handle, "IOObjectGetClass", offsetof(Node, class_name), out);
}
API kern_return_t IORegistryEntryGetName(uint32_t handle, char *out) {
  return text_of(handle, "IORegistryEntryGetName", offsetof(Node, name), out);
}
API kern_return_t IORegistryEntryGetLocationInPlane(uint32_t handle, const char *plane, char *out) {
  (void)plane;
  return text_of(handle, "IORegistryEntryGetLocationInPlane", offsetof(Node, location), out);
}
API kern_return_t IORegistryEntryGetRegistryEntryID(uint32_t handle, uint64_t *out) {
  lock();
  kern_return_t result = KR_BAD_ARGUMENT;
  Object *object = object_of(handle, OBJECT_ENTRY);
  if (object && !injected("IORegistryEntryGetRegistryEntryID", &result)) {
    *out = object->node->id;
    result = KR_OK;
  }
  unlock();
  return result;
}
API uint8_t IOObjectConformsTo(uint32_t handle, const char *class_name) {
  lock();
  Object *object = object_of(handle, OBJECT_ENTRY);
  uint8_t yes = object && conforms(object->node, intern(class_name));
  unlock();
  return yes;
}
API kern_return_t IORegistryEntryGetParentEntry(uint32_t handle, const char *plane, uint32_t *out) {
  (void)plane;
  lock();
  kern_return_t result = KR_BAD_ARGUMENT;
  Object *object = object_of(handle, OBJECT_ENTRY);
  if (object && !injected("IORegistryEntryGetParentEntry", &result)) {
    result = object->node->parent ? KR_OK : KR_NOT_FOUND;
    if (result == KR_OK) *out = object_entry(object->node->parent);
  }
  unlock();
  return result;
}
API kern_return_t IORegistryEntryGetChildIterator(uint32_t handle, const char *plane, uint32_t *out) {
  (void)plane;
  lock();
  kern_return_t result = KR_BAD_ARGUMENT;
  Object *object = object_of(handle, OBJECT_ENTRY);
  if (object && !injected("IORegistryEntryGetChildIterator", &result)) {
    Object *iterator = calloc(1, sizeof *iterator);
    iterator->kind = OBJECT_ITERATOR;
    for (Node *child = object->node->child; child; child = child->sibling)
      if (!child->inactive) list_add(iterator, child);
    *out = object_new(iterator);
    result = KR_OK;
  }
  unlock();
  return result;
}
// Made up by the `ioreg` program, which the kernel does not know.
static int of_ioreg(const char *key) {
  return !strncmp(key, "IORegistryEntry", 15) || !strncmp(key, "IOObject", 8);
}
API CF *IORegistryEntryCreateCFProperty(uint32_t handle, CF *key, void *allocator, uint32_t options) {
  (void)allocator;
  (void)options;
  lock();
  CF *copy = NULL;
  kern_return_t ignored;
  Object *object = object_of(handle, OBJECT_ENTRY);
  if (object && key && key->kind == CF_STRING) {
    Node *node = object->node;
    if (node->vanish_after == 0) node->vanish_after = -1, node_terminate(node, node->keeps_properties);
    else if (node->vanish_after > 0) node->vanish_after--;
    int readable = (!node->inactive || node->keeps_properties) && !of_ioreg(key->text);
    CF *value = readable ? cf_get(node->properties, key->text) : NULL;
    if (value && !injected("IORegistryEntryCreateCFProperty", &ignored)) copy = cf_copy(value);
  } else {
    fault("IORegistryEntryCreateCFProperty without a key");
  }
  unlock();
  return copy;
}
