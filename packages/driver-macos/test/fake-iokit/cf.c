// Objects that count themselves: releasing too often, or asking one kind for what another has, is a fault.
#include "fake.h"

int64_t live_cf, live_objects, live_ports, live_pings, faults;

static pthread_mutex_t mutex;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void make_mutex(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&mutex, &attributes);
}
void lock(void) { pthread_once(&once, make_mutex); pthread_mutex_lock(&mutex); }
void unlock(void) { pthread_mutex_unlock(&mutex); }
pthread_mutex_t *fake_mutex(void) { return &mutex; }

void fault(const char *what) {
  faults++;
  fprintf(stderr, "fake IOKit: %s\n", what);
}

// Freed objects stay around for a while, so that using one is reported instead of corrupting memory.
enum { QUARANTINE = 4096 };
static CF *quarantine[QUARANTINE];
static unsigned quarantined;

static void set_aside(CF *object) {
  CF **slot = &quarantine[quarantined++ % QUARANTINE];
  free(*slot);
  *slot = object;
}

CF *cf_new(CFKind kind, int counted) {
  CF *object = calloc(1, sizeof *object);
  object->kind = kind;
  object->refs = 1;
  object->counted = counted;
  if (counted) live_cf++;
  return object;
}

CF *cf_string(const char *text, int counted) {
  CF *object = cf_new(CF_STRING, counted);
  object->text = strdup(text);
  return object;
}

CF *cf_number(int64_t value, int counted) {
  CF *object = cf_new(CF_NUMBER, counted);
  object->integer = value;
  return object;
}

void cf_push(CF *container, CF *key, CF *value) {
  if (container->count == container->capacity) {
    container->capacity = container->capacity ? container->capacity * 2 : 4;
    container->keys = realloc(container->keys, container->capacity * sizeof *container->keys);
    container->values = realloc(container->values, container->capacity * sizeof *container->values);
  }
  container->keys[container->count] = key;
  container->values[container->count++] = value;
}

CF *cf_get(const CF *dictionary, const char *key) {
  if (!dictionary || dictionary->kind != CF_DICTIONARY) return NULL;
  for (long i = 0; i < dictionary->count; i++)
    if (!strcmp(dictionary->keys[i]->text, key)) return dictionary->values[i];
  return NULL;
}

void cf_put(CF *dictionary, const char *key, CF *value) {
  for (long i = 0; i < dictionary->count; i++) {
    if (strcmp(dictionary->keys[i]->text, key)) continue;
    cf_drop(dictionary->values[i]);
    if (value) { dictionary->values[i] = value; return; }
    cf_drop(dictionary->keys[i]);
    dictionary->count--;
    dictionary->keys[i] = dictionary->keys[dictionary->count];
    dictionary->values[i] = dictionary->values[dictionary->count];
    return;
  }
  if (value) cf_push(dictionary, cf_string(key, dictionary->counted), value);
}

CF *cf_copy(const CF *from) {
  CF *to = cf_new(from->kind, 1);
  to->integer = from->integer;
  to->real = from->real;
  to->is_real = from->is_real;
  if (from->text) to->text = strdup(from->text);
  if (from->kind == CF_DATA) {
    to->bytes = malloc(from->count + 1);
    memcpy(to->bytes, from->bytes, from->count);
    to->count = from->count;
    return to;
  }
  for (long i = 0; i < from->count; i++)
    cf_push(to, from->keys[i] ? cf_copy(from->keys[i]) : NULL, cf_copy(from->values[i]));
  return to;
}

static CF *usable(CF *object, int kind, const char *where) {
  char message[96];
  if (!object) snprintf(message, sizeof message, "%s(NULL) crashes on macOS", where);
  else if (object->kind == CF_FREED || object->refs <= 0) snprintf(message, sizeof message, "%s of a freed object", where);
  else if (kind >= 0 && (int)object->kind != kind) snprintf(message, sizeof message, "%s of kind %d", where, object->kind);
  else return object;
  fault(message);
  return NULL;
}

static void release(CF *object) {
  if (--object->refs > 0) return;
  if (object->kind == CF_DICTIONARY || object->kind == CF_ARRAY)
    for (long i = 0; i < object->count; i++) {
      if (object->keys[i] && usable(object->keys[i], -1, "release with its container")) release(object->keys[i]);
      if (usable(object->values[i], -1, "release with its container")) release(object->values[i]);
    }
  free(object->text);
  free(object->bytes);
  free(object->keys);
  free(object->values);
  if (object->counted) live_cf--;
  object->kind = CF_FREED;
  object->refs = 0;
  object->text = NULL;
  object->bytes = NULL;
  object->keys = object->values = NULL;
  object->count = 0;
  set_aside(object);
}

