/* Tries every way out of a run that is known, each in a process of its own, and prints what became of it.
 *
 *     ways victim WORLD UNIQUE          what a stranger of the same user has open; prints what `try` needs, and waits
 *     ways try WORLD UNIQUE FACT=…      {"way": "OPEN" | "<errno>" | "SIGNAL"}; a way without its fact is left out
 *     ways euid                         ends with 0 if it has become somebody else
 *     ways without NUMBER COMMAND…      runs a command for which a system call does not exist
 *
 * A way is OPEN when what it wants has happened, or when only something beside the point was in its way.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <net/if.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/vm_sockets.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char world[512], unique[64];
static pid_t victim, keeper;
static int tcp_port, udp_port;
static uintptr_t secret_address;
static const char *host_address, *interface_name, *terminal, *disk, *other_program;
static volatile char secret[] = "secret of the victim";

#define OR(call) ((call) < 0 ? errno : 0)

static const char *at(const char *below) {
    static char path[8][1024];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof path[turn], "%s/%s", world, below);
    return path[turn];
}

static const char *named(const char *form, long number) {
    static char text[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[turn], form, number);
    return text[turn];
}

static int opens(const char *path, int flags) { return OR(open(path, flags | O_CLOEXEC, 0600)); }

static int reads(const char *path) {
    char byte;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return errno;
    ssize_t count = read(file, &byte, 1);
    return count < 0 ? errno : count == 0 ? ENODATA : 0;
}

static struct sockaddr_in address(const char *where, int port) {
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, where, &found.sin_addr);
    return found;
}

static int connects(const char *where, int protocol) {
    int s = socket(AF_INET, SOCK_STREAM, protocol);
    struct sockaddr_in to = address(where, tcp_port);
    return s < 0 ? errno : OR(connect(s, (void *)&to, sizeof to));
}

static socklen_t unix_address(struct sockaddr_un *to, const char *path, int abstract) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    strncpy(to->sun_path + abstract, path, sizeof to->sun_path - 1 - abstract);
    return offsetof(struct sockaddr_un, sun_path) + abstract + strlen(path) + !abstract;
}

static int connects_unix(const char *path, int abstract) {
    struct sockaddr_un to;
    socklen_t size = unix_address(&to, path, abstract);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    return s < 0 ? errno : OR(connect(s, (void *)&to, size));
}

/* --- the ways ------------------------------------------------------------------------------------------------- */

#define WAY(name) static int name(void)

