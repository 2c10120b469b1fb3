/* replay: runs files through a fuzz target without libFuzzer, for compilers that lack it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        static uint8_t bytes[1 << 20];
        size_t n = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        LLVMFuzzerTestOneInput(bytes, n);
    }
    printf("%d inputs\n", argc - 1);
    return 0;
}
