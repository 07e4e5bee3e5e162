//! URLs, read strictly: one reading, or none.
//!
//! Programs disagree about odd URLs, and such a disagreement is a hole: one part checks another host than
//! the other part calls. So everything that is not plain is refused: other schemes, credentials, addresses in
//! other forms than the usual one, names with characters that names don't have, fragments, backslashes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use http::uri::PathAndQuery;

/// Most characters of a URL.
const URL_CHARS: usize = 2_048;
/// Most characters of a name.
const HOST_CHARS: usize = 253;
/// Most characters of a part of a name.
const LABEL_CHARS: usize = 63;

/// Where a call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether the connection is encrypted.
    pub is_https: bool,
    /// The name or address.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// The path with its query.
    pub path: PathAndQuery,
}

/// The host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, in lower case.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Why a URL is not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// It is not a URL, or one with parts that calls don't have.
    #[error("expected an http or https URL, found {0}")]
    Form(&'static str),
    /// It says who calls.
    #[error("expected no user name or password in the URL")]
    Credentials,
    /// The host is written in a way that different programs read differently.
    #[error(
        "expected a host name, an IPv4 address as a.b.c.d or an IPv6 address in brackets, found {0:?}"
    )]
    Host(String),
}

impl Target {
    /// Reads a URL.
    pub fn parse(url: &str) -> Result<Self, InvalidUrl> {
        check_characters(url)?;
        let uri: Uri = url
            .parse()
            .map_err(|_| InvalidUrl::Form("something else"))?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(InvalidUrl::Form("another scheme")),
            None => return Err(InvalidUrl::Form("no scheme")),
        };
        let authority = uri.authority().ok_or(InvalidUrl::Form("no host"))?;
        if authority.as_str().contains('@') {
            return Err(InvalidUrl::Credentials);
        }
        let host = parse_host(authority.host())?;
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str() != authority.host() => {
                return Err(InvalidUrl::Form("a port that is no number"));
            }
            None if is_https => 443,
            None => 80,
        };
        if port == 0 {
            return Err(InvalidUrl::Form("port 0"));
        }
        let path = uri.path_and_query().cloned();
        Ok(Self {
            is_https,
            host,
            port,
            path: path.unwrap_or_else(|| PathAndQuery::from_static("/")),
        })
    }

    /// The value of the `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        let default = if self.is_https { 443 } else { 80 };
        if self.port == default {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Host {
    /// The address, where the URL has one.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::Address(address) => Some(*address),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn check_characters(url: &str) -> Result<(), InvalidUrl> {
    if url.len() > URL_CHARS {
        return Err(InvalidUrl::Form("more than 2048 characters"));
    }
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(InvalidUrl::Form("spaces or characters that are not ASCII"));
    }
    if url.contains(['\\', '#']) {
        return Err(InvalidUrl::Form("a backslash or a fragment"));
    }
    Ok(())
}

/// Reads a host as it is in a URL.
pub(crate) fn parse_host(text: &str) -> Result<Host, InvalidUrl> {
    let refused = || InvalidUrl::Host(text.to_owned());
    if let Some(inside) = text.strip_prefix('[') {
        let inside = inside.strip_suffix(']').ok_or_else(refused)?;
        let address: Ipv6Addr = inside.parse().map_err(|_| refused())?;
        return Ok(Host::Address(address.into()));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let plain = text.len() <= HOST_CHARS && text.split('.').all(is_label);
    // Everything that some program reads as an address ends in a number.
    if plain && !ends_in_number(text) {
        Ok(Host::Name(text.to_ascii_lowercase()))
    } else {
        Err(refused())
    }
}

fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !label.is_empty()
        && label.len() <= LABEL_CHARS
        && label.bytes().all(plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn ends_in_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
    let hex = last.strip_prefix("0x");
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_urls() {
        let cases = [
            ("http://example.com", "http example.com 80 /"),
            ("https://example.com", "https example.com 443 /"),
            (
                "https://Example.COM:8443/a/b?c=d",
                "https example.com:8443 8443 /a/b?c=d",
            ),
            ("http://example.com?x", "http example.com 80 /?x"),
            ("http://1.2.3.4:81/", "http 1.2.3.4:81 81 /"),
            ("http://[2001:DB8::1]/", "http [2001:db8::1] 80 /"),
            ("https://[::1]:8443/x", "https [::1]:8443 8443 /x"),
            (
                "http://a_b.xn--bcher-kva.example/",
                "http a_b.xn--bcher-kva.example 80 /",
            ),
            ("http://1a.2b/", "http 1a.2b 80 /"),
            ("http://localhost/", "http localhost 80 /"),
        ];
        for (url, expected) in cases {
            let target = Target::parse(url).unwrap();
            let scheme = if target.is_https { "https" } else { "http" };
            let (authority, port, path) = (target.authority(), target.port, &target.path);
            assert_eq!(
                format!("{scheme} {authority} {port} {path}"),
                expected,
                "{url}"
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let long = format!("http://example.com/{}", "a".repeat(URL_CHARS));
        let label = format!("http://{}.com/", "a".repeat(64));
        for url in [
            "",
            "/",
            "example.com",
            "//example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "gopher://example.com:70/_x",
            "ws://example.com/",
            "javascript:alert(1)",
            "data:text/plain,x",
            "unix:/var/run/docker.sock",
            "http:///",
            "http://:80/",
            "http:example.com",
            "http:/example.com",
            "http://user@example.com/",
            "http://user:password@example.com/",
            "http://example.com@127.0.0.1/",
            "http://example.com:80@127.0.0.1/",
            "http://127.0.0.1#@example.com/",
            "http://example.com#fragment",
            "http://example.com\\@127.0.0.1/",
            "http:\\\\127.0.0.1\\",
            "http://127.0.0.1\t/",
            "http://127.0.0.1\r\nX: y/",
            "http://exam ple.com/",
            " http://example.com/",
            "http://example.com/ ",
            "http://bücher.example/",
            "http://①②⑦.0.0.1/",
            "http://example.com:0/",
            "http://example.com:65536/",
            "http://example.com:port/",
            "http://example.com:/",
            "http://example..com/",
            "http://.example.com/",
            "http://example.com./",
            "http://-example.com/",
            "http://%6cocalhost/",
            "http://127.0.0.1%00.example.com/",
            "http://exa*mple.com/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://0x7f.0.0.1/",
            "http://127.1/",
            "http://127.0.1/",
            "http://0/",
            "http://00000177.1/",
            "http://127.0.0.1.0x1/",
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://example.1/",
            "http://[::1/",
            "http://[::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://[127.0.0.1]/",
            "http://[example.com]/",
            "http://[]/",
            "http://::1/",
            &long,
            &label,
        ] {
            assert!(
                Target::parse(url).is_err(),
                "{url:?}: {:?}",
                Target::parse(url)
            );
        }
    }
}