WAY(read_ssh) { return reads(at("home/.ssh/id")); }
WAY(read_key) { return reads(at("home/.ai/keys/person")); }
WAY(read_by_link) { return reads(at("project/link")); }
WAY(read_shadow) { return reads("/etc/shadow"); }
WAY(read_tmp) { return reads(named("/tmp/ways-%ld", atol(unique))); }
WAY(read_shm) { return reads(named("/dev/shm/ways-%ld", atol(unique))); }
WAY(stat_outside) { struct stat s; return OR(stat(at("outside/file"), &s)); }
WAY(watch_outside) { return OR(inotify_add_watch(inotify_init(), at("outside"), IN_ALL_EVENTS)); }
WAY(environ_of_another) { return reads(named("/proc/%ld/environ", victim)); }
WAY(cmdline_of_another) { return reads(named("/proc/%ld/cmdline", victim)); }
WAY(write_outside) { return opens(at("outside/file"), O_WRONLY); }
WAY(create_outside) { return opens(at("outside/created"), O_WRONLY | O_CREAT); }
WAY(truncate_outside) { return OR(truncate(at("outside/file"), 1)); }
WAY(delete_outside) { return OR(unlink(at("outside/deleted"))); }
WAY(chmod_outside) { return OR(chmod(at("outside/file"), 0640)); }
WAY(xattr_outside) { return OR(setxattr(at("outside/file"), "user.way", "x", 1, 0)); }
WAY(utime_outside) { return OR(utimensat(AT_FDCWD, at("outside/file"), NULL, 0)); }
WAY(link_in) { return OR(link(at("outside/file"), at("project/hard"))); }
WAY(rename_out) { return OR(rename(at("project/moved"), at("outside/moved"))); }
WAY(write_hooks) { return opens(at("project/.git/hooks/pre-commit"), O_WRONLY | O_CREAT); }
WAY(write_git_config) { return opens(at("project/.git/config"), O_WRONLY); }
WAY(move_git) {
    int found = OR(rename(at("project/.git"), at("project/gone")));
    if (!found) rename(at("project/gone"), at("project/.git"));
    return found;
}
WAY(tcp_loopback) { return connects("127.0.0.1", 0); }
WAY(tcp_host) { return connects(host_address, 0); }
WAY(mptcp) { return connects("127.0.0.1", 262); }
WAY(fast_open) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = address("127.0.0.1", tcp_port);
    return s < 0 ? errno : OR(sendto(s, "x", 1, MSG_FASTOPEN, (void *)&to, sizeof to));
}
/* What has arrived comes back. */
static int is_heard(int s) {
    char byte;
    struct timeval limit = {.tv_sec = 5};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return recv(s, &byte, 1, 0) == 1 && byte == 'x' ? 0 : errno ? errno : ENODATA;
}
WAY(udp_host) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = address(host_address, udp_port);
    if (s < 0 || sendto(s, "x", 1, 0, (void *)&to, sizeof to) < 0) return errno;
    return is_heard(s);
}
WAY(listens) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    return s < 0 ? errno : OR(listen(s, 1));
}
WAY(unix_by_path) { return connects_unix(at("outside/stream"), 0); }
WAY(datagram_by_path) {
    struct sockaddr_un to;
    socklen_t size = unix_address(&to, at("outside/datagram"), 0);
    int s = socket(AF_UNIX, SOCK_DGRAM, 0);
    return s < 0 ? errno : OR(sendto(s, "x", 1, 0, (void *)&to, size));
}
WAY(datagram_of_a_pair) {
    struct sockaddr_un to;
    socklen_t size = unix_address(&to, at("outside/datagram"), 0);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return errno;
    return OR(sendto(pair[0], "x", 1, 0, (void *)&to, size));
}
WAY(abstract_socket) { return connects_unix(named("ways-%ld", atol(unique)), 1); }
WAY(route) {
    int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    return s < 0 ? errno : if_nametoindex(interface_name) ? 0 : errno;
}
WAY(uevent) { return OR(socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT)); }
WAY(sock_diag) { return OR(socket(AF_NETLINK, SOCK_RAW, 4)); }
WAY(vsock) { return OR(socket(AF_VSOCK, SOCK_STREAM, 0)); }
WAY(raw_socket) { return OR(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)); }
WAY(packet_socket) { return OR(socket(AF_PACKET, SOCK_RAW, 0)); }
WAY(af_alg) { return OR(socket(AF_ALG, SOCK_SEQPACKET, 0)); }
WAY(ptrace_another) { return OR(ptrace(PTRACE_SEIZE, victim, 0, 0)); }
WAY(ptrace_parent) { return OR(ptrace(PTRACE_SEIZE, keeper, 0, 0)); }
WAY(read_memory) {
    char found[8];
    struct iovec here = {found, sizeof found}, there = {(void *)secret_address, sizeof found};
    return OR(process_vm_readv(victim, &here, 1, &there, 1, 0));
}
WAY(proc_mem) { return opens(named("/proc/%ld/mem", victim), O_RDONLY); }
WAY(signal_another) { return OR(kill(victim, SIGCONT)); }
WAY(signal_by_pidfd) {
    int fd = syscall(SYS_pidfd_open, victim, 0);
    return fd < 0 ? errno : OR(syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0));
}
WAY(descriptor_of_another) {
    int fd = syscall(SYS_pidfd_open, victim, 0);
    return fd < 0 ? errno : OR(syscall(SYS_pidfd_getfd, fd, 0, 0));
}
WAY(unshare_user) { return OR(unshare(CLONE_NEWUSER)); }
WAY(clone_user) {
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return OR(pid);
}
WAY(clone3_user) {
    uint64_t arguments[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long pid = syscall(SYS_clone3, arguments, sizeof arguments);
    if (pid == 0) _exit(0);
    return OR(pid);
}
WAY(mounts) {
    int found = OR(mount("none", at("project"), "tmpfs", 0, "size=4k"));
    if (!found) umount2(at("project"), MNT_DETACH);
    return found;
}
WAY(opens_tree) { return OR(syscall(SYS_open_tree, AT_FDCWD, "/", 1)); }
WAY(opens_fs) { return OR(syscall(SYS_fsopen, "tmpfs", 0)); }
WAY(changes_root) { return OR(chroot(at("project"))); }
WAY(setns_of_1) {
    int fd = open("/proc/1/ns/mnt", O_RDONLY);
    return fd < 0 ? errno : OR(setns(fd, 0));
}
WAY(root_of_1) { return opens("/proc/1/root/", O_RDONLY | O_DIRECTORY); }
WAY(root_of_another) { return reads(named("/proc/%ld/root/etc/passwd", victim)); }
WAY(descriptors_of_keeper) {
    char found[64];
    return OR(readlink(named("/proc/%ld/fd/0", keeper), found, sizeof found));
}
WAY(memfd_exec) {
    char *arguments[] = {"true", NULL}, *none[] = {NULL};
    int in = open("/bin/true", O_RDONLY), out = memfd_create("way", MFD_CLOEXEC);
    char bytes[1 << 16];
    for (ssize_t n; (n = read(in, bytes, sizeof bytes)) > 0;)
        if (write(out, bytes, n) != n) return EIO;
    syscall(SYS_execveat, out, "", arguments, none, AT_EMPTY_PATH);
    return errno;
}
WAY(io_uring) { char parameters[120] = {0}; return OR(syscall(SYS_io_uring_setup, 1, parameters)); }
WAY(io_slots) { unsigned long context = 0; return OR(syscall(SYS_io_setup, 1, &context)); }
WAY(shm_of_others) { return OR(shmget(atoi(unique), 0, 0)); }
WAY(mq_of_others) { return OR(mq_open(named("/ways-%ld", atol(unique)), O_RDONLY)); }
WAY(adds_key) { return OR(syscall(SYS_add_key, "user", "way", "x", 1, -3)); }
WAY(keyctl_list) { return OR(syscall(SYS_keyctl, 0, -3, 1)); }
WAY(bpf) {
    uint32_t attributes[32] = {2, 4, 4, 1};
    return OR(syscall(SYS_bpf, 0, attributes, sizeof attributes));
}
WAY(perf) {
    uint32_t attributes[32] = {1, 112};
    attributes[10] = 0x60; /* neither the kernel nor a hypervisor */
    int found = OR(syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0));
    return found == ENOENT || found == EOPNOTSUPP ? 0 : found;
}
WAY(userfault) { return OR(syscall(SYS_userfaultfd, O_CLOEXEC | 1)); }
WAY(by_handle) {
    struct { struct file_handle head; char rest[128]; } handle = {.head.handle_bytes = 128};
    int id, place = open(at("project"), O_RDONLY | O_DIRECTORY);
    if (name_to_handle_at(AT_FDCWD, at("project"), &handle.head, &id, 0)) return errno;
    return OR(open_by_handle_at(place, &handle.head, O_RDONLY));
}
WAY(fanotify) { return OR(syscall(SYS_fanotify_init, 0x200, 0)); }
/* Standard input is no terminal: then the kernel, and no filter, has answered. */
WAY(types) { int found = OR(ioctl(0, TIOCSTI, "x")); return found == ENOTTY ? 0 : found; }
WAY(types_with_high_bits) {
    int found = OR(syscall(SYS_ioctl, 0L, 0x100000000L | TIOCSTI, "x"));
    return found == ENOTTY ? 0 : found;
}
WAY(terminal_of_another) { return opens(terminal, O_RDWR | O_NOCTTY); }
WAY(core_pattern) { return opens("/proc/sys/kernel/core_pattern", O_WRONLY); }
WAY(host_name) { return opens("/proc/sys/kernel/hostname", O_WRONLY); }
WAY(sysrq) { return opens("/proc/sysrq-trigger", O_WRONLY); }
WAY(kernel_memory) { return opens("/proc/kcore", O_RDONLY); }
WAY(sysfs) { return opens("/sys/kernel", O_RDONLY | O_DIRECTORY); }
WAY(read_disk) { return reads(disk); }
WAY(makes_device) { return OR(mknod(at("project/device"), S_IFCHR | 0600, makedev(1, 3))); }
#ifdef __x86_64__
WAY(int80) {
    long found;
    __asm__ volatile("int $0x80" : "=a"(found) : "a"(359), "b"(AF_UNIX), "c"(SOCK_STREAM), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    return found < 0 ? (int)-found : 0;
}
WAY(x32) { return OR(syscall(0x40000000 + 41, AF_UNIX, SOCK_STREAM, 0)); }
#endif
WAY(gains) {
    pid_t pid = fork();
    if (pid == 0) {
        execl(other_program, "ways", "euid", NULL);
        _exit(3);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EPERM;
}
WAY(leaves_set_uid) { return OR(chmod(at("project/program"), 04755)); }
WAY(creates_set_uid) {
    int file = openat(AT_FDCWD, at("project/set-uid"), O_CREAT | O_WRONLY, 04755);
    return OR(file);
}
WAY(reads_env) { return reads(at("project/.env")); }
WAY(replaces_env) { return OR(rename(at("project/moved-over"), at("project/.env"))); }
WAY(links_protected) { return OR(link(at("project/.git/config"), at("project/config"))); }
WAY(moves_over_protected) { return OR(rename(at("project/moved-too"), at("project/.git/config"))); }
WAY(removes_protected) { return OR(unlink(at("project/.git/config"))); }
WAY(limits_another) {
    struct rlimit limit;
    return OR(prlimit(victim, RLIMIT_CPU, NULL, &limit));
}
WAY(renices_another) { return OR(setpriority(PRIO_PROCESS, victim, 19)); }
WAY(inherited) {
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0) return 0;
    return EBADF;
}
WAY(processes) {
    int found = 0, end[2];
    if (pipe(end)) return errno;
    for (int count = 0; count < 700 && !found; count++) {
        pid_t pid = fork();
        if (pid == 0) {
            char byte;
            close(end[1]);
            _exit(read(end[0], &byte, 1) != 0);
        }
        if (pid < 0) found = errno;
    }
    close(end[1]);
    while (wait(NULL) > 0) {}
    return found;
}

#include "further.c"
#include "sockets.c"

static const struct { const char *name; int (*try)(void); const char *const *needs; } ways[] = {
    {"read ~/.ssh/id", read_ssh, NULL}, {"read ~/.ai/keys/person", read_key, NULL},
    {"read it by a link in the project", read_by_link, NULL}, {"read /etc/shadow (root)", read_shadow, NULL},
    {"read another's /tmp file", read_tmp, NULL}, {"read /dev/shm of others", read_shm, NULL},
    {"stat outside", stat_outside, NULL}, {"watch outside (inotify)", watch_outside, NULL},
    {"environ of another process", environ_of_another, NULL}, {"cmdline of another process", cmdline_of_another, NULL},
    {"write outside", write_outside, NULL}, {"create outside", create_outside, NULL},
    {"truncate outside", truncate_outside, NULL}, {"delete outside", delete_outside, NULL},
    {"chmod outside", chmod_outside, NULL}, {"setxattr outside", xattr_outside, NULL},
    {"utime outside", utime_outside, NULL}, {"hard link in", link_in, NULL}, {"rename out", rename_out, NULL},
    {"write .git/hooks", write_hooks, NULL}, {"write .git/config", write_git_config, NULL},
    {"move .git away", move_git, NULL}, {"TCP to 127.0.0.1", tcp_loopback, NULL},
    {"TCP to the host", tcp_host, &host_address}, {"MPTCP", mptcp, NULL}, {"TCP fast open", fast_open, NULL},
    {"UDP to the host", udp_host, &host_address}, {"listen on a port", listens, NULL},
    {"Unix socket by path", unix_by_path, NULL}, {"Unix datagram by path", datagram_by_path, NULL},
    {"Unix datagram of a pair", datagram_of_a_pair, NULL}, {"abstract socket", abstract_socket, NULL},
    {"netlink route (host's)", route, &interface_name}, {"netlink uevent", uevent, NULL},
    {"netlink sock_diag", sock_diag, NULL}, {"vsock", vsock, NULL}, {"raw socket", raw_socket, NULL},
    {"packet socket", packet_socket, NULL}, {"AF_ALG", af_alg, NULL}, {"ptrace another", ptrace_another, NULL},
    {"ptrace the parent", ptrace_parent, NULL}, {"process_vm_readv", read_memory, NULL},
    {"/proc/PID/mem", proc_mem, NULL}, {"signal another", signal_another, NULL},
    {"signal by pidfd", signal_by_pidfd, NULL}, {"descriptor of another", descriptor_of_another, NULL},
    {"unshare user ns", unshare_user, NULL}, {"clone user ns", clone_user, NULL}, {"clone3 user ns", clone3_user, NULL},
    {"mount", mounts, NULL}, {"open_tree", opens_tree, NULL}, {"fsopen", opens_fs, NULL}, {"chroot", changes_root, NULL},
    {"setns of 1", setns_of_1, NULL}, {"/proc/1/root", root_of_1, NULL}, {"root of another", root_of_another, NULL},
    {"descriptors of the keeper", descriptors_of_keeper, NULL}, {"memfd exec", memfd_exec, NULL},
    {"io_uring", io_uring, NULL}, {"slots for disk requests", io_slots, NULL},
    {"SysV shm of others", shm_of_others, NULL}, {"POSIX mq of others", mq_of_others, NULL},
    {"add_key", adds_key, NULL}, {"keyctl", keyctl_list, NULL}, {"bpf", bpf, NULL}, {"perf_event_open", perf, NULL},
    {"userfaultfd", userfault, NULL}, {"open_by_handle_at", by_handle, NULL}, {"fanotify", fanotify, NULL},
    {"TIOCSTI on inherited tty", types, NULL}, {"TIOCSTI, high bits set", types_with_high_bits, NULL},
    {"another's /dev/pts", terminal_of_another, &terminal}, {"core_pattern (root)", core_pattern, NULL},
    {"hostname (root)", host_name, NULL}, {"sysrq (root)", sysrq, NULL}, {"kcore (root)", kernel_memory, NULL},
    {"sysfs", sysfs, NULL}, {"read the disk (root)", read_disk, &disk}, {"mknod (root)", makes_device, NULL},
#ifdef __x86_64__
    {"int 0x80 socket", int80, NULL}, {"x32 socket", x32, NULL},
#endif
    {"gain by set-uid", gains, &other_program}, {"leave a set-uid program", leaves_set_uid, NULL},
    {"create a set-uid program", creates_set_uid, NULL}, {"read .env", reads_env, NULL},
    {"replace .env", replaces_env, NULL}, {"link a protected file", links_protected, NULL},
    {"move over a protected file", moves_over_protected, NULL}, {"remove a protected file", removes_protected, NULL},
    {"limits of another", limits_another, NULL}, {"priority of another", renices_another, NULL},
    {"inherited descriptors", inherited, NULL}, FURTHER, SOCKETS, {"700 processes", processes, NULL},
};

static void tries(void) {
    const char *between = "{";
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].needs && !*ways[i].needs) continue;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            fclose(stdout);
            alarm(60);
            _exit(ways[i].try());
        }
        int status;
        waitpid(pid, &status, 0);
        const char *found = !WIFEXITED(status) ? "SIGNAL" : WEXITSTATUS(status) ? strerrorname_np(WEXITSTATUS(status)) : "OPEN";
        printf("%s\"%s\": \"%s\"", between, ways[i].name, found ? found : "UNKNOWN");
        between = ",\n";
    }
    puts("}");
}

