/* attention_unpack: packed keys and values to vectors of f32, one inline for all types of a cache.
 *
 * `type` is a constant at every call, so that each caller keeps one case. A key group is read step
 * by step: a step is the smallest run of whole bytes, KV_STEP elements of 16 keys. The numbers are
 * the same bits as kv_decode_row gives. Included by attention_body.h, after the vocabulary. */
#ifndef CPU_ATTENTION_UNPACK_H
#define CPU_ATTENTION_UNPACK_H

#include "quant/kv_codec.h"

#define GROUP_VECTORS (16 / VF_LANES) /* vectors of a key group, or of 16 value columns */
#define STEP_MAX 8

/* Layouts as constants: kv_codec.c has the same as a table. */
HOT_INLINE int unpack_block_elements(enum tensor_type type)
{
    switch (type) {
    case TENSOR_TYPE_Q8_0:
    case TENSOR_TYPE_Q4_0:
    case TENSOR_TYPE_TURBO3:
    case TENSOR_TYPE_TURBO4:
        return 32;
    case TENSOR_TYPE_NVFP4:
        return 16;
    default:
        return 1;
    }
}

HOT_INLINE int unpack_scale_bytes(enum tensor_type type)
{
    return unpack_block_elements(type) == 32 ? 2 : type == TENSOR_TYPE_NVFP4 ? 1 : 0;
}

HOT_INLINE int unpack_step_elements(enum tensor_type type)
{
    switch (type) {
    case TENSOR_TYPE_Q4_0:
    case TENSOR_TYPE_NVFP4:
    case TENSOR_TYPE_TURBO4:
        return 2;
    case TENSOR_TYPE_TURBO3:
        return 8;
    default:
        return 1;
    }
}

HOT_INLINE int unpack_step_bytes(enum tensor_type type)
{
    switch (type) {
    case TENSOR_TYPE_F32:
        return 4;
    case TENSOR_TYPE_F16:
    case TENSOR_TYPE_BF16:
        return 2;
    case TENSOR_TYPE_TURBO3:
        return 3;
    default:
        return 1;
    }
}

HOT_INLINE int unpack_block_bytes(enum tensor_type type)
{
    return unpack_scale_bytes(type) +
           unpack_block_elements(type) / unpack_step_elements(type) * unpack_step_bytes(type);
}

/* Codes of e2m1 and of Q4_0 as numbers. */
static const float unpack_e2m1[16] = { 0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                       -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6 };

HOT_INLINE VF unpack_nibble(enum tensor_type type, VI code)
{
    switch (type) {
    case TENSOR_TYPE_NVFP4:
        return vf_table16(unpack_e2m1, code);
    case TENSOR_TYPE_TURBO4:
        return vf_table16(turbo4_codebook, code);
    default:
        return vf_of_vi(vi_sub(vi_and(code, vi_set(15)), vi_set(8)));
    }
}

/* --- keys --------------------------------------------------------------------------------- */

/* Scales of vector v of the 16 keys of a block. */
HOT_INLINE VF unpack_key_scale(enum tensor_type type, const uint8_t *block, int v)
{
    if (unpack_scale_bytes(type) == 2)
        return vf_load_f16((const uint16_t *)(const void *)block + v * VF_LANES);
    if (unpack_scale_bytes(type) == 1)
        return vf_load_e4m3(block + v * VF_LANES);
    return vf_set(1);
}

