//! From a confinement to its parts: what is opened, compiled and promised for one level.

use std::cell::RefCell;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::process::geteuid;

use super::Confinement;
use super::capabilities::{Capabilities, FOR_OTHERS_FILES, TO_ENTER};
use super::cell::{Cell, Isolated};
use super::facts::{CellKind, Facts};
use super::filter::{Instruction, compile};
use super::hidden;
use super::holder::Namespaces;
use super::landlock::{Access, Ruleset, Tcp};
use super::layout::Layout;
use super::places::{self, Place, System};
use super::seal::{Filter, Walls};
use super::syscalls::{Shape, Sockets, table};
use crate::door::entrance::Entrance;
use crate::error::SpawnError;
use crate::notify::{self, Tells};
use crate::policy::{Enforced, Net, Policy, Proc};
use crate::switches::{Guard, StopAt};
use crate::wire::Role;

/// Bytes of the private file system of a cell, where the policy says nothing.
const TEMP: u64 = 1 << 30;

/// One run's confinement while its parts are put together.
pub struct Draft<'a> {
    policy: &'a Policy,
    facts: &'a Facts,
    enforced: Enforced,
    root: bool,
}

/// A cell without the namespaces that it is entered by.
pub struct CellParts {
    layout: Layout,
    own_network: bool,
    proc: Proc,
    options: CString,
    role: Role,
}

impl CellParts {
    pub fn with<'a>(
        self,
        namespaces: &'a Namespaces,
        waits_at: OwnedFd,
        door: Option<&'a Entrance>,
    ) -> Cell<'a> {
        let Self { layout, own_network, proc, options, role } = self;
        let new = Isolated::as_guarded(role);
        Cell {
            namespaces,
            layout,
            own_network,
            new,
            proc,
            options,
            door,
            waits_at,
            ways_in: None,
            role,
            stop_at: StopAt::default(),
        }
    }
}

impl<'a> Draft<'a> {
    pub fn of(confinement: &'a Confinement) -> Self {
        let enforced = Enforced {
            level: confinement.level,
            net: Net::Any,
            proc: Proc::Shared,
            limits: Vec::new(),
            capabilities: Vec::new(),
            unenforced: Vec::new(),
            reason: confinement.reason.clone(),
        };
        let (policy, facts) = (&confinement.policy, &confinement.facts);
        Self { policy, facts, enforced, root: geteuid().is_root() }
    }

    /// Nothing is enforced.
    pub fn open(mut self) -> Enforced {
        if self.policy.tier > self.enforced.level {
            self.gap("everything");
        }
        self.enforced
    }

    pub fn walls(mut self) -> Result<(Walls, Enforced), SpawnError> {
        let sockets = self.sockets(false);
        let ruleset = self.ruleset(sockets, false)?;
        let written = self.written()?;
        self.allow_system(&ruleset, sockets != Sockets::None)?;
        self.allow_granted(&ruleset, &written)?;
        let asked = [
            (self.policy.protect.is_empty(), "protected_paths"),
            (self.policy.mask.is_empty(), "masked_paths"),
            (self.policy.binds.is_empty(), "binds"),
        ];
        asked.into_iter().filter(|(empty, _)| !empty).for_each(|(_, name)| self.gap(name));
        self.gap("metadata_outside");
        self.gap("cmdlines");
        self.facts.landlock.gaps().for_each(|name| self.gap(name));
        let walls = self.seal(
            Some(ruleset),
            Shape { cell: false, sockets, root: self.root, enters: false },
            &written,
        )?;
        Ok((walls, self.enforced))
    }

    pub fn cell(mut self, role: Role) -> Result<(Walls, CellParts, Enforced), SpawnError> {
        let sockets = self.sockets(true);
        let written = self.written()?;
        // Without a server in it, names are asked for at the loopback, where the door answers.
        let hosts = matches!(self.policy.net, Net::Hosts(_));
        let resolver = if hosts { places::resolver_in_etc() } else { None };
        let hidden = hidden::of_system(self.root, self.has_user_namespace(), resolver);
        let layout = Layout::of(self.policy, &written, &hidden)?;
        let landlock = self.facts.landlock.0 > 0 && Guard::Landlock.is_on();
        let ruleset = match role {
            _ if !landlock => None,
            Role::Tool => Some(self.ruleset(sockets, true)?),
            Role::Zygote => self.ruleset_without_files(sockets)?,
            // For the rest it has what its zygote has.
            Role::Forked => Some(self.ruleset(Sockets::Any, true)?),
        };
        if sockets != Sockets::None && !self.facts.landlock.knows_scopes() {
            self.gap("abstract_sockets");
        }
        if !landlock {
            self.gap("passed_directories");
        }
        self.enforced.proc = self.facts.proc;
        if self.facts.proc == Proc::Shared {
            self.gap("cmdlines");
        }
        let enters = role == Role::Zygote;
        let mut walls =
            self.seal(ruleset, Shape { cell: true, sockets, root: self.root, enters }, &written)?;
        if enters {
            let others = if self.root { FOR_OTHERS_FILES } else { Capabilities::default() };
            walls.hold = Some(TO_ENTER.and(others));
        }
        let size = self.policy.limits.temp.unwrap_or(TEMP);
        let parts = CellParts {
            layout,
            own_network: sockets == Sockets::None && Guard::CellNetwork.is_on(),
            // It is in no namespace of processes of its own, because what it forks is to be in another.
            proc: if enters { Proc::Shared } else { self.facts.proc },
            options: CString::new(options(size)).unwrap_or_default(),
            role,
        };
        Ok((walls, parts, self.enforced))
    }

    fn gap(&mut self, name: &str) {
        self.enforced.unenforced.push(name.to_owned());
    }

