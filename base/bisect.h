#ifndef BASE_BISECT_H
#define BASE_BISECT_H
/* Binary search for a place in anything sorted that has indices 0 ... count - 1. The caller compares, in its own types:
 *
 *     struct bisection search = bisect_all(count);
 *     while (bisect_next(&search)) {
 *         bisect_answer(&search, items[search.middle] < wanted);
 *     }
 *
 * search.low is then the index of the first item that is not below the wanted one, or `count` if all items are below it. */

#include <stdbool.h>
#include <stdint.h>

struct bisection {
    uint32_t low, high; /* the place is one of low ... high */
    uint32_t middle;    /* the index that the caller is asked about; only valid after a bisect_next that returned true */
};

/* A search among `count` items. */
static inline struct bisection bisect_all(uint32_t count)
{
    return (struct bisection){.high = count};
}

/* True: the caller compares the item at search->middle and calls bisect_answer. False: the place is search->low. */
static inline bool bisect_next(struct bisection *search)
{
    search->middle = search->low + (search->high - search->low) / 2;
    return search->low < search->high;
}

/* `is_below`: the item at search->middle belongs before the wanted one. */
static inline void bisect_answer(struct bisection *search, bool is_below)
{
    if (is_below) {
        search->low = search->middle + 1;
    } else {
        search->high = search->middle;
    }
}

#endif
