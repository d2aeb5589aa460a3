#ifndef TRAIN_PLAN_ELEMENT_H
#define TRAIN_PLAN_ELEMENT_H
/* The types of what collectives move and add. */

#include <stddef.h>

/* Numbers of the wire: they never change. f16 is IEEE 754 binary16; bytes can be moved, not added. */
enum element_type { ELEMENT_F32 = 1, ELEMENT_F16, ELEMENT_BF16, ELEMENT_BYTES };

/* Of one element: 4, 2 or 1; 0 for a number that is no type. */
size_t element_type_bytes(enum element_type type);

/* Whether the type is one that has sums. */
#define ELEMENT_ADDS(type) ((type) >= ELEMENT_F32 && (type) <= ELEMENT_BF16)

/* For people ("f32"); static, "?" for a number that is no type. The other way: 0 if there is no such name. */
const char *element_type_name(enum element_type type);
enum element_type element_type_named(const char *name);

#endif
