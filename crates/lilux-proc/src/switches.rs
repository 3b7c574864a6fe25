//! Parts of the containment that a test build can switch off.
//!
//! A test that finds no survivor proves something only if it would have found one. So every such test runs once more
//! against a build with the feature `switches`, with the part it is about named in `LILUX_PROC_OFF`, and must fail there.
//! Without the feature, which is how it ships, every answer here is a constant and the variable is never read.

/// One guard against escapes.
#[derive(Clone, Copy, Debug)]
pub enum Guard {
    /// Orphans of a run arrive at its keeper.
    KeeperSubreaper,
    /// Orphans of a dead keeper arrive at the supervisor.
    ServeSubreaper,
    /// Orphans of a dead supervisor arrive at the warden, which kills them.
    Warden,
    /// The supervisor kills what a dead keeper left.
    Sweep,
    /// A keeper kills its run when its supervisor is gone.
    KeeperEndOfFile,
    /// The supervisor ends when its warden is gone.
    Lifeline,
    /// The supervisor ends when its client is gone.
    ClientEndOfFile,
    /// The warden ends everything when the process that started it is gone.
    ParentWatch,
    /// A keeper does not leave it at asking: SIGKILL follows.
    Force,
    /// A keeper kills what is left of a run before it ends, not only the tool's own group.
    KillTree,
    /// Files, ports and signals out of reach.
    Landlock,
    /// System calls that nobody needs, and sockets that were not granted.
    Seccomp,
    /// Root's power is dropped.
    Capabilities,
    /// A cell has a network of its own.
    CellNetwork,
    /// A cell has processes of its own, and sees no others.
    CellProcesses,
    /// A cell has shared memory and message queues of its own.
    CellIpc,
    /// A cell shows only what was granted.
    CellRoot,
    /// A cell keeps protected places read-only.
    CellProtect,
    /// A cell shows masked places empty.
    CellMask,
    /// In walls, connections are made by the keeper.
    Broker,
    /// The door answers for allowed names only, and leads to no other.
    DoorNames,
    /// The door connects to public addresses only.
    DoorAddresses,
}

/// A moment in the making of a cell at which a test may have it stop, so that somebody can be killed just then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The namespaces are there, and nothing in them.
    Namespaces,
    /// The root is there, and empty.
    Root,
    /// Everything is where the tool will see it.
    Places,
    /// Process 1 runs, and the tool does not exist yet.
    ProcessOne,
    /// The tool is inside, and not sealed yet.
    Tool,
}

/// The moment that a test has named in `LILUX_PROC_STOP_AT`, looked up before the process that stops exists.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopAt {
    #[cfg(feature = "switches")]
    moment: Option<Moment>,
}

#[cfg(feature = "switches")]
impl StopAt {
    pub fn asked_for() -> Self {
        let all = [Moment::Namespaces, Moment::Root, Moment::Places, Moment::ProcessOne, Moment::Tool];
        let asked = std::env::var("LILUX_PROC_STOP_AT").unwrap_or_default();
        Self { moment: all.into_iter().find(|moment| format!("{moment:?}") == asked) }
    }

    /// Stops this process if it is that moment. Only system calls.
    pub fn reached(self, moment: Moment) {
        if self.moment == Some(moment) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        }
    }
}

#[cfg(not(feature = "switches"))]
impl StopAt {
    pub const fn asked_for() -> Self {
        Self {}
    }

    pub const fn reached(self, _: Moment) {}
}

#[cfg(feature = "switches")]
const VARIABLE: &str = "LILUX_PROC_OFF";

#[cfg(feature = "switches")]
impl Guard {
    const fn name(self) -> &'static str {
        match self {
            Self::KeeperSubreaper => "keeper-subreaper",
            Self::ServeSubreaper => "serve-subreaper",
            Self::Warden => "warden",
            Self::Sweep => "sweep",
            Self::KeeperEndOfFile => "keeper-eof",
            Self::Lifeline => "lifeline",
            Self::ClientEndOfFile => "client-eof",
            Self::ParentWatch => "parent-watch",
            Self::Force => "force",
            Self::KillTree => "kill-tree",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Capabilities => "capabilities",
            Self::CellNetwork => "cell-network",
            Self::CellProcesses => "cell-processes",
            Self::CellIpc => "cell-ipc",
            Self::CellRoot => "cell-root",
            Self::CellProtect => "cell-protect",
            Self::CellMask => "cell-mask",
            Self::Broker => "broker",
            Self::DoorNames => "door-names",
            Self::DoorAddresses => "door-addresses",
        }
    }

    /// Whether this guard does its work.
    pub fn is_on(self) -> bool {
        let off = std::env::var(VARIABLE).unwrap_or_default();
        !off.split(',').any(|name| name == self.name())
    }

    /// The environment of our own processes: empty, except for the switches.
    pub fn environment() -> Option<std::ffi::CString> {
        let off = std::env::var(VARIABLE).ok()?;
        std::ffi::CString::new(format!("{VARIABLE}={off}")).ok()
    }
}

#[cfg(not(feature = "switches"))]
impl Guard {
    /// Whether this guard does its work: always.
    pub const fn is_on(self) -> bool {
        true
    }

    /// The environment of our own processes: empty.
    pub const fn environment() -> Option<std::ffi::CString> {
        None
    }
}