void cf_drop(CF *object) { if (object) release(object); }

API CF *CFRetain(CF *object) {
  lock();
  if (usable(object, -1, "CFRetain")) object->refs++;
  unlock();
  return object;
}
API void CFRelease(CF *object) {
  lock();
  if (usable(object, -1, "CFRelease")) release(object);
  unlock();
}
API unsigned long CFGetTypeID(CF *object) {
  lock();
  unsigned long kind = usable(object, -1, "CFGetTypeID") ? object->kind : 0;
  unlock();
  return kind;
}
API unsigned long CFStringGetTypeID(void) { return CF_STRING; }
API unsigned long CFDictionaryGetTypeID(void) { return CF_DICTIONARY; }
API unsigned long CFArrayGetTypeID(void) { return CF_ARRAY; }
API unsigned long CFDataGetTypeID(void) { return CF_DATA; }
API unsigned long CFBooleanGetTypeID(void) { return CF_BOOLEAN; }
API unsigned long CFNumberGetTypeID(void) { return CF_NUMBER; }

API CF *CFStringCreateWithCString(void *allocator, const char *text, uint32_t encoding) {
  (void)allocator;
  (void)encoding;
  lock();
  CF *object = cf_string(text, 1);
  unlock();
  return object;
}
// In UTF-16 units, as on macOS: code points below U+10000 are one, those above two.
API long CFStringGetLength(CF *object) {
  lock();
  long units = 0;
  if (usable(object, CF_STRING, "CFStringGetLength"))
    for (const unsigned char *c = (const unsigned char *)object->text; *c; c++)
      if ((*c & 0xc0) != 0x80) units += *c >= 0xf0 ? 2 : 1;
  unlock();
  return units;
}
API uint8_t CFStringGetCString(CF *object, char *buffer, long size, uint32_t encoding) {
  (void)encoding;
  lock();
  int fits = usable(object, CF_STRING, "CFStringGetCString") && (long)strlen(object->text) < size;
  if (fits) strcpy(buffer, object->text);
  unlock();
  return fits;
}
API uint8_t CFNumberIsFloatType(CF *object) {
  lock();
  uint8_t real = usable(object, CF_NUMBER, "CFNumberIsFloatType") && object->is_real;
  unlock();
  return real;
}
API uint8_t CFNumberGetValue(CF *object, long type, void *out) {
  lock();
  uint8_t done = usable(object, CF_NUMBER, "CFNumberGetValue") != NULL;
  if (done && type == 4) *(int64_t *)out = object->is_real ? (int64_t)object->real : object->integer;
  else if (done && (type == 6 || type == 13)) *(double *)out = object->is_real ? object->real : (double)object->integer;
  else done = 0;
  unlock();
  return done;
}
API uint8_t CFBooleanGetValue(CF *object) {
  lock();
  uint8_t value = usable(object, CF_BOOLEAN, "CFBooleanGetValue") && object->integer != 0;
  unlock();
  return value;
}
API long CFDataGetLength(CF *object) {
  lock();
  long length = usable(object, CF_DATA, "CFDataGetLength") ? object->count : 0;
  unlock();
  return length;
}
typedef struct { long location, length; } CFRange;
API void CFDataGetBytes(CF *object, CFRange range, uint8_t *out) {
  lock();
  if (usable(object, CF_DATA, "CFDataGetBytes")) {
    if (range.location < 0 || range.length < 0 || range.location + range.length > object->count) fault("CFDataGetBytes out of range");
    else memcpy(out, object->bytes + range.location, range.length);
  }
  unlock();
}
API long CFArrayGetCount(CF *object) {
  lock();
  long count = usable(object, CF_ARRAY, "CFArrayGetCount") ? object->count : 0;
  unlock();
  return count;
}
API CF *CFArrayGetValueAtIndex(CF *object, long index) {
  lock();
  CF *value = NULL;
  if (usable(object, CF_ARRAY, "CFArrayGetValueAtIndex")) {
    if (index < 0 || index >= object->count) fault("CFArrayGetValueAtIndex out of range");
    else value = object->values[index];
  }
  unlock();
  return value;
}
API long CFDictionaryGetCount(CF *object) {
  lock();
  long count = usable(object, CF_DICTIONARY, "CFDictionaryGetCount") ? object->count : 0;
  unlock();
  return count;
}
API void CFDictionaryGetKeysAndValues(CF *object, CF **keys, CF **values) {
  lock();
  if (usable(object, CF_DICTIONARY, "CFDictionaryGetKeysAndValues"))
    for (long i = 0; i < object->count; i++) {
      if (keys) keys[i] = object->keys[i];
      if (values) values[i] = object->values[i];
    }
  unlock();
}
