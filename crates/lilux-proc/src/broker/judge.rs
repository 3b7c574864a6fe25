//! What becomes of a `connect`, from a copy of its address and the kind of its socket. Pure.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use rustix::io::Errno;

use crate::door::is_fake;
use crate::notify::peer::Peer;

const NAMES_PORT: u16 = 53;

/// The sockets that a tool can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What it was given in place of a UDP socket: the other end is the door's DNS server.
    Names,
    Tcp,
    Other,
}

/// What becomes of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It has succeeded, and there is nothing to do.
    Nothing,
    /// Its peer is forgotten.
    Disconnect,
    /// The door leads it to the host that this fake address stands for.
    Lead(SocketAddrV4),
    Refuse(Errno),
}

/// As in the network of a cell: there is a DNS server, fake addresses lead somewhere at some ports, and nothing else is there.
pub fn judge(kind: Kind, address: &[u8], ports: &[u16]) -> Judgement {
    match (kind, Peer::of(address)) {
        (Kind::Other, _) => Judgement::Refuse(Errno::ACCESS),
        (_, None) => Judgement::Refuse(Errno::INVAL),
        (_, Some(Peer::Path(_))) => Judgement::Refuse(Errno::AFNOSUPPORT),
        (Kind::Names, Some(Peer::Unspecified)) => Judgement::Nothing,
        (Kind::Names, Some(Peer::Internet(to))) if to.port() == NAMES_PORT => Judgement::Nothing,
        (Kind::Tcp, Some(Peer::Unspecified)) => Judgement::Disconnect,
        (Kind::Tcp, Some(Peer::Internet(to))) => lead(to, ports),
        (Kind::Names, Some(Peer::Internet(_))) => Judgement::Refuse(Errno::NETUNREACH),
    }
}

fn lead(to: SocketAddr, ports: &[u16]) -> Judgement {
    match to.ip() {
        IpAddr::V4(address) if is_fake(address) && ports.contains(&to.port()) => {
            Judgement::Lead(SocketAddrV4::new(address, to.port()))
        }
        IpAddr::V4(address) if is_fake(address) => Judgement::Refuse(Errno::CONNREFUSED),
        _ => Judgement::Refuse(Errno::NETUNREACH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn four(address: [u8; 4], port: u16) -> Vec<u8> {
        [&(libc::AF_INET as u16).to_ne_bytes()[..], &port.to_be_bytes(), &address, &[0; 8]].concat()
    }

    fn six(address: Ipv6Addr, port: u16) -> Vec<u8> {
        let family = (libc::AF_INET6 as u16).to_ne_bytes();
        [&family[..], &port.to_be_bytes(), &[0; 4], &address.octets(), &[0; 4]].concat()
    }

    #[test]
    fn only_fake_addresses_at_allowed_ports_lead_anywhere() {
        let fake = SocketAddrV4::new([198, 18, 0, 7].into(), 443);
        let mapped = fake.ip().to_ipv6_mapped();
        let unreachable = Judgement::Refuse(Errno::NETUNREACH);
        let table = [
            (four([198, 18, 0, 7], 443), Judgement::Lead(fake)),
            (six(mapped, 443), Judgement::Lead(fake)),
            (four([198, 18, 0, 7], 80), Judgement::Refuse(Errno::CONNREFUSED)),
            (four([198, 17, 255, 255], 443), Judgement::Refuse(Errno::NETUNREACH)),
            (four([198, 20, 0, 0], 443), Judgement::Refuse(Errno::NETUNREACH)),
            (four([127, 0, 0, 1], 443), Judgement::Refuse(Errno::NETUNREACH)),
            (four([127, 0, 0, 53], 53), Judgement::Refuse(Errno::NETUNREACH)),
            (six(Ipv6Addr::LOCALHOST, 443), unreachable),
            (vec![0, 0], Judgement::Disconnect),
            (vec![9], Judgement::Refuse(Errno::INVAL)),
            (four([198, 18, 0, 7], 443)[..7].to_vec(), Judgement::Refuse(Errno::INVAL)),
        ];
        for (address, expected) in table {
            assert_eq!(judge(Kind::Tcp, &address, &[443]), expected, "{address:?}");
        }
    }

    #[test]
    fn a_socket_for_names_asks_for_names_and_other_sockets_are_not_connected() {
        for address in [four([127, 0, 0, 53], 53), six(Ipv6Addr::LOCALHOST, 53), vec![0, 0]] {
            assert_eq!(judge(Kind::Names, &address, &[443]), Judgement::Nothing, "{address:?}");
            assert_eq!(judge(Kind::Other, &address, &[443]), Judgement::Refuse(Errno::ACCESS));
        }
        let elsewhere = judge(Kind::Names, &four([198, 18, 0, 7], 443), &[443]);
        assert_eq!(elsewhere, Judgement::Refuse(Errno::NETUNREACH));
    }
}
