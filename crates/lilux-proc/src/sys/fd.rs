//! Descriptors: pipes, the socket between supervisor and keeper, and the places that a tool's descriptors have.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};

use super::checked;

/// Descriptors from here on are free of the fixed places 0 to 3.
const FIRST_FREE: RawFd = 4;
/// The places beyond the streams of a tool, for descriptors that the client passes on.
pub const FURTHER_PLACES: RangeInclusive<RawFd> = FIRST_FREE - 1..=19;
/// Where a parked process reads its call.
pub const CALL_PLACE: RawFd = *FURTHER_PLACES.end() + 1;
/// A run's standard input, output and error, its further descriptors, its door, and the request itself.
const MAX_PASSED: usize = 24;

/// A pipe whose read end does not block: `(read, write)`.
pub fn output_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // A new pipe has no other flags that would have to be kept.
    rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// A pipe whose write end does not block: `(read, write)`.
pub fn input_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&write, OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// Reads and writes that would wait fail with EAGAIN instead.
pub fn set_nonblocking(descriptor: impl AsFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(&descriptor)?;
    rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)
}

/// Two connected ends that keep messages apart.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// A file in memory that holds `content`, for what does not fit a message.
pub fn memory_file(content: &[u8]) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create("lilux-run", MemfdFlags::CLOEXEC)?;
    let mut rest = content;
    while !rest.is_empty() {
        let count = rustix::io::write(&file, rest)?;
        rest = &rest[count..];
    }
    Ok(file)
}

/// Reads what `memory_file` wrote.
pub fn read_memory_file(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let size = rustix::fs::fstat(file)?.st_size as usize;
    let mut content = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match rustix::io::pread(file, &mut content[filled..], filled as u64)? {
            0 => return Err(Errno::IO),
            count => filled += count,
        }
    }
    Ok(content)
}

/// Sends one message, with descriptors. A peer that is gone is EPIPE, never a signal; one that does not read is EAGAIN.
pub fn send(socket: &OwnedFd, parts: &[IoSlice<'_>], passed: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    send_as(socket, parts, passed, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// The same with other flags: without DONTWAIT, for as long as the peer does not read.
pub fn send_as(
    socket: &OwnedFd,
    parts: &[IoSlice<'_>],
    passed: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !passed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(passed)) {
        return Err(Errno::TOOMANYREFS);
    }
    sendmsg(socket, parts, &mut control, flags)?;
    Ok(())
}

/// Receives one message into `buffer`: its length and the descriptors that came with it. Zero is end of file.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg(socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors))
}

/// Reads from a stream, with the descriptors that came along if it is a socket.
pub fn read_stream(stream: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    match receive(stream, buffer, RecvFlags::empty()) {
        Err(Errno::NOTSOCK) => Ok((rustix::io::read(stream, buffer)?, Vec::new())),
        received => received,
    }
}

/// `/dev/null`, for reading and writing.
pub fn open_null() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// The same file under a number outside the fixed places.
pub fn above_fixed_places(descriptor: impl AsFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, FIRST_FREE)
}

/// Puts `/dev/null` at 0 and 1 and `own` at 3, and closes everything else but standard error.
///
/// This is how a forked process lets go of its parent's descriptors: as long as it held one of them, nobody on the other
/// end would see an end of file.
pub fn keep_only(own: OwnedFd) -> Result<OwnedFd, Errno> {
    let kept = place(&own, 3)?;
    std::mem::forget(own);
    // SAFETY: every descriptor from 4 on belongs to state of the parent that this process never touches again.
    unsafe { close_from(4) }?;
    // Not before: a parent that has used up its descriptors leaves none to open.
    let null = open_null()?;
    std::mem::forget((place(&null, 0)?, place(&null, 1)?));
    rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::CLOEXEC)?;
    Ok(kept)
}

/// Puts something at each further place: what this process opens later never stands where a tool's descriptor belongs.
pub fn reserve_further_places() -> Result<(), Errno> {
    let mut next = open_null()?;
    while next.as_raw_fd() <= CALL_PLACE {
        let further = above_fixed_places(&next)?;
        std::mem::forget(std::mem::replace(&mut next, further));
    }
    Ok(())
}

/// Closes every descriptor from `first` on: `close_range`, for which musl has no function.
///
/// # Safety
///
/// Nothing in this process uses one of them any more.
pub unsafe fn close_from(first: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { close_range(first, libc::c_uint::MAX) }
}

/// As `close_from`, up to `last` and with it.
///
/// # Safety
///
/// Nothing in this process uses one of them any more.
pub unsafe fn close_range(first: libc::c_uint, last: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: the caller's promise; the call takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    checked(answer as libc::c_int).map(drop)
}

/// Makes sure that 0, 1 and 2 are open: whoever started us may have closed them, and a pipe must not land there.
pub fn fill_standard_places() -> Result<(), Errno> {
    loop {
        let next = open_null()?;
        if next.as_raw_fd() > 2 {
            return Ok(());
        }
        // It stays, without close-on-exec, as the standard descriptor that was missing.
        rustix::io::fcntl_setfd(&next, rustix::io::FdFlags::empty())?;
        std::mem::forget(next);
    }
}

/// A descriptor of one's own for what this process was started with at a number; EBADF where nothing is.
pub fn handed(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is only asked for a duplicate of it, and a number that is not open is EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, FIRST_FREE)
}

/// Puts `/dev/null` where the client was, so that the client's other end sees an end of file when it should.
pub fn let_go_of_client() -> Result<(), Errno> {
    let null = above_fixed_places(open_null()?)?;
    for number in [0, 1] {
        std::mem::forget(place(&null, number)?);
    }
    Ok(())
}

fn place(descriptor: &OwnedFd, number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: dup2 only replaces what stands at the number, which the caller has given up.
    checked(unsafe { libc::dup2(descriptor.as_raw_fd(), number) })?;
    // SAFETY: the number is open now, and nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
