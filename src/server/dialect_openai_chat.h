/* dialect_openai_chat: POST /v1/chat/completions. Wire format: OpenAI API reference, "Chat". */
#ifndef SERVER_DIALECT_OPENAI_CHAT_H
#define SERVER_DIALECT_OPENAI_CHAT_H

struct exchange;
void openai_chat_handle(struct exchange *);

#endif
