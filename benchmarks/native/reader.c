/* Starts a program, reads its standard output to the end, and throws it away.
 *
 *     reader PROGRAM [ARGUMENT]...
 *
 * Reads 64 KiB at a time, which is what a pipe holds. Prints the nanoseconds from start to exit, the bytes that were read,
 * and the largest resident memory of the program (KiB). Ends with 1 when the program does not end with 0.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char block[64 * 1024];

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv) {
  int ends[2], status;
  long long begin = now(), total = 0;
  ssize_t count;
  pid_t pid;
  struct rusage usage;
  posix_spawn_file_actions_t actions;
  if (argc < 2 || pipe(ends) || posix_spawn_file_actions_init(&actions)) return 1;
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  if (posix_spawn(&pid, argv[1], &actions, NULL, argv + 1, environ)) return 1;
  close(ends[1]);
  while ((count = read(ends[0], block, sizeof block)) > 0) total += count;
  if (count < 0 || wait4(pid, &status, 0, &usage) != pid || status) return 1;
  printf("%lld %lld %ld\n", now() - begin, total, usage.ru_maxrss);
  return 0;
}
