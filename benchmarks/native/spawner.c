/* Starts COUNT processes with posix_spawn, CONCURRENCY of them at a time, and waits for each.
 *
 *     spawner COUNT CONCURRENCY PROGRAM [ARGUMENT]...
 *
 * One process, no threads: as soon as one child is reaped, the next is started. Standard input and output of the children
 * are /dev/null, nothing is captured. Prints nanoseconds, one number a line: the whole time, then each child's. Ends with 1
 * when a child cannot be started or does not end with 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct child {
  pid_t pid;
  long long started;
};

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void fail(const char *what, int error) {
  fprintf(stderr, "spawner: %s: %s\n", what, error ? strerror(error) : "failed");
  exit(1);
}

static void start(struct child *child, char **command, const posix_spawn_file_actions_t *actions) {
  child->started = now();
  int error = posix_spawn(&child->pid, command[0], actions, NULL, command, environ);
  if (error) fail(command[0], error);
}

/* Returns the place of the child that has ended. */
static long reap(const struct child *children, long concurrency) {
  int status;
  pid_t pid = waitpid(-1, &status, 0);
  if (pid < 0) fail("waitpid", errno);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail("child", 0);
  for (long place = 0; place < concurrency; place++)
    if (children[place].pid == pid) return place;
  fail("child nobody knows", 0);
  return -1;
}

int main(int argc, char **argv) {
  if (argc < 4) fail("expected COUNT CONCURRENCY PROGRAM", 0);
  long count = atol(argv[1]), concurrency = atol(argv[2]), started = 0;
  if (concurrency > count) concurrency = count;
  struct child *children = calloc(concurrency, sizeof *children);
  long long *took = calloc(count, sizeof *took);
  posix_spawn_file_actions_t actions;
  if (!children || !took || posix_spawn_file_actions_init(&actions)) fail("memory", ENOMEM);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  long long begin = now();
  while (started < concurrency) start(&children[started++], argv + 3, &actions);
  for (long ended = 0; ended < count; ended++) {
    struct child *child = &children[reap(children, concurrency)];
    took[ended] = now() - child->started;
    if (started < count) {
      start(child, argv + 3, &actions);
      started++;
    }
  }
  printf("%lld\n", now() - begin);
  for (long ended = 0; ended < count; ended++) printf("%lld\n", took[ended]);
  return 0;
}
