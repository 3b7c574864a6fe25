//! Addresses as programs give them to the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whom a socket is to talk to.
#[derive(Debug, PartialEq, Eq)]
pub enum Peer<'a> {
    Internet(SocketAddr),
    Path(&'a [u8]),
    /// No peer any more.
    Unspecified,
}

impl<'a> Peer<'a> {
    /// Abstract sockets and other families are nobody's.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (family, rest) = bytes.split_first_chunk::<2>()?;
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => {
                let (port, rest) = rest.split_first_chunk::<2>()?;
                let address = Ipv4Addr::from(*rest.first_chunk::<4>()?);
                Some(Self::Internet(SocketAddr::new(IpAddr::V4(address), u16::from_be_bytes(*port))))
            }
            libc::AF_INET6 => {
                let (port, rest) = rest.split_first_chunk::<2>()?;
                let address = Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?);
                let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
                Some(Self::Internet(SocketAddr::new(address, u16::from_be_bytes(*port))))
            }
            libc::AF_UNIX => {
                let path = rest.split(|byte| *byte == 0).next().filter(|path| !path.is_empty())?;
                Some(Self::Path(path))
            }
            libc::AF_UNSPEC => Some(Self::Unspecified),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let family = |family: i32| (family as u16).to_ne_bytes();
        let four = [&family(libc::AF_INET)[..], &443u16.to_be_bytes(), &[192, 0, 2, 1], &[0; 8]].concat();
        let Some(Peer::Internet(found)) = Peer::of(&four) else { panic!("no address") };
        assert_eq!(found.to_string(), "192.0.2.1:443");
        let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets();
        let six = [&family(libc::AF_INET6)[..], &80u16.to_be_bytes(), &[0; 4], &mapped, &[0; 4]].concat();
        let Some(Peer::Internet(found)) = Peer::of(&six) else { panic!("no address") };
        assert_eq!(found.to_string(), "192.0.2.1:80");
        let unix = [&family(libc::AF_UNIX)[..], b"/run/agent\0junk"].concat();
        assert!(matches!(Peer::of(&unix), Some(Peer::Path(b"/run/agent"))));
        let abstracted = [&family(libc::AF_UNIX)[..], b"\0name"].concat();
        for bytes in [&abstracted[..], &four[..6], &six[..12], &[], &[1]] {
            assert!(Peer::of(bytes).is_none(), "{bytes:?}");
        }
    }
}
