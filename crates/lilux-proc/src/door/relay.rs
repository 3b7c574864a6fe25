//! Moves bytes between two sockets without looking at them: from a socket into a pipe, and out of it, in the kernel.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// What one pipe holds at most. More slots than the usual 16 let one call move more than 16 pieces of a packet.
const PIPE_SIZE: usize = 256 * 1024;
/// How often one direction is moved before others get their turn.
const TURNS: usize = 8;
/// Empty pipes that are kept.
const SPARE: usize = 32;

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Pipes that nobody uses right now: a connection takes one only while bytes are on their way.
#[derive(Default)]
pub struct Pipes {
    spare: Vec<Pipe>,
}

impl Pipes {
    fn take(&mut self) -> Result<Pipe, Errno> {
        if let Some(pipe) = self.spare.pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user who has many pipes gets small ones, which work as well.
        let _ = fcntl_setpipe_size(&write, PIPE_SIZE);
        Ok(Pipe { read, write })
    }

    /// The pipe must be empty.
    fn give_back(&mut self, pipe: Pipe) {
        if self.spare.len() < SPARE {
            self.spare.push(pipe);
        }
    }
}

/// Which side of a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    Tool,
    Host,
}

/// The same for one direction.
enum Broken {
    Source,
    Destination,
}

/// One direction.
#[derive(Default)]
struct Flow {
    pipe: Option<Pipe>,
    held: usize,
    /// The source has said all.
    ended: bool,
    /// The destination has been told so.
    told: bool,
    moved: u64,
}

impl Flow {
    fn pump(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, pipes: &mut Pipes) -> Result<(), Broken> {
        for _ in 0..TURNS {
            if !self.fill(from, pipes)? || !self.drain(to)? {
                break;
            }
        }
        if self.held == 0
            && let Some(pipe) = self.pipe.take()
        {
            pipes.give_back(pipe);
        }
        if self.ended && self.held == 0 && !self.told {
            self.told = true;
            rustix::net::shutdown(to, Shutdown::Write).map_err(|_| Broken::Destination)?;
        }
        Ok(())
    }

    /// True when the pipe has something. Only an empty pipe is filled, so EAGAIN is about the socket.
    fn fill(&mut self, from: BorrowedFd<'_>, pipes: &mut Pipes) -> Result<bool, Broken> {
        if self.held > 0 || self.ended {
            return Ok(self.held > 0);
        }
        let pipe = match self.pipe.take() {
            Some(pipe) => pipe,
            // It cannot go on without one, which is not what the source did.
            None => pipes.take().map_err(|_| Broken::Destination)?,
        };
        let pipe = self.pipe.insert(pipe);
        match retry(|| splice(from, None, &pipe.write, None, PIPE_SIZE, FLAGS)) {
            Ok(0) => self.ended = true,
            Ok(count) => self.held = count,
            Err(Errno::AGAIN) => {}
            Err(_) => return Err(Broken::Source),
        }
        Ok(self.held > 0)
    }

    /// True when the pipe is empty again.
    fn drain(&mut self, to: BorrowedFd<'_>) -> Result<bool, Broken> {
        let Some(pipe) = &self.pipe else { return Ok(self.held == 0) };
        while self.held > 0 {
            match retry(|| splice(&pipe.read, None, to, None, self.held, FLAGS)) {
                Ok(count) if count > 0 => {
                    self.held -= count;
                    self.moved += count as u64;
                }
                Err(Errno::AGAIN) => return Ok(false),
                _ => return Err(Broken::Destination),
            }
        }
        Ok(true)
    }

    fn wants_source(&self) -> EventFlags {
        if self.ended || self.held > 0 { EventFlags::empty() } else { EventFlags::IN }
    }

    fn wants_destination(&self) -> EventFlags {
        if self.held > 0 { EventFlags::OUT } else { EventFlags::empty() }
    }
}

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

