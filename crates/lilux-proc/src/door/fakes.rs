//! Fake addresses: within a run, each stands for one name.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// 198.18.0.0/15 is set aside for measurements and is routed nowhere.
const FIRST: u32 = Ipv4Addr::new(198, 18, 0, 0).to_bits();
const COUNT: u32 = 1 << 17;
/// Names of one run; a pattern with a star allows any number of them.
const MAX_NAMES: usize = 4096;

/// It may stand for a name.
pub fn is_fake(address: Ipv4Addr) -> bool {
    (FIRST..FIRST + COUNT).contains(&address.to_bits())
}

/// Where the next address is taken from. It goes round over all runs, so that an address that somebody has kept from an
/// earlier run stands for nothing, rather than for another name.
#[derive(Default)]
pub struct Cursor {
    next: u32,
}

impl Cursor {
    fn take(&mut self) -> Ipv4Addr {
        self.next = (self.next + 1) % COUNT;
        Ipv4Addr::from_bits(FIRST + self.next)
    }
}

/// The names of a run that have been asked for, and their addresses.
#[derive(Default)]
pub struct Fakes {
    names: HashMap<Ipv4Addr, String>,
    addresses: HashMap<String, Ipv4Addr>,
}

impl Fakes {
    /// The address that stands for this name from now on; `None` when there are too many.
    pub fn address_of(&mut self, name: &str, cursor: &mut Cursor) -> Option<Ipv4Addr> {
        if let Some(address) = self.addresses.get(name) {
            return Some(*address);
        }
        if self.addresses.len() >= MAX_NAMES {
            return None;
        }
        let mut address = cursor.take();
        while self.names.contains_key(&address) || matches!(address.octets()[3], 0 | 255) {
            address = cursor.take();
        }
        self.names.insert(address, name.to_owned());
        self.addresses.insert(name.to_owned(), address);
        Some(address)
    }

    /// The name that an address stands for.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<&str> {
        self.names.get(&address).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_address_and_each_run_others() {
        let (mut cursor, mut first, mut second) = (Cursor::default(), Fakes::default(), Fakes::default());
        let a = first.address_of("a.example", &mut cursor).expect("an address");
        let b = first.address_of("b.example", &mut cursor).expect("an address");
        assert_ne!(a, b);
        assert_eq!(first.address_of("a.example", &mut cursor), Some(a));
        assert_eq!(first.name_of(b), Some("b.example"));
        let other = second.address_of("c.example", &mut cursor).expect("an address");
        assert_eq!(first.name_of(other), None);
        assert_eq!(second.name_of(a), None);
    }

    #[test]
    fn there_is_an_end_to_names_and_every_address_is_in_its_network() {
        let (mut cursor, mut fakes) = (Cursor { next: COUNT - 10 }, Fakes::default());
        for number in 0..MAX_NAMES {
            let address = fakes.address_of(&format!("{number}.example"), &mut cursor).expect("an address");
            let [a, b, _, last] = address.octets();
            assert!(a == 198 && (b == 18 || b == 19) && last != 0 && last != 255, "{address}");
        }
        assert_eq!(fakes.address_of("one.more", &mut cursor), None);
        assert!(fakes.address_of("7.example", &mut cursor).is_some());
    }
}
