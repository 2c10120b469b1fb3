#include "quant/tensor_types.h"

#include <strings.h>

#include "base/compiler.h"
#include "quant/dequant.h"

static const struct tensor_type_info infos[] = {
#define TYPE_ROW(name, id, elements, bytes, flags) \
    { TENSOR_TYPE_##name, #name, elements, bytes, flags, dequant_##name },
    TENSOR_TYPE_LIST(TYPE_ROW)
#undef TYPE_ROW
};

const struct tensor_type_info *tensor_type_info(enum tensor_type type)
{
    for (size_t i = 0; i < ARRAY_SIZE(infos); i++)
        if (infos[i].type == type)
            return &infos[i];
    return NULL;
}

const char *tensor_type_removed_name(enum tensor_type type)
{
    switch ((unsigned)type) {
    case 4: return "Q4_2";
    case 5: return "Q4_3";
    case 31: return "Q4_0_4_4";
    case 32: return "Q4_0_4_8";
    case 33: return "Q4_0_8_8";
    case 36: return "IQ4_NL_4_4";
    case 37: return "IQ4_NL_4_8";
    case 38: return "IQ4_NL_8_8";
    default: return NULL;
    }
}

const char *tensor_type_name(enum tensor_type type)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    return info ? info->name : "unknown";
}

bool tensor_type_from_name(struct str name, enum tensor_type *type)
{
    for (size_t i = 0; i < ARRAY_SIZE(infos); i++) {
        if (name.len == strlen(infos[i].name) &&
            strncasecmp(name.ptr, infos[i].name, name.len) == 0) {
            *type = infos[i].type;
            return true;
        }
    }
    return false;
}

bool tensor_type_row_bytes(enum tensor_type type, int64_t n_cols, size_t *bytes)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    if (!info || n_cols < 0 || n_cols % info->block_elements != 0)
        return false;
    return !__builtin_mul_overflow(n_cols / info->block_elements, info->block_bytes, bytes);
}
