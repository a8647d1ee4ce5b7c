// A registry behind the C interface of IOKit and CoreFoundation, as far as @egpu/driver-macos uses it, so that its
// native path runs on any Unix. Rules that matter are the kernel's (xnu IOUserClient.cpp, IOService.cpp): see notify.c.
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef int32_t kern_return_t;
enum { KR_OK = 0, KR_BAD_ARGUMENT = (int32_t)0xe00002c2, KR_NOT_FOUND = (int32_t)0xe00002f0 };

// ---- CoreFoundation objects
typedef enum { CF_FREED = 0, CF_STRING = 7, CF_DICTIONARY = 18, CF_ARRAY = 19, CF_DATA = 20, CF_BOOLEAN = 21,
  CF_NUMBER = 22, CF_SOURCE = 31, CF_DATE = 42 } CFKind;

typedef struct CF {
  CFKind kind;
  int refs;
  int counted;        // a client's object; the registry's own are not counted
  char *text;
  int64_t integer;
  double real;
  int is_real;
  uint8_t *bytes;
  long count, capacity;
  struct CF **keys, **values;
  void *payload;
} CF;

CF *cf_new(CFKind kind, int counted);
CF *cf_string(const char *text, int counted);
CF *cf_number(int64_t value, int counted);
CF *cf_copy(const CF *from);                    // deep, counted: what a client receives
void cf_push(CF *container, CF *key, CF *value); // takes over both
CF *cf_get(const CF *dictionary, const char *key);
void cf_put(CF *dictionary, const char *key, CF *value); // takes over value; NULL removes
void cf_drop(CF *object);                       // releases without counting a fault for NULL
CF *plist_parse(const char *text);              // NULL when it cannot be read

// ---- the registry
typedef struct Node {
  int refs;
  uint64_t id;
  char name[128], location[64], class_name[128];
  CF *properties;
  const char *classes[16]; // its own and those it derives from, interned
  struct Node *parent, *child, *sibling;
  int inactive, matched, keeps_properties;
  int vanish_after;   // property reads left until it is torn down; -1 for never
} Node;

typedef enum { OBJECT_ENTRY, OBJECT_ITERATOR, OBJECT_NOTIFICATION } ObjectKind;
typedef struct Port Port;
typedef struct Object {
  ObjectKind kind;
  int refs;
  Node *node;
  Node **list;
  int count, capacity, at;
  // notifications only
  Port *port;
  char type[64];
  CF *matching;
  void (*callback)(void *, uint32_t);
  void *refcon;
  int armed;
  uint32_t handle;
  struct Object *next;
} Object;

extern Node *root;
extern Object *notifications;
extern int64_t live_cf, live_objects, live_ports, live_pings, faults;

void lock(void);
void unlock(void);
void fault(const char *what);
int injected(const char *function, kern_return_t *result);

Node *node_retain(Node *node);
void node_release(Node *node);
Node *node_find(Node *from, uint64_t id);
int node_matches(const Node *node, const CF *matching);
void node_walk(Node *node, void (*visit)(Node *, void *), void *context);
Node *node_build(CF *plist, Node *parent);
void node_terminate(Node *node, int keep_properties);

Object *object_of(uint32_t handle, int kind);
uint32_t object_new(Object *object);
uint32_t object_entry(Node *node);
void list_add(Object *object, Node *node);

void notify(Node *node, int published);
void notification_dispose(Object *notification);
