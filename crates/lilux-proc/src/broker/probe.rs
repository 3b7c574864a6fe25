//! Whether there can be a broker here is found out by having one: a process that is told of asks for a name and connects.
//!
//! The kernel may be too old, a tracer of this process may have a listener already, and what a container or Yama forbids is
//! seen in no other way.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketType, connect, socket};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use super::Broker;
use crate::confine::Instruction;
use crate::door::channel::Opening;
use crate::door::entrance::Entrance;
use crate::notify::{self, Mailbox, Post, Tells};
use crate::sys::pidfd::{ProcessHandle, poll_until};
use crate::sys::{self, fd};

/// A machine on which it takes so long has something that gets in the way.
const PATIENCE: Duration = Duration::from_secs(2);
const HOST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 443);
const NAMES: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);

/// With the filter that tools get. Says why there can be none.
pub fn try_out(filter: Vec<Instruction>) -> Result<(), String> {
    let failed = |errno: Errno| format!("the broker could not be tried out: {errno}");
    let (ours, theirs) = fd::message_pair().map_err(failed)?;
    let opening: Opening = serde_json::from_str(r#"{"hosts": ["a.example"]}"#).unwrap_or_default();
    let mut door = Entrance::new(ours, &opening).map_err(failed)?;
    let (mailbox, post) = notify::post(filter, Tells::Once).map_err(failed)?;
    let Some(child) = sys::fork().map_err(failed)? else {
        sys::exit_now(be_a_tool(&post).err().map_or(0, Errno::raw_os_error));
    };
    drop(post);
    let handle = ProcessHandle::open(child).map_err(failed)?;
    let answered = answer(mailbox, &mut door, &handle);
    let ended = end(child);
    answered
        .and(ended)
        .map_err(|errno| format!("a system call could not be answered for a tool: {errno}"))?;
    if has_been_led(&theirs) { Ok(()) } else { Err("this machine does not connect to itself".to_owned()) }
}

/// In a process of its own.
fn be_a_tool(post: &Post) -> Result<(), Errno> {
    // As every program is that its user may read.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    post.install()?;
    connect(socket(AddressFamily::INET, SocketType::DGRAM, None)?, &NAMES)?;
    connect(socket(AddressFamily::INET, SocketType::STREAM, None)?, &HOST)
}

fn answer(mailbox: Mailbox, door: &mut Entrance, tool: &ProcessHandle) -> Result<(), Errno> {
    let until = Some(Instant::now() + PATIENCE);
    let mut watched = [PollFd::new(&mailbox, PollFlags::IN), PollFd::new(tool, PollFlags::IN)];
    poll_until(&mut watched, until)?;
    if watched[0].revents().is_empty() {
        return Ok(()); // it has ended, and its end says why
    }
    let mut broker = Broker::begin(mailbox)?;
    loop {
        let mut watched = [PollFd::new(&broker, PollFlags::IN), PollFd::new(tool, PollFlags::IN)];
        if poll_until(&mut watched, until)? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        if !watched[1].revents().is_empty() {
            return Ok(());
        }
        broker.answer(door);
    }
}

/// Its own error is ours: it has failed at what tools do.
fn end(child: Pid) -> Result<(), Errno> {
    // Our own unreaped child: the number cannot mean anybody else. One that has ended keeps its end.
    let _ = rustix::process::kill_process(child, Signal::KILL);
    let ended = rustix::process::waitpid(Some(child), WaitOptions::empty())?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(code) => Err(Errno::from_raw_os_error(code)),
        None => Err(Errno::TIMEDOUT),
    }
}

fn has_been_led(door: &OwnedFd) -> bool {
    let passed = |from: &OwnedFd| {
        let received = fd::receive(from, &mut [0; 64], RecvFlags::DONTWAIT);
        received.ok().and_then(|(_, mut passed)| passed.pop())
    };
    passed(door).is_some_and(|channel| passed(&channel).is_some() && passed(&channel).is_some())
}