/* The elements of one step of vector v of the 16 keys. */
HOT_INLINE void unpack_key_step(enum tensor_type type, const uint8_t *step, VF scale, int v,
                                VF element[STEP_MAX])
{
    const uint8_t *at = step + v * VF_LANES *
                                   (type == TENSOR_TYPE_F32        ? 4
                                    : unpack_step_bytes(type) == 2 ? 2
                                                                   : 1);
    switch (type) {
    case TENSOR_TYPE_F32:
        element[0] = vf_load((const float *)(const void *)at);
        break;
    case TENSOR_TYPE_F16:
        element[0] = vf_load_f16((const uint16_t *)(const void *)at);
        break;
    case TENSOR_TYPE_BF16:
        element[0] = vf_load_bf16((const uint16_t *)(const void *)at);
        break;
    case TENSOR_TYPE_F8_E4M3:
        element[0] = vf_load_e4m3(at);
        break;
    case TENSOR_TYPE_Q8_0:
        element[0] = vf_mul(scale, vf_load_i8((const int8_t *)at));
        break;
    case TENSOR_TYPE_TURBO3: {
        VI word = vi_or(vi_load_u8(at), vi_or(vi_shift_left(vi_load_u8(at + 16), 8),
                                              vi_shift_left(vi_load_u8(at + 32), 16)));
        element[0] = vf_mul(scale, vf_table8(turbo3_codebook, word));
        element[1] = vf_mul(scale, vf_table8(turbo3_codebook, vi_shift_right(word, 3)));
        element[2] = vf_mul(scale, vf_table8(turbo3_codebook, vi_shift_right(word, 6)));
        element[3] = vf_mul(scale, vf_table8(turbo3_codebook, vi_shift_right(word, 9)));
        element[4] = vf_mul(scale, vf_table8(turbo3_codebook, vi_shift_right(word, 12)));
        element[5] = vf_mul(scale, vf_table8(turbo3_codebook, vi_shift_right(word, 15)));
        element[6] = vf_mul(scale, vf_table8(turbo3_codebook, vi_shift_right(word, 18)));
        element[7] = vf_mul(scale, vf_table8(turbo3_codebook, vi_shift_right(word, 21)));
        break;
    }
    default: {
        VI byte = vi_load_u8(at);
        element[0] = vf_mul(scale, unpack_nibble(type, byte));
        element[1] = vf_mul(scale, unpack_nibble(type, vi_shift_right(byte, 4)));
    }
    }
}

/* --- values ------------------------------------------------------------------------------- */

/* Columns [d, d + 16) of a value row; d is a multiple of 16. */
HOT_INLINE void unpack_value_columns(enum tensor_type type, const uint8_t *row, int d,
                                     VF column[GROUP_VECTORS])
{
    int elements = unpack_block_elements(type);
    const uint8_t *block = row + d / elements * unpack_block_bytes(type);
    const uint8_t *codes = block + unpack_scale_bytes(type);
    VF scale = vf_set(1);
    if (unpack_scale_bytes(type) == 2)
        scale = vf_set_f16((const uint16_t *)(const void *)block);
    else if (unpack_scale_bytes(type) == 1)
        scale = vf_set(f8_e4m3_to_f32(*block));
    for (int v = 0; v < GROUP_VECTORS; v++) {
        int i = d % elements + v * VF_LANES;
        switch (type) {
        case TENSOR_TYPE_F32: /* blocks of one element: i counts from the block at d */
            column[v] = vf_load((const float *)(const void *)codes + i);
            break;
        case TENSOR_TYPE_F16:
            column[v] = vf_load_f16((const uint16_t *)(const void *)codes + i);
            break;
        case TENSOR_TYPE_BF16:
            column[v] = vf_load_bf16((const uint16_t *)(const void *)codes + i);
            break;
        case TENSOR_TYPE_F8_E4M3:
            column[v] = vf_load_e4m3(codes + i);
            break;
        case TENSOR_TYPE_Q8_0:
            column[v] = vf_mul(scale, vf_load_i8((const int8_t *)codes + i));
            break;
        case TENSOR_TYPE_TURBO3:
            column[v] = vf_mul(scale, vf_table8(turbo3_codebook, vi_bits3(codes, i)));
            break;
        default:
            column[v] = vf_mul(scale, unpack_nibble(type, vi_bits4(codes, i)));
        }
    }
}

#endif