fn retry(mut act: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match act() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Both directions between the tool and its host.
#[derive(Default)]
pub struct Relay {
    to_host: Flow,
    to_tool: Flow,
}

impl Relay {
    /// Moves what can be moved without waiting. An error ends the connection.
    pub fn pump(
        &mut self,
        tool: BorrowedFd<'_>,
        host: BorrowedFd<'_>,
        pipes: &mut Pipes,
    ) -> Result<(), Lost> {
        self.to_host.pump(tool, host, pipes).map_err(|broken| match broken {
            Broken::Source => Lost::Tool,
            Broken::Destination => Lost::Host,
        })?;
        self.to_tool.pump(host, tool, pipes).map_err(|broken| match broken {
            Broken::Source => Lost::Host,
            Broken::Destination => Lost::Tool,
        })
    }

    /// What to wait for, at the tool's socket and at the host's.
    pub fn interests(&self) -> (EventFlags, EventFlags) {
        (
            self.to_host.wants_source() | self.to_tool.wants_destination(),
            self.to_tool.wants_source() | self.to_host.wants_destination(),
        )
    }

    /// Both sides have said all, and have been told so.
    pub fn is_done(&self) -> bool {
        self.to_host.told && self.to_tool.told
    }

    /// Bytes that went to the host, and to the tool.
    pub fn moved(&self) -> (u64, u64) {
        (self.to_host.moved, self.to_tool.moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (far, _) = listener.accept().expect("a connection");
        far.set_nonblocking(true).expect("a socket");
        (near, far)
    }

    /// The tool, the host, and between them the sockets that are relayed.
    struct Scene {
        tool: TcpStream,
        host: TcpStream,
        inner: (TcpStream, TcpStream),
        relay: Relay,
        pipes: Pipes,
    }

    impl Scene {
        fn new() -> Self {
            let ((tool, inner_tool), (host, inner_host)) = (pair(), pair());
            Self {
                tool,
                host,
                inner: (inner_tool, inner_host),
                relay: Relay::default(),
                pipes: Pipes::default(),
            }
        }

        fn pump(&mut self) -> Result<(), Lost> {
            self.relay.pump(self.inner.0.as_fd(), self.inner.1.as_fd(), &mut self.pipes)
        }
    }

    #[test]
    fn each_side_may_end_first_and_still_hears_the_other() {
        let mut scene = Scene::new();
        scene.tool.write_all(b"a question").expect("written");
        scene.tool.shutdown(std::net::Shutdown::Write).expect("shut down");
        let mut said = [0; 10];
        scene.pump().expect("pumped");
        scene.host.read_exact(&mut said).expect("read");
        assert_eq!(&said, b"a question");
        assert_eq!(scene.host.read(&mut said).expect("the end"), 0);
        assert!(!scene.relay.is_done());
        scene.host.write_all(b"an answer").expect("written");
        scene.host.shutdown(std::net::Shutdown::Write).expect("shut down");
        scene.pump().expect("pumped");
        let mut heard = String::new();
        scene.tool.read_to_string(&mut heard).expect("read");
        assert_eq!((heard.as_str(), scene.relay.moved()), ("an answer", (10, 9)));
        assert!(scene.relay.is_done());
    }

    #[test]
    fn a_host_that_does_not_read_holds_the_tool_back() {
        let mut scene = Scene::new();
        scene.tool.set_nonblocking(true).expect("a socket");
        let (mut written, chunk) = (0, [7; 64 * 1024]);
        loop {
            match scene.tool.write(&chunk) {
                Ok(count) => written += count,
                Err(_) => {
                    let before = scene.relay.moved().0;
                    scene.pump().expect("pumped");
                    if scene.relay.moved().0 == before && scene.relay.interests().1.contains(EventFlags::OUT)
                    {
                        break;
                    }
                }
            }
            assert!(written < 256 << 20, "nothing holds the tool back");
        }
        let (of_tool, of_host) = scene.relay.interests();
        assert_eq!((of_tool, of_host), (EventFlags::empty(), EventFlags::IN | EventFlags::OUT));
    }

    #[test]
    fn a_connection_that_rests_holds_no_pipe() {
        let mut scene = Scene::new();
        scene.tool.write_all(b"x").expect("written");
        scene.pump().expect("pumped");
        assert!(scene.relay.to_host.pipe.is_none() && scene.relay.to_tool.pipe.is_none());
        assert_eq!(scene.pipes.spare.len(), 1);
    }

    #[test]
    fn a_side_that_is_gone_is_an_error() {
        let mut scene = Scene::new();
        rustix::net::sockopt::set_socket_linger(&scene.host, Some(std::time::Duration::ZERO)).expect("set");
        drop(scene.host);
        scene.host = pair().0;
        let lost = (0..1000).find_map(|_| {
            std::thread::yield_now();
            scene.pump().err()
        });
        assert_eq!(lost, Some(Lost::Host));
    }
}
