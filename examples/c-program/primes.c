/* Counts the primes below N by the sieve of Eratosthenes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    size_t limit = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    char *composite = calloc(limit + 1, 1);
    size_t count = 0;
    if (composite == NULL) {
        perror("calloc");
        return 1;
    }
    for (size_t n = 2; n < limit; n++) {
        if (composite[n])
            continue;
        count++;
        for (size_t multiple = n * n; multiple < limit; multiple += n)
            composite[multiple] = 1;
    }
    printf("%zu primes below %zu\n", count, limit);
    free(composite);
    return 0;
}