    fn has_user_namespace(&self) -> bool {
        self.facts.cell == Some(CellKind::UserNamespace)
    }

    fn written(&self) -> Result<Vec<Place>, SpawnError> {
        self.policy.write.iter().map(Place::granted).collect()
    }

    /// What of the network can be enforced.
    fn sockets(&mut self, in_cell: bool) -> Sockets {
        let (sockets, missing) = match &self.policy.net {
            Net::None => (Sockets::None, None),
            Net::Any => (Sockets::Any, None),
            Net::Ports(_) if self.facts.landlock.knows_ports() => (Sockets::Tcp, None),
            Net::Ports(_) => (Sockets::Any, Some("ports")),
            // Nothing but the door is in the network of the cell.
            Net::Hosts(_) if in_cell => (Sockets::None, None),
            Net::Hosts(_) if self.facts.broker => (self.brokered(), None),
            Net::Hosts(_) => (Sockets::Any, Some("hosts")),
        };
        self.enforced.net = if missing.is_some() { Net::Any } else { self.policy.net.unpinned() };
        missing.into_iter().for_each(|name| self.gap(name));
        sockets
    }

    fn brokered(&self) -> Sockets {
        if Guard::Broker.is_on() { Sockets::Brokered } else { Sockets::Any }
    }

    /// A cell without a network has a loopback of its own, on which every port is its own.
    fn ruleset(&self, sockets: Sockets, in_cell: bool) -> Result<Ruleset, SpawnError> {
        let tcp = match (sockets, &self.policy.net) {
            (Sockets::Tcp, Net::Ports(ports)) => Tcp::Only(ports),
            (Sockets::Brokered, _) => Tcp::Only(&[]),
            (Sockets::None, _) if !in_cell => Tcp::Only(&[]),
            _ => Tcp::Unhandled,
        };
        Ruleset::new(self.facts.landlock, tcp).map_err(|errno| SpawnError::resources("landlock", errno))
    }

    /// What a zygote's children inherit: the files that they see are decided by their cells.
    fn ruleset_without_files(&self, sockets: Sockets) -> Result<Option<Ruleset>, SpawnError> {
        let tcp = match (sockets, &self.policy.net) {
            (Sockets::Tcp, Net::Ports(ports)) => Tcp::Only(ports),
            _ => Tcp::Unhandled,
        };
        let made = Ruleset::without_files(self.facts.landlock, tcp);
        made.map_err(|errno| SpawnError::resources("landlock", errno))
    }

    fn seal(
        &mut self,
        ruleset: Option<Ruleset>,
        shape: Shape,
        written: &[Place],
    ) -> Result<Walls, SpawnError> {
        let in_user_namespace = shape.cell && self.has_user_namespace();
        let others = self.root && !in_user_namespace && places::owned_by_others(written);
        let keep = if others { FOR_OTHERS_FILES } else { Capabilities::default() };
        self.enforced.capabilities = keep.names();
        Ok(Walls {
            keep: Guard::Capabilities.is_on().then_some(keep),
            ruleset: ruleset.filter(|_| Guard::Landlock.is_on()),
            hold: None,
            filter: filter(shape).map_err(|errno| SpawnError::resources("seccomp", errno))?,
        })
    }

    /// What every program needs.
    fn allow_system(&self, ruleset: &Ruleset, network: bool) -> Result<(), SpawnError> {
        let system = System::here();
        // Nothing can be hidden inside what may be read.
        let in_part = self.root || hidden::is_trusted_with_etc();
        let etc = if in_part { system.etc.as_slice() } else { &[] };
        let directories = system.directories.iter().filter(|place| !(in_part && place.path == b"/etc"));
        for place in directories.chain(etc).chain(&system.proc) {
            place.allow(ruleset, Access::Read)?;
        }
        if let Some(real) = places::resolver().filter(|_| network) {
            let place = Place::open(real.as_os_str().as_encoded_bytes());
            place.map_or(Ok(()), |place| place.allow(ruleset, Access::Read))?;
        }
        system.devices.iter().try_for_each(|device| device.allow(ruleset, Access::Device))
    }

    fn allow_granted(&self, ruleset: &Ruleset, written: &[Place]) -> Result<(), SpawnError> {
        for path in &self.policy.read {
            Place::granted(path)?.allow(ruleset, Access::Read)?;
        }
        for path in &self.policy.devices {
            Place::granted(path)?.allow(ruleset, Access::Device)?;
        }
        written.iter().try_for_each(|place| place.allow(ruleset, Access::Write))
    }
}

/// Files take room of the kernel's even if they are empty, and names and links do.
fn options(size: u64) -> String {
    format!("mode=755,size={size},nr_inodes={}", (size / 2048).max(4096))
}

thread_local! {
    static PROGRAMS: RefCell<Vec<(Shape, Rc<[Instruction]>)>> = const { RefCell::new(Vec::new()) };
}

/// There are few shapes, and a keeper compiles each once.
fn program(shape: Shape) -> Rc<[Instruction]> {
    PROGRAMS.with_borrow_mut(|known| {
        if let Some((_, program)) = known.iter().find(|(known, _)| *known == shape) {
            return Rc::clone(program);
        }
        let program: Rc<[Instruction]> = compile(&table(shape)).into();
        known.push((shape, Rc::clone(&program)));
        program
    })
}

fn filter(shape: Shape) -> Result<Option<Filter>, Errno> {
    if !Guard::Seccomp.is_on() {
        return Ok(None);
    }
    let program = program(shape);
    if shape.sockets != Sockets::Brokered {
        return Ok(Some(Filter::Silent(program)));
    }
    let (mailbox, post) = notify::post(program, Tells::Once)?;
    Ok(Some(Filter::Telling(post, Some(mailbox))))
}
