/* option_groups: the flags that several commands share, each listed once. A command names the
 * groups that it honours; a flag that a command would ignore is not among its groups. */
#ifndef CLI_OPTION_GROUPS_H
#define CLI_OPTION_GROUPS_H

#include "cli/options.h"

#define CACHE_TYPES "f32|f16|bf16|q8_0|fp8_e4m3|q4_0|nvfp4|turbo3|turbo4"

extern const struct option_group output_options;   /* --verbose --quiet; every command has them */
extern const struct option_group model_options;    /* --model --tokenizer */
extern const struct option_group template_options; /* --chat-template... --parse-special */
extern const struct option_group sampling_options; /* --temperature ... --max-tokens */
extern const struct option_group answer_options;   /* --stop --logit-bias ...: no server default */
extern const struct option_group engine_options;   /* --context --cache-type-k --exact ... */
extern const struct option_group device_options;   /* --device --threads --mlock */
extern const struct option_group server_options;   /* --host --port --api-key ... */
/* Spellings of other programs: ignored with a notice or refused by name. Listed last. */
extern const struct option_group foreign_options;

#endif
