/* turbo: the rotated codebook formats of cached keys and values, and their rotation.
 *
 * A vector of one head is rotated by R = H S: random signs, then the orthonormal Walsh-Hadamard
 * transform. Rotated values are close to normal, so that one codebook fits all. Blocks of 32
 * rotated values:
 *
 *   bytes 0-1   scale, binary16
 *   bytes 2-    32 codebook indices of 3 (TURBO3) or 4 bits (TURBO4), lowest bits first
 *
 * value = scale * codebook[index]. Decoders give rotated values: products of two vectors rotated
 * alike are the same as before, and a weighted sum is turned back once, at its end.
 * Source: TurboQuant, arXiv:2504.19874, the variant that minimizes the mean square error.
 * Pure functions: any thread may call them. */
#ifndef QUANT_TURBO_H
#define QUANT_TURBO_H

#include <stdbool.h>
#include <stdint.h>

/* Which signs a rotation draws. */
enum turbo_stream { TURBO_KEYS, TURBO_VALUES };

/* Ascending; the mean square error of a standard normal number is smallest with these levels
 * (S. Lloyd, IEEE Trans. Inf. Theory 28, 1982). */
extern const float turbo3_codebook[8], turbo4_codebook[16];

/* A power of two from 32 to 1024. */
bool turbo_dim_supported(int32_t dim);

/* x = R x, and back. */
void turbo_rotate(float *x, int32_t dim, enum turbo_stream);
void turbo_unrotate(float *x, int32_t dim, enum turbo_stream);

/* 32 rotated values to one block of `bits` 3 or 4. A block of zero bytes means zeros. */
void turbo_encode_block(const float *x, int bits, uint8_t *block);
/* The same with the scale, of several around the usual one, that leaves the smallest error. */
void turbo_encode_best(const float *x, int bits, uint8_t *block);

#endif
