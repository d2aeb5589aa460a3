#ifndef TRAIN_PLAN_ELEMENT_H
#define TRAIN_PLAN_ELEMENT_H
/* The element types of collectives. */

#include <stddef.h>

/* Numbers on the wire: never changed. f16 is IEEE 754 binary16. ELEMENT_BYTES can be moved, not added. */
enum element_type { ELEMENT_F32 = 1, ELEMENT_F16, ELEMENT_BF16, ELEMENT_BYTES };

/* Bytes of an element: 4, 2 or 1; 0 if the number is no type. */
size_t element_type_bytes(enum element_type type);

/* Whether elements of the type can be added. */
#define ELEMENT_ADDS(type) ((type) >= ELEMENT_F32 && (type) <= ELEMENT_BF16)

/* The type's name ("f32"), a static string; "?" if the number is no type. element_type_named is the inverse; 0: unknown
 * name. */
const char *element_type_name(enum element_type type);
enum element_type element_type_named(const char *name);

#endif
