/* blocks: the bytes of every block format, as structs.
 *
 * This header is read by the CPU kernels and, unchanged, by the run-time compiler of the GPU
 * kernels, so it includes nothing and uses no name of a system header. All numbers are
 * little-endian; `d` and `dmin` are binary16 bit patterns unless said otherwise. Structs are only
 * ever laid over bytes of a file: none has padding, and quantized rows need not be aligned beyond
 * what a byte pointer gives, except that every member is at a multiple of its size from the start
 * of its block.
 *
 * "Low nibbles first": n values in n/2 bytes, byte j holds value j in bits 0-3 and value j + n/2
 * in bits 4-7. The meaning of each member is spelled out where it is decoded: dequant_*.c. */
#ifndef QUANT_BLOCKS_H
#define QUANT_BLOCKS_H

#ifdef __cplusplus
#define BLOCK_BYTES(name, bytes) static_assert(sizeof(struct name) == bytes, #name)
#else
#define BLOCK_BYTES(name, bytes) _Static_assert(sizeof(struct name) == bytes, #name)
#endif

#define QK_SMALL 32 /* elements of a block of the older types */
#define QK_SUPER 256 /* elements of a super-block of the k and iq types */
#define QK_Q1_0 128
#define QK_Q2_0 64
#define QK_NVFP4 64

/* value = d * (q - 8) */
struct block_q4_0 {
    unsigned short d;
    unsigned char qs[16]; /* low nibbles first */
};
BLOCK_BYTES(block_q4_0, 18);

/* value = d * q + m */
struct block_q4_1 {
    unsigned short d, m;
    unsigned char qs[16]; /* low nibbles first */
};
BLOCK_BYTES(block_q4_1, 20);

/* value = d * (q - 16); bit j of the 32-bit number qh is the fifth bit of value j */
struct block_q5_0 {
    unsigned short d;
    unsigned char qh[4];
    unsigned char qs[16]; /* low nibbles first */
};
BLOCK_BYTES(block_q5_0, 22);

/* value = d * q + m */
struct block_q5_1 {
    unsigned short d, m;
    unsigned char qh[4];
    unsigned char qs[16]; /* low nibbles first */
};
BLOCK_BYTES(block_q5_1, 24);

/* value = d * q */
struct block_q8_0 {
    unsigned short d;
    signed char qs[32];
};
BLOCK_BYTES(block_q8_0, 34);

/* Activations: value = d * q, s = d * sum of q. */
struct block_q8_1 {
    unsigned short d, s;
    signed char qs[32];
};
BLOCK_BYTES(block_q8_1, 36);

/* value = d * (scale & 15) * q - dmin * (scale >> 4); a scale byte for each 16 elements.
 * The half h (128 elements) takes the bytes qs[32h] to qs[32h + 31], its quarter p (32 elements)
 * the bits 2p and 2p + 1 of them. */
struct block_q2_k {
    unsigned char scales[16];
    unsigned char qs[64];
    unsigned short d, dmin;
};
BLOCK_BYTES(block_q2_k, 84);

/* value = d * (scale - 32) * (q - 4); low two bits of q in qs as in Q2_K, the third is bit 4h + p
 * of hmask[l] for element l of quarter p of half h. Six-bit scale j: low four bits in a nibble of
 * scales[j % 8] (high nibble for j >= 8), the upper two in scales[8 + j % 4], bits 2 * (j / 4). */
struct block_q3_k {
    unsigned char hmask[32];
    unsigned char qs[64];
    unsigned char scales[12];
    unsigned short d;
};
BLOCK_BYTES(block_q3_k, 110);

/* value = d * scale * q - dmin * min, for sub-blocks of 32. Sub-block j takes the bytes
 * qs[32 * (j / 2)] and on, low nibbles for an even j, high ones for an odd j. Six-bit numbers:
 * j < 4: scale = s[j] & 63, min = s[j + 4] & 63; j >= 4: low four bits in the low (scale) and high
 * (min) nibble of s[j + 4], upper two in bits 6-7 of s[j - 4] (scale) and s[j] (min). */
struct block_q4_k {
    unsigned short d, dmin;
    unsigned char scales[12];
    unsigned char qs[128];
};
BLOCK_BYTES(block_q4_k, 144);

/* As Q4_K; bit j of qh[l] is the fifth bit of element l of sub-block j. */
struct block_q5_k {
    unsigned short d, dmin;
    unsigned char scales[12];
    unsigned char qh[32];
    unsigned char qs[128];
};
BLOCK_BYTES(block_q5_k, 176);

/* value = d * scale * (q - 32), a scale for each 16 elements. Element l of quarter p of half h:
 * low nibble in ql[64h + 32 * (p % 2) + l] (high nibble for p >= 2), upper two bits in
 * qh[32h + l], bits 2p and 2p + 1. */
struct block_q6_k {
    unsigned char ql[128];
    unsigned char qh[64];
    signed char scales[16];
    unsigned short d;
};
BLOCK_BYTES(block_q6_k, 210);

/* Activations: value = d * q with a binary32 d; bsums[i] = sum of the i-th 16 codes. */
struct block_q8_k {
    float d;
    signed char qs[256];
    short bsums[16];
};
BLOCK_BYTES(block_q8_k, 292);

