// Reads the property lists the tests make. They are well-formed; anything else is refused.
#include "fake.h"

static const char *at;

static void skip(void) {
  for (;;) {
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') at++;
    const char *end = NULL;
    if (!strncmp(at, "<!--", 4)) end = strstr(at, "-->"), end = end ? end + 3 : NULL;
    else if (!strncmp(at, "<?", 2) || !strncmp(at, "<!", 2)) end = strchr(at, '>'), end = end ? end + 1 : NULL;
    else return;
    if (!end) return;
    at = end;
  }
}

static int opens(const char *name, int *empty) {
  size_t length = strlen(name);
  if (*at != '<' || strncmp(at + 1, name, length)) return 0;
  const char *end = at + 1 + length;
  if (*end != '>' && *end != '/' && *end != ' ') return 0;
  end = strchr(end, '>');
  if (!end) return 0;
  *empty = end[-1] == '/';
  at = end + 1;
  return 1;
}

static int closes(const char *name) {
  skip();
  size_t length = strlen(name);
  if (strncmp(at, "</", 2) || strncmp(at + 2, name, length) || at[2 + length] != '>') return 0;
  at += length + 3;
  return 1;
}

static char *content(const char *name) {
  static const struct { const char *entity; char character; } entities[] = {
    { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' } };
  const char *end = strchr(at, '<');
  if (!end) return NULL;
  char *text = malloc(end - at + 1), *out = text;
  while (at < end) {
    size_t step = 1;
    *out = *at;
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
      if (!strncmp(at, entities[i].entity, strlen(entities[i].entity))) {
        *out = entities[i].character;
        step = strlen(entities[i].entity);
      }
    at += step;
    out++;
  }
  *out = 0;
  if (closes(name)) return text;
  free(text);
  return NULL;
}

static CF *data(const char *text) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  CF *object = cf_new(CF_DATA, 0);
  object->bytes = malloc(strlen(text) + 1);
  uint32_t bits = 0;
  int held = 0;
  for (const char *c = text; *c; c++) {
    const char *digit = *c == '=' ? NULL : strchr(alphabet, *c);
    if (!digit) continue;
    bits = bits << 6 | (uint32_t)(digit - alphabet);
    held += 6;
    if (held >= 8) object->bytes[object->count++] = (uint8_t)(bits >> (held -= 8));
  }
  return object;
}

static CF *value(void) {
  int empty;
  skip();
  if (opens("dict", &empty)) {
    CF *object = cf_new(CF_DICTIONARY, 0);
    while (!empty && !closes("dict")) {
      int no_key;
      char *key = opens("key", &no_key) ? (no_key ? strdup("") : content("key")) : NULL;
      CF *child = key ? value() : NULL;
      if (!child) { free(key); cf_drop(object); return NULL; }
      cf_push(object, cf_string(key, 0), child);
      free(key);
    }
    return object;
  }
  if (opens("array", &empty)) {
    CF *object = cf_new(CF_ARRAY, 0);
    while (!empty && !closes("array")) {
      CF *child = value();
      if (!child) { cf_drop(object); return NULL; }
      cf_push(object, NULL, child);
    }
    return object;
  }
  for (int truth = 0; truth < 2; truth++)
    if (opens(truth ? "true" : "false", &empty)) {
      CF *object = cf_new(CF_BOOLEAN, 0);
      object->integer = truth;
      return object;
    }
  static const char *const leaves[] = { "string", "integer", "real", "data", "date" };
  for (int leaf = 0; leaf < 5; leaf++) {
    if (!opens(leaves[leaf], &empty)) continue;
    char *text = empty ? strdup("") : content(leaves[leaf]);
    if (!text) return NULL;
    CF *object;
    if (leaf == 0) object = cf_string(text, 0);
    else if (leaf == 1) object = cf_number(*text == '-' ? strtoll(text, NULL, 0) : (int64_t)strtoull(text, NULL, 0), 0);
    else if (leaf == 2) object = cf_number(0, 0), object->is_real = 1, object->real = strtod(text, NULL);
    else if (leaf == 3) object = data(text);
    else object = cf_new(CF_DATE, 0);
    free(text);
    return object;
  }
  return NULL;
}

CF *plist_parse(const char *text) {
  int empty;
  at = text;
  skip();
  if (!opens("plist", &empty) || empty) return NULL;
  CF *object = value();
  if (object && object->kind == CF_ARRAY && object->count == 1) {
    CF *only = object->values[0];
    only->refs++;
    cf_drop(object);
    object = only;
  }
  return object;
}
