//! Patterns of URLs: scheme, host, port and path, each matched by itself.
//!
//! The host is compared without case and trailing dot; `*.example.com` is every name below it. A pattern without a port
//! means the scheme's own. The path is matched like a file's; a query is covered only where the pattern ends with a star
//! or has that very query. A URL that is not plainly written is not understood.

use crate::fault::Unreadable;
use crate::glob::Glob;
use crate::path::{PathPattern, parts_match};
use crate::pattern::Hit;

const EXPECTED: &str = "a URL such as `https://example.com/**`";

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct UrlPattern {
    scheme: String,
    host: String,
    port: Option<u16>,
    path: PathPattern,
    ends_with_slash: bool,
    query: Query,
    whole: Glob,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Query {
    Any,
    Exactly(Option<String>),
}

struct Url {
    scheme: String,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
}

impl UrlPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        let unreadable = || Unreadable::new(EXPECTED, text);
        let url = parse(text, true).ok_or_else(unreadable)?;
        let host = url.host.strip_prefix("*.").unwrap_or(&url.host);
        if host.contains('*') && host != "*" {
            return Err(Unreadable::new("a host, `*`, or `*.` and a host", text));
        }
        let path = match &*url.path {
            "" => "/",
            path => path,
        };
        Ok(Self {
            query: match (&url.query, path.ends_with('*')) {
                (None, true) => Query::Any,
                _ => Query::Exactly(url.query),
            },
            ends_with_slash: path.ends_with('/'),
            path: PathPattern::parse(path)?,
            whole: Glob::parse(text)?,
            scheme: url.scheme,
            host: url.host,
            port: url.port,
        })
    }

    /// Whether it certainly covers a URL.
    pub(crate) fn covers(&self, text: &str) -> bool {
        parse(text, false).is_some_and(|url| {
            let query = match &self.query {
                Query::Any => true,
                Query::Exactly(query) => *query == url.query,
            };
            url.scheme == self.scheme
                && url.port == self.port
                && query
                && self.covers_host(&url.host)
                && self.covers_path(&url.path, false)
        })
    }

    /// Whether it meets a URL: whatever the scheme and the port.
    pub(crate) fn meets(&self, text: &str) -> Hit {
        if self.whole.matches_widely(text) {
            return Hit::Yes;
        }
        match parse(text, false) {
            None => Hit::Maybe,
            Some(url) if self.covers_host(&url.host) && self.covers_path(&url.path, true) => {
                Hit::Yes
            }
            // There are many ways to write an address.
            Some(url) if url.host.ends_with(|c: char| c.is_ascii_digit() || c == ']') => Hit::Maybe,
            Some(_) => Hit::No,
        }
    }

    fn covers_host(&self, host: &str) -> bool {
        match self.host.strip_prefix('*') {
            Some("") => true,
            Some(below) => host.len() > below.len() && host.ends_with(below),
            None => self.host == host,
        }
    }

    fn covers_path(&self, path: &str, wide: bool) -> bool {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        // `/**` covers the root, which has no part that it could stand for.
        let is_root = names.is_empty() && !self.ends_with_slash && self.query == Query::Any;
        let slash = wide
            || self.query == Query::Any
            || path.is_empty()
            || path.ends_with('/') == self.ends_with_slash;
        (parts_match(&self.path, &names, wide) && slash)
            || (is_root && parts_match(&self.path, &["x"], wide))
    }
}

/// Takes a plainly written URL apart. Patterns may have stars.
fn parse(text: &str, is_pattern: bool) -> Option<Url> {
    let odd =
        |c: char| !c.is_ascii_graphic() || "\\\"<>^`{|}".contains(c) || (c == '*' && !is_pattern);
    if text.contains(odd) {
        return None;
    }
    let text = text.split('#').next()?;
    let (scheme, rest) = text.split_once("://")?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query.to_owned())),
        None => (rest, None),
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let lower = path.to_ascii_lowercase();
    let hides = ["%2e", "%2f", "%5c", "%00", "//", ";"]
        .iter()
        .any(|code| lower.contains(code));
    if hides || path.split('/').any(|name| matches!(name, "." | "..")) {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    let (host, port) = authority_parts(authority, is_pattern)?;
    let default = match &*scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    };
    let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric());
    is_scheme.then(|| Url {
        port: port.or(default),
        scheme,
        host,
        path: path.to_owned(),
        query,
    })
}

/// The host in its one spelling, and the port.
fn authority_parts(authority: &str, is_pattern: bool) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let digits = port.chars().all(|c| c.is_ascii_digit());
            (host, Some(port.parse().ok().filter(|_| digits)?))
        }
        _ => (authority, None),
    };
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let is_name =
        |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || (is_pattern && c == '*');
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let valid = match inside {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty() && host.chars().all(is_name) && !host.split('.').any(str::is_empty)
        }
    };
    valid.then(|| (host.to_owned(), port))
}