/* A group of 32 elements is four unsigned shorts: four grid codes of one byte each, then a 32-bit
 * number: 7 sign bits for each eight elements from bit 0, scale in bits 28-31.
 * value = d * (scale + 1/2) / 4 * grid * sign */
struct block_iq2_xxs {
    unsigned short d;
    unsigned short qs[32];
};
BLOCK_BYTES(block_iq2_xxs, 66);

/* qs: grid code in bits 0-8, 7 sign bits above. scales: a nibble for each 16 elements. */
struct block_iq2_xs {
    unsigned short d;
    unsigned short qs[32];
    unsigned char scales[8];
};
BLOCK_BYTES(block_iq2_xs, 74);

/* Grid code of eight elements g: qs[g] and bits 2 * (g % 4) of qh[g / 4] above it. */
struct block_iq2_s {
    unsigned short d;
    unsigned char qs[32];
    unsigned char signs[32];
    unsigned char qh[8];
    unsigned char scales[8];
};
BLOCK_BYTES(block_iq2_s, 82);

/* qs: a grid code for each four elements. gas: a 32-bit number for each 32 elements: 7 sign bits
 * for each eight, scale in bits 28-31. value = d * (scale + 1/2) / 2 * grid * sign */
struct block_iq3_xxs {
    unsigned short d;
    unsigned char qs[64];
    unsigned char gas[32];
};
BLOCK_BYTES(block_iq3_xxs, 98);

/* Ninth code bits: qh[g / 4], bits 2 * (g % 4) and the next, for the two codes of eight elements g.
 * value = d * (2 * scale + 1) * grid * sign, a scale nibble for each 32 elements */
struct block_iq3_s {
    unsigned short d;
    unsigned char qs[64];
    unsigned char qh[8];
    unsigned char signs[32];
    unsigned char scales[4];
};
BLOCK_BYTES(block_iq3_s, 110);

/* qh, for each 32 elements: upper three code bits of each eight from bit 0, scale in bits 12-14,
 * bit 15 makes the shift negative. value = d * (2 * scale + 1) * (grid +- 1/8) */
struct block_iq1_s {
    unsigned short d;
    unsigned char qs[32];
    unsigned short qh[8];
};
BLOCK_BYTES(block_iq1_s, 50);

/* qh: a nibble for each eight elements: upper three code bits, bit 3 makes the shift negative.
 * scales: the top nibbles of the four words are the binary16 d (lowest first), below them four
 * three-bit scales each, one for every 16 elements. */
struct block_iq1_m {
    unsigned char qs[32];
    unsigned char qh[16];
    unsigned short scales[4];
};
BLOCK_BYTES(block_iq1_m, 56);

/* value = d * iq4_values[q] */
struct block_iq4_nl {
    unsigned short d;
    unsigned char qs[16]; /* low nibbles first */
};
BLOCK_BYTES(block_iq4_nl, 18);

/* value = d * (scale - 32) * iq4_values[q]; six-bit scale of sub-block j (32 elements): low nibbles
 * in scales_l, upper two bits in bits 2j of scales_h. */
struct block_iq4_xs {
    unsigned short d;
    unsigned short scales_h;
    unsigned char scales_l[4];
    unsigned char qs[128]; /* 16 bytes for a sub-block, low nibbles first */
};
BLOCK_BYTES(block_iq4_xs, 136);

/* value = d * (digit - 1); digit k of byte b = (b * 3^k mod 256) * 3 >> 8. Bytes qs[0..31] hold
 * digit 0 of 32 elements, then digit 1 of the next 32, ..., five digits; qs[32..47] likewise;
 * qh[0..3] four digits. */
struct block_tq1_0 {
    unsigned char qs[48];
    unsigned char qh[4];
    unsigned short d;
};
BLOCK_BYTES(block_tq1_0, 54);

/* value = d * (q - 1); bits 2l of qs[32h + m] for element m of quarter l of half h */
struct block_tq2_0 {
    unsigned char qs[64];
    unsigned short d;
};
BLOCK_BYTES(block_tq2_0, 66);

/* value = 2^(e - 127) * e2m1 */
struct block_mxfp4 {
    unsigned char e;
    unsigned char qs[16]; /* low nibbles first */
};
BLOCK_BYTES(block_mxfp4, 17);

/* value = scale * e2m1; scales are unsigned e4m3, one for each group of 16 elements, whose eight
 * bytes are low nibbles first. */
struct block_nvfp4 {
    unsigned char scales[4];
    unsigned char qs[32];
};
BLOCK_BYTES(block_nvfp4, 36);

/* bit j % 8 of qs[j / 8]: set is d, clear is -d */
struct block_q1_0 {
    unsigned short d;
    unsigned char qs[16];
};
BLOCK_BYTES(block_q1_0, 18);

/* value = d * (q - 1), q in bits 2 * (j % 4) of qs[j / 4] */
struct block_q2_0 {
    unsigned short d;
    unsigned char qs[16];
};
BLOCK_BYTES(block_q2_0, 18);

#endif