static void suffer(void) {
    struct sockaddr_in any = {.sin_family = AF_INET}, got;
    struct sockaddr_un to;
    socklen_t size = sizeof got;
    int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
    bind(tcp, (void *)&any, sizeof any), listen(tcp, 100), getsockname(tcp, (void *)&got, &size);
    printf("tcp=%d ", ntohs(got.sin_port));
    size = sizeof got;
    bind(udp, (void *)&any, sizeof any), getsockname(udp, (void *)&got, &size);
    printf("udp=%d ", ntohs(got.sin_port));
    fflush(stdout);
    if (fork() == 0) echoes(udp);
    int stream = socket(AF_UNIX, SOCK_STREAM, 0), datagram = socket(AF_UNIX, SOCK_DGRAM, 0), abstract = socket(AF_UNIX, SOCK_STREAM, 0);
    size = unix_address(&to, at("outside/stream"), 0), bind(stream, (void *)&to, size), listen(stream, 100);
    int readable = socket(AF_UNIX, SOCK_STREAM, 0);
    size = unix_address(&to, at("readable/stream"), 0), bind(readable, (void *)&to, size), listen(readable, 100);
    if (mkfifo(at("readable/fifo"), 0600) == 0) open(at("readable/fifo"), O_RDWR);
    size = unix_address(&to, at("outside/datagram"), 0), bind(datagram, (void *)&to, size);
    size = unix_address(&to, named("ways-%ld", atol(unique)), 1), bind(abstract, (void *)&to, size), listen(abstract, 100);
    int memory = shmget(atoi(unique), 4096, IPC_CREAT | 0600);
    mqd_t queue = mq_open(named("/ways-%ld", atol(unique)), O_CREAT | O_RDWR, 0600, NULL);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (grantpt(master) == 0 && unlockpt(master) == 0) printf("terminal=%s ", ptsname(master));
    printf("pid=%d secret=%lu\n", getpid(), (unsigned long)secret);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    shmctl(memory, IPC_RMID, NULL);
    if (queue >= 0) mq_unlink(named("/ways-%ld", atol(unique)));
}

