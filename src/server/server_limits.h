/* server_limits: every bound that the HTTP side keeps, in one place. All appear in GET /props. */
#ifndef SERVER_SERVER_LIMITS_H
#define SERVER_SERVER_LIMITS_H

#define LIMIT_BODY_BYTES (16u << 20)       /* also after decompression */
#define LIMIT_BODY_DRAIN_BYTES (32u << 20) /* a chunked body past the limit is read this far */
#define LIMIT_HEADER_LINE_BYTES 8192u
#define LIMIT_HEADERS_BYTES (32u << 10)
#define LIMIT_HEADER_COUNT 100u
#define LIMIT_CONNECTION_MEMORY (128u << 10)
#define LIMIT_STOP_STRINGS 16
#define LIMIT_STOP_BYTES 256
#define LIMIT_N 32
#define LIMIT_TOP_LOGPROBS 20
#define LIMIT_LOGIT_BIAS 1024
#define LIMIT_BIAS 1e6 /* either sign: far beyond any logit, far below what a float loses */
#define LIMIT_TOOLS 4096
#define LIMIT_REQUEST_ID_BYTES 128
#define LIMIT_REPLY_BYTES (256u << 20)        /* a whole answer that is not streamed */
#define LIMIT_PENDING_STREAM_BYTES (1u << 20) /* formatted, not yet taken by the client */

#endif
