//! Memory for captured output that a fork does not copy.
//!
//! The cost of a fork follows the memory of the process that forks. The supervisor forks keepers while it may hold hundreds of
//! megabytes of output, so those bytes live in mappings that children do not get (`MADV_DONTFORK`). A few of them
//! are kept for the next run; `Pool::trim` gives them back.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// How many regions are kept for reuse.
const SPARE: usize = 8;

struct Mapping {
    start: NonNull<u8>,
    size: usize,
}

impl Mapping {
    fn new(size: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping overlaps nothing.
        let address = unsafe { mmap_anonymous(std::ptr::null_mut(), size, protection, MapFlags::PRIVATE)? };
        let start = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        let mapping = Self { start, size };
        // SAFETY: exactly the mapping made above; a child that lacks it never touches it.
        unsafe { madvise(address, size, Advice::LinuxDontFork)? };
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more. It cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.size) };
    }
}

/// Where regions come from and return to.
#[derive(Clone, Default)]
pub struct Pool {
    spare: Rc<RefCell<Vec<Mapping>>>,
}

impl Pool {
    /// A region of exactly this size; what an earlier user left in it is still there.
    pub fn take(&self, size: usize) -> Result<Region, Errno> {
        let mut spare = self.spare.borrow_mut();
        let found = spare.iter().position(|mapping| mapping.size == size);
        let mapping = match found {
            Some(index) => spare.swap_remove(index),
            None => Mapping::new(size)?,
        };
        Ok(Region { mapping: Some(mapping), home: self.clone() })
    }

    /// There is a region, in use or spare.
    pub fn holds_memory(&self) -> bool {
        Rc::strong_count(&self.spare) > 1 || !self.spare.borrow().is_empty()
    }

    /// Gives back the memory of every region that is not in use.
    pub fn trim(&self) {
        self.spare.borrow_mut().clear();
    }
}

/// A block of bytes, as large as it was asked for.
pub struct Region {
    mapping: Option<Mapping>,
    home: Pool,
}

impl Region {
    fn parts(&self) -> (NonNull<u8>, usize) {
        self.mapping.as_ref().map_or((NonNull::dangling(), 0), |mapping| (mapping.start, mapping.size))
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (start, size) = self.parts();
        // SAFETY: the mapping is that large, readable, zero-filled at first, and lives as long as the region.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), size) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (start, size) = self.parts();
        // SAFETY: as above, writable, and `&mut self` makes this the only view.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), size) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut spare = self.home.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.extend(self.mapping.take());
        }
    }
}
