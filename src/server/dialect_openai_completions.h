/* dialect_openai_completions: POST /v1/completions: raw prompts, no template. Wire format: OpenAI
 * API reference, "Completions". */
#ifndef SERVER_DIALECT_OPENAI_COMPLETIONS_H
#define SERVER_DIALECT_OPENAI_COMPLETIONS_H

struct exchange;
void openai_completions_handle(struct exchange *);

#endif
