//! What is left of root's power in a confined tool.

use rustix::io::Errno;

use crate::sys::{checked, last_errno};

/// Those that root needs to write what others own: CHOWN, DAC_OVERRIDE, FOWNER, FSETID.
pub const FOR_OTHERS_FILES: Capabilities = Capabilities(1 | 1 << 1 | 1 << 3 | 1 << 4);
/// Those that it takes to enter a cell and to give these up: SETPCAP, SYS_CHROOT, SYS_ADMIN.
pub const TO_ENTER: Capabilities = Capabilities(1 << 8 | 1 << 18 | 1 << SYS_ADMIN);
const NAMES: [(u32, &str); 4] = [(0, "chown"), (1, "dac_override"), (3, "fowner"), (4, "fsetid")];
/// More than any kernel has.
const LAST: u32 = 63;
const SYS_ADMIN: u32 = 21;

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

impl Capabilities {
    /// By name.
    pub fn names(self) -> Vec<String> {
        let mine = NAMES.iter().filter(|(number, _)| self.0 & (1 << number) != 0);
        mine.map(|(_, name)| (*name).to_owned()).collect()
    }

    /// These and those.
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// As the kernel shows them.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Drops all others, and has a program that is executed keep these, whoever its user is. Only system calls.
    pub fn hold(self) -> Result<(), Errno> {
        self.drop_others();
        self.set(self.0)?;
        for number in (0..=LAST).filter(|number| self.0 & (1 << number) != 0) {
            // SAFETY: numbers only.
            checked(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, number, 0, 0) })?;
        }
        Ok(())
    }

    /// Drops all others, also for whatever root executes later. Only system calls.
    pub fn keep(self) -> Result<(), Errno> {
        // One call does as well where nothing is kept: root is then nobody special to `execve`.
        if self == Self::default() && root_is_nobody().is_ok() {
            return self.set(0);
        }
        self.drop_others();
        self.set(0)
    }

    /// The bounding set.
    fn drop_others(self) {
        for number in (0..=LAST).filter(|number| self.0 & (1 << number) == 0) {
            // SAFETY: numbers only.
            let answer = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
            // EINVAL: there is no such capability, nor any after it. EPERM: none could be dropped, and without
            // CAP_SETPCAP none of them can be gained either, because `no_new_privs` follows.
            if answer < 0 {
                break;
            }
        }
    }

    fn set(self, inheritable: u64) -> Result<(), Errno> {
        let half = |bits: u64, shift: u32| (bits >> shift) as u32;
        let one = |shift| Data {
            effective: half(self.0, shift),
            permitted: half(self.0, shift),
            inheritable: half(inheritable, shift),
        };
        let data = [one(0), one(32)];
        let header = Header { version: VERSION_3, pid: 0 };
        // SAFETY: both structures are those of version 3, and pid 0 is this thread.
        let answer = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
        checked(answer as i32).map(drop)
    }
}

/// For ever. EPERM for all but root.
fn root_is_nobody() -> Result<(), Errno> {
    let bits = libc::SECBIT_NOROOT | libc::SECBIT_NOROOT_LOCKED;
    // SAFETY: numbers only.
    checked(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) }).map(drop)
}

/// Whether this process may mount and make namespaces without a user namespace.
pub fn is_administrator() -> bool {
    let mut data = [Data::default(); 2];
    let header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: as above; the kernel writes two structures.
    let answer = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    answer == 0 && data[0].effective & (1 << SYS_ADMIN) != 0
}

/// Nothing that is executed from now on gains anything. Only a system call.
pub fn gain_nothing_more() -> Result<(), Errno> {
    // SAFETY: numbers only.
    let answer = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if answer < 0 { Err(last_errno()) } else { Ok(()) }
}
