//! The private targets that the owner of the server wants to be called all the same.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::address::{in_v4, in_v6};
use crate::target::{Host, parse_host};

/// What may be called although it is not on the internet: `outbound.allow` of the configuration.
///
/// An entry is a name (`hooks.corp`), a name with its port (`hooks.corp:8080`), an address (`10.1.2.3`,
/// `[fd00::1]:8080`), or a network (`10.1.0.0/16`). A name allows whatever it resolves to; an address or a network
/// allows those addresses, whatever name led there. An IPv4 network does not cover addresses that carry
/// one of its addresses inside IPv6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Host { host: Host, port: Option<u16> },
    Network { network: IpAddr, bits: u32 },
}

/// An entry that is none of the forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a host, host:port or a network such as 10.1.0.0/16, found {entry:?}")]
pub struct InvalidEntry {
    /// What was given.
    pub entry: String,
}

impl AllowList {
    /// Allows nothing private.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Reads entries.
    pub fn new<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Result<Self, InvalidEntry> {
        let entries = entries.into_iter().map(|entry| parse(entry.as_ref()));
        entries.collect::<Result<_, _>>().map(Self)
    }

    /// Decides whether an address may be called that this host was found at.
    #[must_use]
    pub fn allows(&self, host: &Host, address: SocketAddr) -> bool {
        self.0.iter().any(|entry| entry.allows(host, address))
    }
}

impl FromStr for AllowList {
    type Err = InvalidEntry;

    /// Reads entries with commas between them, as they are in the environment.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entries = text.split(',').map(str::trim);
        Self::new(entries.filter(|entry| !entry.is_empty()))
    }
}

impl Entry {
    fn allows(&self, host: &Host, address: SocketAddr) -> bool {
        match self {
            Self::Host { host: own, port } => {
                let found_there = own == host || own.address() == Some(address.ip());
                found_there && port.is_none_or(|port| port == address.port())
            }
            Self::Network { network, bits } => contains(*network, *bits, address.ip()),
        }
    }
}

fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => in_v4(address, network, bits),
        (IpAddr::V6(network), IpAddr::V6(address)) => in_v6(address, network, bits),
        _ => false,
    }
}

fn parse(entry: &str) -> Result<Entry, InvalidEntry> {
    let found = match entry.split_once('/') {
        Some((network, bits)) => network_entry(network, bits),
        None => host_entry(entry),
    };
    found.ok_or_else(|| InvalidEntry {
        entry: entry.to_owned(),
    })
}

fn network_entry(network: &str, bits: &str) -> Option<Entry> {
    let network: IpAddr = network.parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    let most = if network.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some(Entry::Network { network, bits })
}

fn host_entry(entry: &str) -> Option<Entry> {
    if let Ok(address) = entry.parse::<IpAddr>() {
        let (host, port) = (Host::Address(address), None);
        return Some(Entry::Host { host, port });
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) if !entry.ends_with(']') => (host, Some(port.parse().ok()?)),
        _ => (entry, None),
    };
    let host = parse_host(host).ok()?;
    Some(Entry::Host { host, port })
}

impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match entry {
                Entry::Host { host, port: None } => write!(f, "{comma}{host}")?,
                Entry::Host {
                    host,
                    port: Some(port),
                } => write!(f, "{comma}{host}:{port}")?,
                Entry::Network { network, bits } => write!(f, "{comma}{network}/{bits}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let cases = [
            // entry, host of the URL, address it was found at, allowed
            ("hooks.corp", "hooks.corp", "10.0.0.1:80", true),
            ("Hooks.Corp", "hooks.CORP", "10.0.0.1:80", true),
            ("hooks.corp", "hooks.corp.evil", "10.0.0.1:80", false),
            ("hooks.corp", "evil.hooks.corp", "10.0.0.1:80", false),
            ("hooks.corp:8080", "hooks.corp", "10.0.0.1:8080", true),
            ("hooks.corp:8080", "hooks.corp", "10.0.0.1:80", false),
            ("10.1.2.3", "10.1.2.3", "10.1.2.3:80", true),
            ("10.1.2.3", "anything.test", "10.1.2.3:80", true),
            ("10.1.2.3", "10.1.2.4", "10.1.2.4:80", false),
            ("10.1.2.3:81", "10.1.2.3", "10.1.2.3:81", true),
            ("10.1.2.3:81", "10.1.2.3", "10.1.2.3:80", false),
            ("10.1.0.0/16", "x.test", "10.1.255.255:1", true),
            ("10.1.0.0/16", "x.test", "10.2.0.0:1", false),
            ("10.1.0.0/16", "x.test", "[::ffff:10.1.0.1]:1", false),
            ("0.0.0.0/0", "x.test", "127.0.0.1:1", true),
            ("0.0.0.0/0", "x.test", "[::1]:1", false),
            ("fd00::/8", "x.test", "[fd12::1]:1", true),
            ("::/0", "x.test", "[::1]:1", true),
            ("fd00::1", "[fd00::1]", "[fd00::1]:1", true),
            ("[fd00::1]", "[fd00::1]", "[fd00::1]:1", true),
            ("[fd00::1]:81", "[fd00::1]", "[fd00::1]:81", true),
            ("[fd00::1]:81", "[fd00::1]", "[fd00::1]:80", false),
            ("localhost", "localhost", "127.0.0.1:1", true),
            ("localhost", "127.0.0.1", "127.0.0.1:1", false),
        ];
        for (entry, host, address, allowed) in cases {
            let list = AllowList::new([entry]).unwrap();
            let host = parse_host(host).unwrap();
            let found = list.allows(&host, address.parse().unwrap());
            assert_eq!(found, allowed, "{entry} for {host} at {address}");
            assert!(!AllowList::none().allows(&host, address.parse().unwrap()));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for entry in [
            "",
            "a b",
            "*",
            "*.corp",
            "http://corp",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0/8",
            "0x7f.1",
            "corp:99999",
            "corp:",
            "corp/8",
            "user@corp",
        ] {
            assert!(AllowList::new([entry]).is_err(), "{entry}");
        }
    }

    #[test]
    fn the_environment_has_commas() {
        let list: AllowList = "a.corp, 10.0.0.0/8,,[fd00::1]:81,".parse().unwrap();
        assert_eq!(list.to_string(), "a.corp,10.0.0.0/8,[fd00::1]:81");
    }
}
