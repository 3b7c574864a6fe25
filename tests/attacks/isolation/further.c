/* Ways out that were found by attacking cells and walls with their source at hand. Included by ways.c. */

/* Only the file system and the filter are asked: in most places there is no btrfs, and the kernel says so. */
static int kernel_answers(int found, int otherwise) { return found == otherwise ? 0 : found; }

static int moves_away(const char *name) {
    int found = OR(rename(at(name), at("project/elsewhere")));
    if (!found) rename(at("project/elsewhere"), at(name));
    return found;
}

static int reopens(const char *path, int flags) {
    int file = open(path, flags);
    return file < 0 ? errno : opens(named("/proc/self/fd/%ld", file), O_RDWR);
}

WAY(moves_parent_of_protected) { return moves_away("project/deep"); }
WAY(moves_parent_of_masked) { return moves_away("project/shut"); }
WAY(mode_of_null) { struct stat s; return stat("/dev/null", &s) ? errno : OR(chmod("/dev/null", s.st_mode & 0777)); }
WAY(times_of_null) { return OR(utimensat(AT_FDCWD, "/dev/null", NULL, 0)); }
WAY(mode_of_input) { struct stat s; return fstat(0, &s) ? errno : OR(fchmod(0, s.st_mode & 0777)); }
WAY(schedules_another) { struct sched_param none = {0}; return OR(sched_setscheduler(victim, SCHED_OTHER, &none)); }
WAY(reschedules_another) { uint32_t attributes[12] = {sizeof attributes}; return OR(syscall(SYS_sched_setattr, victim, attributes, 0)); }
WAY(moves_another) {
    cpu_set_t all;
    return sched_getaffinity(0, sizeof all, &all) ? errno : OR(sched_setaffinity(victim, sizeof all, &all));
}
WAY(slows_disk_of_another) { return OR(syscall(SYS_ioprio_set, 1, victim, 2 << 13 | 4)); }
WAY(compares_with_another) { return OR(syscall(SYS_kcmp, getpid(), victim, 2, 0, 0)); }
WAY(descriptors_of_another) { return opens(named("/proc/%ld/fd", victim), O_RDONLY | O_DIRECTORY); }
WAY(directory_of_another) { return opens(named("/proc/%ld/cwd", victim), O_PATH); }
WAY(program_of_another) { return reads(named("/proc/%ld/exe", victim)); }
WAY(maps_of_another) { return reads(named("/proc/%ld/maps", victim)); }
WAY(sacrifices_another) { return opens(named("/proc/%ld/oom_score_adj", victim), O_WRONLY); }
WAY(memory_of_1) { return opens("/proc/1/mem", O_RDWR); }
WAY(signal_1) { return OR(kill(1, 0)); }
WAY(lease) {
    int file = open(at("readable/file"), O_RDONLY);
    return file < 0 ? errno : OR(fcntl(file, F_SETLEASE, F_RDLCK));
}
WAY(writes_read) { return opens(at("readable/file"), O_WRONLY); }
WAY(creates_in_read) { return opens(at("readable/created"), O_WRONLY | O_CREAT); }
WAY(mode_of_read) { return OR(chmod(at("readable/file"), 0640)); }
WAY(xattr_of_read) { return OR(setxattr(at("readable/file"), "user.way", "x", 1, 0)); }
WAY(links_read) { return OR(link(at("readable/file"), at("project/hard-too"))); }
WAY(moves_into_read) { return OR(rename(at("project/moved-on"), at("readable/moved"))); }
WAY(reopens_read) { return reopens(at("readable/file"), O_RDONLY); }
WAY(reopens_path) { return reopens(at("readable/file"), O_PATH); }
WAY(fifo_of_read) { return opens(at("readable/fifo"), O_WRONLY | O_NONBLOCK); }
WAY(socket_of_read) { return connects_unix(at("readable/stream"), 0); }
WAY(climbs) {
    char path[1100];
    snprintf(path, sizeof path, "/proc/self/root/../../../../../../../..%s", at("outside/file"));
    return reads(path);
}
WAY(empty_files) {
    char path[128];
    int found = 0, count;
    const char *directory = named("/tmp/ways-many-%ld", atol(unique));
    if (mkdir(directory, 0700)) return errno;
    for (count = 0; count < 10000 && !found; count++) {
        snprintf(path, sizeof path, "%s/%d", directory, count);
        found = opens(path, O_WRONLY | O_CREAT);
        if (count % 500 == 499) closefrom(3);
    }
    closefrom(3);
    while (count-- > 0) snprintf(path, sizeof path, "%s/%d", directory, count), unlink(path);
    rmdir(directory);
    return found;
}
WAY(set_uid_by_openat2) {
    uint64_t how[3] = {O_CREAT | O_WRONLY, 04755, 0};
    return OR(syscall(SYS_openat2, AT_FDCWD, at("project/set-uid-too"), how, sizeof how));
}
WAY(leaves_set_gid) { return OR(chmod(at("project/program"), 02755)); }
static int snapshots(unsigned long command) {
    static char arguments[4096];
    int place = open(at("project"), O_RDONLY | O_DIRECTORY);
    *(int64_t *)arguments = place;
    strcpy(arguments + 8, "snapshot");
    return place < 0 ? errno : kernel_answers(OR(syscall(SYS_ioctl, place, command, arguments)), ENOTTY);
}
static int asks_reader(const char *name, unsigned long command) {
    uint32_t arguments[1024] = {1, 1, 4096};
    strcpy((char *)arguments + 8, "made");
    int file = open(at(name), O_RDONLY);
    int found = file < 0 ? errno : OR(ioctl(file, command, arguments));
    return found == EOPNOTSUPP ? 0 : kernel_answers(found, ENOTTY);
}
WAY(new_volume) { return asks_reader("readable", 0x5000940e); }
WAY(new_volume_2) { return asks_reader("readable", 0x50009418); }
WAY(removes_volume) { return asks_reader("readable", 0x5000940f); }
WAY(removes_volume_2) { return asks_reader("readable", 0x5000943f); }
WAY(verity) { return asks_reader("readable/file", 0x40806685); }
WAY(encryption) { return asks_reader("readable", 0x800c6613); }
WAY(changes_volume) { return asks_reader("readable", 0x4008941a); }
WAY(new_volume_of_another) { return asks_reader("readable", 0x4020bc10); }
WAY(removes_volume_of_another) { return asks_reader("readable", 0x4020bc11); }
WAY(adds_key_of_files) { return asks_reader("readable", 0xc0506617); }
WAY(removes_key_of_files) { return asks_reader("readable", 0xc0406618); }

