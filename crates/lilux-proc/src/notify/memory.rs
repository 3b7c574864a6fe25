//! What a tool's memory says at an address that it has given to the kernel.

use rustix::io::Errno;

use crate::sys::last_errno;

const PAGE: u64 = 4096;
/// The longest path that the kernel takes.
const MAX_TEXT: usize = 4096;

/// So many bytes, or fewer where its memory ends.
pub fn read(thread: u32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes at most as many bytes as the buffer has; the other address is not ours.
    let count = unsafe {
        libc::process_vm_readv(thread as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(count).map_err(|_| last_errno())
}

/// Up to the zero at its end. Read page by page: the next one may not be there.
pub fn text(thread: u32, address: u64) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    while found.len() < MAX_TEXT {
        let at = address.checked_add(found.len() as u64)?;
        let mut piece = [0; PAGE as usize];
        let size = (PAGE - at % PAGE) as usize;
        let count = read(thread, at, &mut piece[..size]).ok().filter(|count| *count > 0)?;
        if let Some(end) = piece[..count].iter().position(|byte| *byte == 0) {
            found.extend_from_slice(&piece[..end]);
            return Some(found);
        }
        found.extend_from_slice(&piece[..count]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_zero_and_bad_addresses_are_none() {
        let text_there = vec![b'a'; 4000].into_iter().chain([0]).collect::<Vec<u8>>();
        let own = std::process::id();
        assert_eq!(text(own, text_there.as_ptr() as u64), Some(vec![b'a'; 4000]));
        let endless = vec![b'a'; 3 * MAX_TEXT];
        assert_eq!(text(own, endless.as_ptr() as u64), None);
        assert_eq!((text(own, 0), text(own, u64::MAX)), (None, None));
    }
}
