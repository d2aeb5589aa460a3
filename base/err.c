#include "base/err.h"

const char *err_name(int code)
{
    switch (code) {
    case 0:
        return "ok";
#define ERR_CASE(symbol, code, name, text) \
    case symbol:                           \
        return name;
        ERR_MAP(ERR_CASE)
#undef ERR_CASE
    default:
        return "unknown";
    }
}

const char *err_text(int code)
{
    switch (code) {
    case 0:
        return "no error";
#define ERR_CASE(symbol, code, name, text) \
    case symbol:                           \
        return text;
        ERR_MAP(ERR_CASE)
#undef ERR_CASE
    default:
        return "an unknown error";
    }
}
