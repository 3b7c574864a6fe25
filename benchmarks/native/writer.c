/* Writes BYTES bytes to standard output, 64 KiB at a time.
 *
 *     writer BYTES
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[64 * 1024];

int main(int argc, char **argv) {
  long long left = argc > 1 ? atoll(argv[1]) : 0;
  memset(block, 'x', sizeof block);
  while (left > 0) {
    ssize_t count = write(1, block, left < (long long)sizeof block ? (size_t)left : sizeof block);
    if (count < 0) return 1;
    left -= count;
  }
  return 0;
}
