/* commands: the list of commands, in the order of --help. Each line NAME stands for the object
 * cmd_NAME in cmd_NAME.c; a dash in a command's name is an underscore here. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#define CLI_COMMANDS(X) \
    X(generate) \
    X(chat) \
    X(serve) \
    X(sessions) \
    X(inspect) \
    X(plan) \
    X(eval) \
    X(bench) \
    X(doctor) \
    X(tokenize) \
    X(detokenize) \
    X(render) \
    X(quantize) \
    X(test_ops) \
    X(completion)

#endif
