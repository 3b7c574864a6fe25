/* Ways past whoever looks at what a socket is connected to. Included by ways.c. */
#include <linux/tcp.h>
#include <pthread.h>

/* Of the victim's: sends every packet back. It ends with the process that has started it. */
static void echoes(int udp) {
    struct sockaddr_in from;
    char bytes[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        socklen_t size = sizeof from;
        ssize_t count = recvfrom(udp, bytes, sizeof bytes, 0, (void *)&from, &size);
        if (count > 0) sendto(udp, bytes, count, 0, (void *)&from, size);
    }
}

WAY(tcp_unreadable) {
    prctl(PR_SET_DUMPABLE, 0);
    return connects("127.0.0.1", 0);
}

static struct sockaddr_in changing;
static volatile int done;

static void *changes(void *nothing) {
    struct sockaddr_in one = address("198.18.0.1", 443), other = address("127.0.0.1", tcp_port);
    while (!done) changing = one, changing = other;
    return nothing;
}

/* Somebody looks at the one address, and the kernel at the other. */
WAY(tcp_changing) {
    pthread_t thread;
    int found = 0;
    if (pthread_create(&thread, NULL, changes, NULL)) return EAGAIN;
    for (int count = 0; count < 2000; count++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (s < 0) return errno;
        found = OR(connect(s, (void *)&changing, sizeof changing));
        struct pollfd one = {s, POLLOUT, 0};
        if (found == EINPROGRESS) poll(&one, 1, 1000);
        if (getpeername(s, (void *)&peer, &size) == 0 && ntohs(peer.sin_port) == tcp_port) return 0;
        close(s);
    }
    done = 1;
    return found ? found : ECONNREFUSED;
}

WAY(fast_open_connects) {
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in to = address("127.0.0.1", tcp_port);
    if (s < 0) return errno;
    setsockopt(s, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one);
    return connect(s, (void *)&to, sizeof to) ? errno : OR(write(s, "x", 1));
}

/* Packets go to the first host of a route, whatever address is connected to. */
WAY(source_route) {
    unsigned char route[] = {131, 11, 4, 127, 0, 0, 1, 127, 0, 0, 1, 0};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    return s < 0 ? errno : OR(setsockopt(s, IPPROTO_IP, IP_OPTIONS, route, sizeof route));
}

static int sends(int many) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = address(host_address, udp_port);
    struct iovec part = {"x", 1};
    struct mmsghdr message = {.msg_hdr = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1}};
    if (s < 0) return errno;
    int sent = many ? sendmmsg(s, &message, 1, 0) : sendmsg(s, &message.msg_hdr, 0);
    return sent < 0 ? errno : is_heard(s);
}
WAY(udp_by_message) { return sends(0); }
WAY(udp_by_messages) { return sends(1); }

#define SOCKETS                                                                                                       \
    {"TCP by who cannot be read", tcp_unreadable, NULL}, {"TCP to an address that changes", tcp_changing, NULL},      \
    {"fast open by connect", fast_open_connects, NULL}, {"source route", source_route, NULL},                         \
    {"UDP by sendmsg", udp_by_message, &host_address}, {"UDP by sendmmsg", udp_by_messages, &host_address}