static int without(unsigned number, char **command) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
    execv(command[0], command);
    return 2;
}

/* Runs a command for which Landlock is of an older version: who asks which one it is gets this answer. */
static int older(unsigned version, char **command) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    int told[2], listener, status;
    if (pipe(told) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
    /* Descriptors are shared until the command is executed. */
    pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        if (listener < 0 || write(told[1], &listener, sizeof listener) < 0) _exit(2);
        execv(command[0], command);
        _exit(2);
    }
    if (child < 0 || read(told[0], &listener, sizeof listener) != sizeof listener) return 2;
    for (;;) {
        struct pollfd watched = {listener, POLLIN, 0};
        struct seccomp_notif call = {0};
        struct seccomp_notif_resp answer = {0};
        if (poll(&watched, 1, -1) < 0 || !(watched.revents & POLLIN)) break;
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) continue;
        answer.id = call.id;
        if (call.data.args[2] & 1) answer.val = version;
        else answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

int main(int count, char **arguments) {
    if (count > 3 && !strcmp(arguments[1], "older")) return older(atoi(arguments[2]), arguments + 3);
    if (count > 3 && !strcmp(arguments[1], "without")) return without(atoi(arguments[2]), arguments + 3);
    if (count == 2 && !strcmp(arguments[1], "euid")) return geteuid() == getuid();
    if (count < 4) return 2;
    snprintf(world, sizeof world, "%s", arguments[2]);
    snprintf(unique, sizeof unique, "%s", arguments[3]);
    keeper = getppid();
    for (int i = 4; i < count; i++) {
        char *value = strchr(arguments[i], '=');
        if (!value) return 2;
        *value++ = 0;
        if (!strcmp(arguments[i], "pid")) victim = atoi(value);
        else if (!strcmp(arguments[i], "keeper")) keeper = atoi(value);
        else if (!strcmp(arguments[i], "tcp")) tcp_port = atoi(value);
        else if (!strcmp(arguments[i], "udp")) udp_port = atoi(value);
        else if (!strcmp(arguments[i], "secret")) secret_address = strtoul(value, NULL, 10);
        else if (!strcmp(arguments[i], "host")) host_address = value;
        else if (!strcmp(arguments[i], "interface")) interface_name = value;
        else if (!strcmp(arguments[i], "terminal")) terminal = value;
        else if (!strcmp(arguments[i], "disk")) disk = value;
        else if (!strcmp(arguments[i], "other")) other_program = value;
        else return 2;
    }
    if (!strcmp(arguments[1], "victim")) suffer();
    else tries();
    return 0;
}
