//! Process 1 of a cell. When it ends, the kernel ends everybody in the cell.
//!
//! It ends at the end of a pipe that only its keeper holds: whoever of us is killed, nobody in a cell survives its keeper. A
//! byte on the pipe says that the tool is gone; then it also ends when nobody is left.

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::WaitOptions;

use super::cell::BUILT;
use crate::sys;

/// How often it is looked whether somebody is left. Only after a tool has left somebody behind, and at most for as long as
/// that one is allowed to go on.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 4_000_000 };

/// Runs in the keeper's memory, beside it; never returns.
pub extern "C" fn main(pipe: *mut c_void) -> c_int {
    let pipe = pipe as RawFd;
    let Ok(first) = libc::c_uint::try_from(pipe) else { sys::exit_now(1) };
    // Whatever of the keeper's stays open here would look to others as if the keeper were alive. Below and above the pipe.
    // SAFETY: this process uses nothing but the pipe.
    let below = unsafe { sys::fd::close_range(0, first - 1) };
    // SAFETY: as above.
    let above = unsafe { sys::fd::close_from(first + 1) };
    if below.and(above).is_err() {
        sys::exit_now(1);
    }
    // Nobody can look into this process. If somebody could, there should be nothing to see.
    let inside = rustix::process::chroot(BUILT).and_then(|()| rustix::process::chdir(c"/"));
    // Children that end are reaped at once; nothing waits for them.
    if inside.is_err() || sys::signals::ignore_children().is_err() {
        sys::exit_now(1);
    }
    // SAFETY: it was left open above.
    let pipe = unsafe { BorrowedFd::borrow_raw(pipe) };
    let told = read(pipe);
    while told && somebody_is_left() && !has_ended(pipe) {}
    sys::exit_now(0)
}

/// False at the end of the pipe.
fn read(pipe: BorrowedFd<'_>) -> bool {
    let mut byte = [0; 1];
    loop {
        match rustix::io::read(pipe, &mut byte) {
            Ok(count) => return count > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn somebody_is_left() -> bool {
    // Straight to the kernel: the C library would write `errno`, which is the keeper's as well.
    let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(libc::__WALL as u32);
    !matches!(rustix::process::wait(options), Err(Errno::CHILD))
}

/// Waits a moment for the end of the pipe.
fn has_ended(pipe: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(pipe, PollFlags::empty())];
    poll(&mut watched, Some(&LOOK_AGAIN)).is_ok_and(|count| count > 0)
}
