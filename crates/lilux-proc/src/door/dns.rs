//! DNS as far as the door speaks it: one question over UDP, and an answer made of that question.
//!
//! A packet that is not one plain question of the class IN is dropped. Whatever follows the question (EDNS) is ignored.

use std::net::Ipv4Addr;

use super::names::normalise;

/// Questions are short. Larger packets are dropped.
pub const MAX_PACKET: usize = 1232;
const HEADER: usize = 12;
const INTERNET: u16 = 1;
/// The type of a question for IPv4 addresses.
pub const A: u16 = 1;
/// The type of a question for the name of an address.
pub const PTR: u16 = 12;
/// How long an answer may be kept, in seconds: a fake address stays the same for the whole run.
const LIFETIME: u32 = 300;
const POINTER_TO_QUESTION: [u8; 2] = [0xc0, HEADER as u8];

/// What somebody wants to know.
#[derive(Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// `None` for a name that no host can have.
    pub name: Option<String>,
    pub kind: u16,
    id: [u8; 2],
    recursion_desired: u8,
    /// As it came: resolvers that mix upper and lower case want the same mixture back.
    bytes: &'a [u8],
}

/// What is said to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Address(Ipv4Addr),
    /// The name exists, and has nothing of this type.
    Nothing,
    NoSuchName,
    Failure,
}

/// The question of a packet, or `None` if the packet is dropped.
pub fn parse(packet: &[u8]) -> Option<Question<'_>> {
    let (header, rest) = packet.split_first_chunk::<HEADER>()?;
    let [id_high, id_low, flags, _, counts @ ..] = header;
    let [0, 1, 0, 0, 0, 0, additional @ ..] = counts else { return None };
    // The first bit tells answers from questions; the next four are zero in a plain query.
    if packet.len() > MAX_PACKET || flags & 0b1111_1000 != 0 {
        return None;
    }
    let (name, length) = read_name(rest)?;
    let (bytes, following) = rest.split_at_checked(length + 4)?;
    let [kind_high, kind_low, class_high, class_low] = *bytes.last_chunk::<4>()?;
    let stray = additional == &[0, 0] && !following.is_empty();
    if stray || u16::from_be_bytes([class_high, class_low]) != INTERNET {
        return None;
    }
    let kind = u16::from_be_bytes([kind_high, kind_low]);
    Some(Question {
        name: normalise(&name),
        kind,
        id: [*id_high, *id_low],
        recursion_desired: flags & 1,
        bytes,
    })
}

/// The labels with dots between them, and how many bytes they took. A pointer is refused: there is nothing to point to.
fn read_name(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut name, mut at) = (Vec::new(), 0);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        match length {
            0 => return Some((name, at)),
            1..=63 => {}
            _ => return None,
        }
        let label = bytes.get(at..at + length)?;
        if label.contains(&b'.') {
            return None; // it would read as two labels
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend_from_slice(label);
        at += length;
        if at > 254 {
            return None;
        }
    }
}

/// The packet that answers a question.
pub fn answer(question: &Question<'_>, answer: Answer) -> Vec<u8> {
    const RESPONSE: u8 = 0x80;
    const RECURSION_AVAILABLE: u8 = 0x80;
    let code = match answer {
        Answer::Address(_) | Answer::Nothing => 0,
        Answer::Failure => 2,
        Answer::NoSuchName => 3,
    };
    let answers = u8::from(matches!(answer, Answer::Address(_)));
    let mut packet = Vec::with_capacity(HEADER + question.bytes.len() + 16);
    packet.extend_from_slice(&question.id);
    packet.extend_from_slice(&[RESPONSE | question.recursion_desired, RECURSION_AVAILABLE | code]);
    packet.extend_from_slice(&[0, 1, 0, answers, 0, 0, 0, 0]);
    packet.extend_from_slice(question.bytes);
    if let Answer::Address(address) = answer {
        packet.extend_from_slice(&POINTER_TO_QUESTION);
        packet.extend_from_slice(&A.to_be_bytes());
        packet.extend_from_slice(&INTERNET.to_be_bytes());
        packet.extend_from_slice(&LIFETIME.to_be_bytes());
        packet.extend_from_slice(&4u16.to_be_bytes());
        packet.extend_from_slice(&address.octets());
    }
    packet
}

#[cfg(test)]
mod tests;
