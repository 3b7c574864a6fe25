//! `lilux-proc serve`: the engine behind frames on standard input and output.

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};

use crate::engine::Engine;
use crate::engine::Notice;
use crate::error::{Fatal, FrameError};
use crate::frames::Decoder;
use crate::outbox::Outbox;
use crate::poller::Token;
use crate::protocol::Event;
use crate::switches::Guard;
use crate::sys::fd::{read_stream, set_nonblocking};
use crate::sys::launch::Limits;
use crate::sys::{self};
use crate::warden;

const CLIENT_IN: u32 = 0;
const CLIENT_OUT: u32 = 1;
const LIFELINE: u32 = 2;
const READ_SIZE: usize = 64 * 1024;

/// Becomes warden and supervisor; returns when both are done.
pub fn main() -> Result<(), Fatal> {
    sys::check_kernel()?;
    check_client().inspect_err(tell_client)?;
    let limits = Limits { descriptors: sys::raise_descriptor_limit() };
    let lifeline = warden::split()?;
    sys::become_guardian(c"lilux-serve", Guard::ServeSubreaper).map_err(Fatal::system("guardian"))?;
    let mut server = Server::new(limits)?;
    server.watch(&lifeline)?;
    let outcome = server.run();
    server.engine.shut_down();
    sys::exit_now(i32::from(outcome.is_err()))
}

/// Descriptors that epoll refuses would leave us deaf: said before anything is started.
fn check_client() -> Result<(), Fatal> {
    let poller = crate::poller::Poller::new().map_err(Fatal::system("epoll"))?;
    let watchable =
        |name, added: Result<(), Errno>| added.map_err(|source| Fatal::Unwatchable { name, source });
    watchable("input", poller.add(stdin(), Token::Face(CLIENT_IN), EventFlags::IN))?;
    watchable("output", poller.add(stdout(), Token::Face(CLIENT_OUT), EventFlags::empty()))
}

/// A client that gave us an input we cannot watch may still read what we say.
fn tell_client(error: &Fatal) {
    let mut outbox = Outbox::default();
    outbox.push(Notice::Event(Event::unusable(error)));
    // If not, standard error has it too.
    let _ = outbox.write(stdout());
}

struct Server {
    engine: Engine,
    decoder: Decoder,
    outbox: Outbox,
    /// Came along with bytes of frames that are not whole yet.
    passed: VecDeque<OwnedFd>,
    buffer: Vec<u8>,
    waiting_to_write: bool,
}

/// Why serving ends.
enum End {
    ClientGone,
    Broken(FrameError),
    Fatal,
}

impl Server {
    fn new(limits: Limits) -> Result<Self, Fatal> {
        let mut engine = Engine::new(limits)?;
        engine.warm_up()?;
        let (decoder, outbox, passed) = (Decoder::default(), Outbox::default(), VecDeque::new());
        Ok(Self { engine, decoder, outbox, passed, buffer: vec![0; READ_SIZE], waiting_to_write: false })
    }

    fn watch(&mut self, lifeline: &OwnedFd) -> Result<(), Fatal> {
        let poller = self.engine.poller();
        let add = |added: Result<(), Errno>| added.map_err(Fatal::system("epoll"));
        add(set_nonblocking(stdin()))?;
        add(set_nonblocking(stdout()))?;
        add(poller.add(stdin(), Token::Face(CLIENT_IN), EventFlags::IN))?;
        add(poller.add(stdout(), Token::Face(CLIENT_OUT), EventFlags::empty()))?;
        add(poller.add(lifeline, Token::Face(LIFELINE), EventFlags::IN))
    }

    fn run(&mut self) -> Result<(), Fatal> {
        self.outbox.push(Notice::Event(Event::hello()));
        loop {
            match self.turn() {
                Ok(()) => {}
                Err(End::ClientGone) => return Ok(()),
                Err(End::Broken(error)) => {
                    self.outbox.push(Notice::Event(Event::broken(&error)));
                    // The client may be gone already; it was told as far as it would listen.
                    let _ = self.outbox.write(stdout());
                    return Err(Fatal::Usage(error.to_string()));
                }
                Err(End::Fatal) => return Err(Fatal::Usage("the supervisor cannot go on".to_owned())),
            }
        }
    }

    fn turn(&mut self) -> Result<(), End> {
        self.flush()?;
        let turn = self.engine.turn().map_err(|_| End::Fatal)?;
        if turn.stop {
            return Err(End::ClientGone);
        }
        for (face, flags) in turn.faces {
            match face {
                CLIENT_IN => self.read()?,
                LIFELINE if Guard::Lifeline.is_on() => return Err(End::ClientGone),
                CLIENT_OUT if is_gone(flags) => return Err(End::ClientGone),
                _ => {}
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), End> {
        for notice in self.engine.take_notices() {
            self.outbox.push(notice);
        }
        self.outbox.write(stdout()).map_err(|_| End::ClientGone)?;
        let waiting = !self.outbox.is_empty();
        if waiting != self.waiting_to_write {
            self.waiting_to_write = waiting;
            let interest = if waiting { EventFlags::OUT } else { EventFlags::empty() };
            let poller = self.engine.poller();
            poller.modify(stdout(), Token::Face(CLIENT_OUT), interest).map_err(|_| End::Fatal)?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), End> {
        match read_stream(stdin(), &mut self.buffer) {
            Ok((0, _)) if !Guard::ClientEndOfFile.is_on() => return Ok(()),
            Ok((0, _)) => {
                self.decoder.finish().map_err(End::Broken)?;
                return Err(End::ClientGone);
            }
            Ok((count, passed)) => {
                self.decoder.feed(&self.buffer[..count]);
                self.passed.extend(passed);
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => return Err(End::ClientGone),
        }
        while let Some(incoming) = self.decoder.next().map_err(End::Broken)? {
            let passed = self.passed.drain(..incoming.descriptors.min(self.passed.len())).collect();
            match incoming.request {
                Ok(request) => self.engine.request(request, &incoming.payload, passed),
                Err(error) => self.engine.refuse(incoming.id, &error),
            }
        }
        if self.decoder.is_between_frames() {
            // No frame has named them: they are nobody's.
            self.passed.clear();
        }
        Ok(())
    }
}

fn is_gone(flags: EventFlags) -> bool {
    flags.intersects(EventFlags::ERR | EventFlags::HUP) && Guard::ClientEndOfFile.is_on()
}

/// One line on our standard error.
pub fn complain(name: &str, error: &Fatal) {
    // Nobody may be listening, and there is no other way to say it.
    let _ = writeln!(std::io::stderr(), "{name}: {error}");
}
