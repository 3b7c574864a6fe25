/* A tool that tries to get away from whoever started it, in one of several ways.
 *
 *     misbehave WAY DIRECTORY
 *
 * DIRECTORY holds four files. Everybody of the tree shares a lock (flock) on `lock`, so whoever can take it knows
 * that nobody is left. Everybody who has got away writes his number to the FIFO `ready`. Nobody outlives the other end of the
 * FIFO `stop`, so that a test which has found survivors, or which was killed itself, leaves none.
 *
 * The tool itself waits as well, until a byte on the FIFO `leave` tells it to exit.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STORM = 300, STORM_READY = 60, GENERATIONS_READY = 20 };

static char directory[4096];
static int ready = -1, stop = -1;

static void die(const char *what) {
    perror(what);
    _exit(70);
}

static int open_here(const char *name, int flags) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int descriptor = open(path, flags);
    if (descriptor < 0) die(path);
    return descriptor;
}

static void take_hold(void) {
    if (flock(open_here("lock", O_RDWR), LOCK_EX) != 0) die("flock");
    ready = open_here("ready", O_WRONLY);
    stop = open_here("stop", O_RDONLY);
}

static void ignore_signals(void) {
    for (int signal_ = 1; signal_ < NSIG; signal_++) signal(signal_, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
}

static void say_ready(void) {
    char line[32];
    int length = snprintf(line, sizeof line, "%d\n", getpid());
    if (write(ready, line, length) != length) die("ready");
}

/* True once the test has let go of `stop`; waits so long. */
static int told_to_stop(int milliseconds) {
    struct pollfd watched = {.fd = stop, .events = POLLIN};
    return poll(&watched, 1, milliseconds) > 0;
}

static void stay(void) {
    told_to_stop(-1);
    _exit(0);
}

static void wait_to_leave(void) {
    struct pollfd watched[] = {{.fd = open_here("leave", O_RDONLY), .events = POLLIN},
                               {.fd = open_here("stop", O_RDONLY), .events = POLLIN}};
    poll(watched, 2, -1);
    _exit(0);
}

static pid_t fork_or_die(void) {
    pid_t pid = fork();
    if (pid < 0) die("fork");
    return pid;
}

/* Returns in a process that has no parent of ours, no group, no session and no signal that would end it. */
static int got_away(void) {
    if (fork_or_die() != 0) return 0;
    setsid();
    ignore_signals();
    if (fork_or_die() != 0) _exit(0);
    return 1;
}

static void daemonize(void) {
    if (!got_away()) return;
    say_ready();
    stay();
}

/* Lets go of every descriptor first, the lock included, and comes back to the lock on its own. */
static void close_all(void) {
    if (fork_or_die() != 0) return;
    syscall(SYS_close_range, 0u, ~0u, 0u);
    setsid();
    ignore_signals();
    if (fork_or_die() != 0) _exit(0);
    take_hold();
    say_ready();
    stay();
}

static void change_group(void) {
    if (fork_or_die() != 0) return;
    setpgid(0, 0);
    ignore_signals();
    say_ready();
    stay();
}

/* A child of the tool's own parent: next to the tool, not below it. */
static void be_a_sibling(void) {
    if (syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, NULL) != 0) return;
    setsid();
    ignore_signals();
    say_ready();
    stay();
}

/* Collects its own orphans, so that they arrive at the keeper only when this one dies. */
static void collect_orphans(void) {
    if (!got_away()) return;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    daemonize();
    stay();
}

static void freeze(void) {
    if (!got_away()) return;
    say_ready();
    raise(SIGSTOP);
    stay();
}

/* One process at a time, and never the same for long. */
static void run_on(void) {
    if (!got_away()) return;
    for (int generation = 0; !told_to_stop(0); generation++) {
        if (fork_or_die() != 0) _exit(0);
        if (generation == GENERATIONS_READY) say_ready();
    }
    _exit(0);
}

/* Everybody forks as fast as he can, until there have been STORM of them. */
static void storm(void) {
    atomic_int *count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == MAP_FAILED) die("mmap");
    if (!got_away()) return;
    for (;;) {
        int number = atomic_fetch_add(count, 1);
        if (number == STORM_READY) say_ready();
        if (number >= STORM || told_to_stop(0)) break;
        if (fork_or_die() == 0) setsid();
    }
    stay();
}

/* Stays where it is, and does not want to go. */
static void refuse(void) {
    ignore_signals();
    say_ready();
}

/* As `refuse`, and does not even listen. */
static void refuse_frozen(void) {
    ignore_signals();
    say_ready();
    raise(SIGSTOP);
}

static const struct {
    const char *name;
    void (*get_away)(void);
} ways[] = {
    {"daemonize", daemonize},   {"close_all", close_all}, {"change_group", change_group},
    {"be_a_sibling", be_a_sibling}, {"collect_orphans", collect_orphans}, {"freeze", freeze},
    {"run_on", run_on},         {"storm", storm},         {"refuse", refuse},
    {"refuse_frozen", refuse_frozen},
};

int main(int count, char **arguments) {
    if (count != 3) return 64;
    snprintf(directory, sizeof directory, "%s", arguments[2]);
    if (strcmp(arguments[1], "close_all") != 0) take_hold();
    for (size_t index = 0; index < sizeof ways / sizeof *ways; index++) {
        if (strcmp(arguments[1], ways[index].name) != 0) continue;
        ways[index].get_away();
        wait_to_leave();
    }
    return 64;
}
