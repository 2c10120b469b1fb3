/* dialect_llama: POST /tokenize and /detokenize in llama.cpp's wire format. */
#ifndef SERVER_DIALECT_LLAMA_H
#define SERVER_DIALECT_LLAMA_H

struct exchange;
void llama_tokenize(struct exchange *);
void llama_detokenize(struct exchange *);

#endif
