//! Which real addresses a run may reach by name: public ones only.
//!
//! The same rules as `lilux._http.address`; `tests/assets/addresses.json` holds cases that both sides are tested with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32) -> (u32, u32) {
    (Ipv4Addr::new(a, b, c, d).to_bits(), bits)
}

const fn v6(high: [u16; 4], low: [u16; 4], bits: u32) -> (u128, u32) {
    let address = Ipv6Addr::new(high[0], high[1], high[2], high[3], low[0], low[1], low[2], low[3]).to_bits();
    (address, bits)
}

const NONE: [u16; 4] = [0; 4];

const REFUSED_V4: &[((u32, u32), &str)] = &[
    (v4(0, 0, 0, 0, 8), "unspecified"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "carrier-grade NAT"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(168, 63, 129, 16, 32), "a service of the cloud that hosts this machine"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "reserved"),
    (v4(192, 0, 2, 0, 24), "reserved"),
    (v4(192, 88, 99, 0, 24), "reserved"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "reserved"),
    (v4(198, 51, 100, 0, 24), "reserved"),
    (v4(203, 0, 113, 0, 24), "reserved"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// In the order in which they are tried: a narrow network stands before the wide one that holds it.
const REFUSED_V6: &[((u128, u32), &str)] = &[
    (v6(NONE, NONE, 128), "unspecified"),
    (v6(NONE, [0, 0, 0, 1], 128), "loopback"),
    (v6(NONE, [0, 0xffff, 0, 0], 96), "an IPv4-mapped address"),
    (v6(NONE, [0xffff, 0, 0, 0], 96), "an IPv4-translated address"),
    (v6(NONE, NONE, 96), "an IPv4-compatible address"),
    (v6([0x64, 0xff9b, 0, 0], NONE, 96), "an IPv4 address behind NAT64"),
    (v6([0x64, 0xff9b, 1, 0], NONE, 48), "an IPv4 address behind NAT64"),
    (v6([0x2001, 0, 0, 0], NONE, 32), "an IPv4 address behind Teredo"),
    (v6([0x2001, 0, 0, 0], NONE, 23), "reserved"),
    (v6([0x2001, 0xdb8, 0, 0], NONE, 32), "reserved"),
    (v6([0x2002, 0, 0, 0], NONE, 16), "an IPv4 address behind 6to4"),
    (v6([0x3fff, 0, 0, 0], NONE, 20), "reserved"),
    (v6([0xfc00, 0, 0, 0], NONE, 7), "private"),
    (v6([0xfe80, 0, 0, 0], NONE, 10), "link-local"),
    (v6([0xfec0, 0, 0, 0], NONE, 10), "private"),
    (v6([0xff00, 0, 0, 0], NONE, 8), "multicast"),
];

const GLOBAL_UNICAST: (u128, u32) = v6([0x2000, 0, 0, 0], NONE, 3);

/// Why an address is refused; `None` when it is public.
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            first(REFUSED_V4, |(network, bits)| (address.to_bits() ^ network) >> (32 - bits) == 0)
        }
        IpAddr::V6(address) => first(REFUSED_V6, |network| holds(network, address))
            .or_else(|| (!holds(GLOBAL_UNICAST, address)).then_some("reserved")),
    }
}

fn first<N: Copy>(table: &[(N, &'static str)], holds: impl Fn(N) -> bool) -> Option<&'static str> {
    table.iter().find(|(network, _)| holds(*network)).map(|(_, why)| *why)
}

fn holds((network, bits): (u128, u32), address: Ipv6Addr) -> bool {
    (address.to_bits() ^ network) >> (128 - bits) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_refuse_the_same_addresses() {
        let text = include_str!("../../../../tests/assets/addresses.json");
        let cases: Vec<(String, Option<String>)> = serde_json::from_str(text).expect("the table of cases");
        assert!(cases.len() > 60);
        for (address, why) in cases {
            let parsed = address.parse().expect("an address");
            assert_eq!(refusal(parsed), why.as_deref(), "{address}");
        }
    }
}
