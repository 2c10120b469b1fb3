/* dialect_openai_models: GET /v1/models and /v1/models/{id}: a superset of what OpenAI's and
 * Anthropic's clients expect of one entry. */
#ifndef SERVER_DIALECT_OPENAI_MODELS_H
#define SERVER_DIALECT_OPENAI_MODELS_H

struct exchange;
void openai_models_list(struct exchange *);
void openai_models_one(struct exchange *);

#endif