/* A program that cores are piped to is not started for a limit of 1, but for 0. */
static int core_limit_is(rlim_t wanted) {
    struct rlimit now;
    return getrlimit(RLIMIT_CORE, &now) ? errno : now.rlim_cur == wanted ? 0 : EPERM;
}
WAY(core_limit) {
    struct rlimit none = {0, 1};
    return setrlimit(RLIMIT_CORE, &none) ? errno : core_limit_is(0);
}
WAY(core_limit_by_old_call) {
    struct rlimit none = {0, 1};
    return syscall(SYS_setrlimit, RLIMIT_CORE, &none) ? errno : core_limit_is(0);
}
WAY(core_limit_far_away) {
    struct rlimit *none = mmap((void *)0x100000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (none == MAP_FAILED) return errno;
    *none = (struct rlimit){0, 1};
    return syscall(SYS_prlimit64, 0, RLIMIT_CORE, none, NULL) ? errno : core_limit_is(0);
}
WAY(snapshot) { return snapshots(0x50009401); }
WAY(snapshot_2) { return snapshots(0x50009417); }
WAY(snapshot_with_high_bits) { return snapshots(0x100000000 | 0x50009401); }
WAY(types_on_console) { return kernel_answers(OR(ioctl(0, 0x541c, "\2")), ENOTTY); }
WAY(other_families) {
    for (int family = 3; family < AF_MAX; family++) {
        if (family == AF_INET6 || family == AF_NETLINK) continue;
        for (int kind = SOCK_STREAM; kind <= SOCK_SEQPACKET; kind++) {
            int s = socket(family, kind, 0);
            if (s >= 0 || errno != EACCES) return 0;
        }
    }
    return EACCES;
}
WAY(other_protocols) {
    const int protocols[] = {33 /* DCCP */, 132 /* SCTP */, 136 /* UDP-Lite */, 255 /* raw */};
    for (int i = 0; i < 4; i++)
        for (int kind = SOCK_STREAM; kind <= SOCK_DCCP; kind++)
            if (socket(AF_INET, kind, protocols[i]) >= 0 || errno != EACCES) return 0;
    return EACCES;
}
WAY(other_netlinks) {
    for (int protocol = 1; protocol < 32; protocol++)
        if (socket(AF_NETLINK, SOCK_RAW, protocol) >= 0 || errno != EACCES) return 0;
    return EACCES;
}
WAY(upper_protocol) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    return s < 0 ? errno : kernel_answers(OR(setsockopt(s, IPPROTO_TCP, 31, "smc", 4)), ENOENT);
}
WAY(unshares_mounts) { return OR(unshare(CLONE_NEWNS)); }
WAY(clones_network) {
    long pid = syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return OR(pid);
}
WAY(unmounts) { return kernel_answers(OR(umount2(at("outside"), MNT_DETACH)), EINVAL); }
WAY(changes_mount) {
    uint64_t attributes[4] = {0};
    return kernel_answers(OR(syscall(SYS_mount_setattr, AT_FDCWD, at("project"), 0, attributes, sizeof attributes)), EINVAL);
}
WAY(picks_fs) { return OR(syscall(SYS_fspick, AT_FDCWD, "/proc", 0)); }
WAY(requests_key) { return kernel_answers(OR(syscall(SYS_request_key, "user", "way", NULL, 0)), ENOKEY); }
WAY(kernel_log) { return OR(syscall(SYS_syslog, 10, NULL, 0)); }
WAY(kernel_messages) { return opens("/dev/kmsg", O_RDONLY | O_NONBLOCK); }
WAY(network_settings) { return opens("/proc/sys/net/ipv4/ip_forward", O_WRONLY); }
WAY(control_groups) { return opens("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY); }

#define FURTHER                                                                                                       \
    {"move the parent of a protected file", moves_parent_of_protected, NULL},                                         \
    {"move the parent of a masked file", moves_parent_of_masked, NULL}, {"mode of /dev/null", mode_of_null, NULL},    \
    {"times of /dev/null", times_of_null, NULL}, {"mode of standard input", mode_of_input, NULL},                     \
    {"scheduler of another", schedules_another, NULL}, {"deadline of another", reschedules_another, NULL},            \
    {"processors of another", moves_another, NULL}, {"I/O priority of another", slows_disk_of_another, NULL},         \
    {"kcmp with another", compares_with_another, NULL}, {"/proc/PID/fd of another", descriptors_of_another, NULL},    \
    {"/proc/PID/cwd of another", directory_of_another, NULL}, {"/proc/PID/exe of another", program_of_another, NULL}, \
    {"/proc/PID/maps of another", maps_of_another, NULL}, {"oom_score_adj of another", sacrifices_another, NULL},     \
    {"/proc/1/mem", memory_of_1, NULL}, {"signal 1", signal_1, NULL},                   \
    {"lease on what is read", lease, NULL}, {"write what is read", writes_read, NULL},                                \
    {"create in what is read", creates_in_read, NULL}, {"chmod what is read", mode_of_read, NULL},                    \
    {"setxattr what is read", xattr_of_read, NULL}, {"link what is read", links_read, NULL},                          \
    {"move into what is read", moves_into_read, NULL}, {"reopen what is read", reopens_read, NULL},                   \
    {"reopen a path of what is read", reopens_path, NULL}, {"FIFO in what is read", fifo_of_read, NULL},              \
    {"Unix socket in what is read", socket_of_read, NULL}, {"climb by /proc/self/root", climbs, NULL},                \
    {"10000 empty files", empty_files, NULL}, {"set-uid by openat2", set_uid_by_openat2, NULL},                       \
    {"leave a set-gid program (root)", leaves_set_gid, NULL}, {"btrfs snapshot", snapshot, NULL},                     \
    {"btrfs snapshot, second form", snapshot_2, NULL}, {"btrfs snapshot, high bits set", snapshot_with_high_bits, NULL}, \
    {"TIOCLINUX", types_on_console, NULL}, {"other families of sockets", other_families, NULL},                       \
    {"other protocols of sockets", other_protocols, NULL}, {"other netlinks", other_netlinks, NULL},                  \
    {"another protocol above TCP", upper_protocol, NULL}, {"unshare mounts", unshares_mounts, NULL},                  \
    {"clone network", clones_network, NULL}, {"unmount", unmounts, NULL}, {"mount_setattr", changes_mount, NULL},     \
    {"fspick", picks_fs, NULL}, {"request_key", requests_key, NULL}, {"kernel log", kernel_log, NULL},                \
    {"/dev/kmsg (root)", kernel_messages, NULL}, {"settings of the network (root)", network_settings, NULL},          \
    {"btrfs volume", new_volume, NULL}, {"btrfs volume, second form", new_volume_2, NULL},                            \
    {"remove a btrfs volume", removes_volume, NULL}, {"remove a btrfs volume, second form", removes_volume_2, NULL},  \
    {"verity of what is read", verity, NULL}, {"encryption of what is read", encryption, NULL},                       \
    {"settings of a btrfs volume", changes_volume, NULL}, {"bcachefs volume", new_volume_of_another, NULL},           \
    {"remove a bcachefs volume", removes_volume_of_another, NULL},                                                    \
    {"add an encryption key", adds_key_of_files, NULL},                                                             \
    {"remove an encryption key", removes_key_of_files, NULL},                                                         \
    {"limit of cores", core_limit, NULL}, {"limit of cores by the old call", core_limit_by_old_call, NULL},           \
    {"limit of cores from far away", core_limit_far_away, NULL},                                                      \
    {"control groups", control_groups, NULL}
