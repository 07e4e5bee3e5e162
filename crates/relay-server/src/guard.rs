//! What keeps browsers out: a foreign `Host` or `Origin`, a form, a credential in a URL.
//!
//! These rules hold for every request, before its route is looked for. A page of somebody else's can make
//! a browser send requests to this machine; it can choose neither the `Host` (other than by a name of its
//! own that leads here) nor the `Origin`, and without asking first it can send only forms.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use relay_protocol::problem::{ErrorCode, Problem};

/// Names and pages that are the server's own.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    listens_on: IpAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Home {
    pub(crate) fn new(listens_on: IpAddr, hosts: &[String], origins: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self {
            listens_on,
            hosts: lower(hosts),
            origins: lower(origins),
        }
    }

    /// The same for connections that only this process can make.
    pub(crate) fn of_process(&self) -> Self {
        Self {
            listens_on: IpAddr::V4(Ipv4Addr::LOCALHOST),
            ..self.clone()
        }
    }

    /// Whether only this machine can call.
    pub(crate) const fn is_loopback(&self) -> bool {
        self.listens_on.is_loopback()
    }

    /// Whether a name leads here: names that others can give to this address do not.
    fn is_own_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        if self.hosts.contains(&host) {
            return true;
        }
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        match address {
            Some(address) if self.listens_on.is_loopback() => address.is_loopback(),
            Some(address) if self.listens_on.is_unspecified() => !address.is_unspecified(),
            Some(address) => address == self.listens_on,
            None => {
                host == "localhost"
                    && (self.listens_on.is_loopback() || self.listens_on.is_unspecified())
            }
        }
    }
}

/// Checks a request's head.
pub(crate) fn check(
    home: &Home,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    takes_any_body: bool,
) -> Result<(), Box<Problem>> {
    let host = check_host(home, uri, headers)?;
    check_origin(home, &host, headers)?;
    check_url(uri)?;
    if takes_any_body {
        check_not_a_form(headers)
    } else {
        check_json(method, headers)
    }
}

fn foreign(header: &str, expected: &str, found: &str) -> Box<Problem> {
    let detail = format!("{header}: expected {expected}, found {found:?}");
    Box::new(Problem {
        path: Some(header.to_owned()),
        expected: Some(expected.to_owned()),
        found: Some(found.to_owned()),
        ..Problem::new(ErrorCode::ForeignOrigin, detail)
    })
}

/// The only value of a header; none if it is not there.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Box<Problem>> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    match (first, second) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(foreign(name.as_str(), "printable text", "other bytes")),
        },
        _ => Err(foreign(name.as_str(), "one value", "several")),
    }
}

fn check_host(home: &Home, uri: &Uri, headers: &HeaderMap) -> Result<String, Box<Problem>> {
    const EXPECTED: &str = "a name of this server (see `allowed_hosts`)";
    let host = only(headers, &HOST)?.unwrap_or_default();
    let named = [Some(host), uri.authority().map(Authority::as_str)];
    for name in named.into_iter().flatten() {
        let own = name
            .parse::<Authority>()
            .is_ok_and(|authority| !name.contains('@') && home.is_own_host(authority.host()));
        if !own {
            return Err(foreign("Host", EXPECTED, name));
        }
    }
    Ok(host.to_ascii_lowercase())
}

fn check_origin(home: &Home, host: &str, headers: &HeaderMap) -> Result<(), Box<Problem>> {
    const EXPECTED: &str = "a page of this server (see `allowed_origins`), or no page at all";
    let Some(origin) = only(headers, &ORIGIN)? else {
        return Ok(());
    };
    let lower = origin.to_ascii_lowercase();
    let same = ["http://", "https://"]
        .iter()
        .any(|scheme| lower.strip_prefix(scheme) == Some(host));
    if same || home.origins.contains(&lower) {
        Ok(())
    } else {
        Err(foreign("Origin", EXPECTED, origin))
    }
}

/// Parameters by which people try to hand over a credential.
const SECRET_PARAMETERS: &[&str] = &[
    "token",
    "access_token",
    "auth",
    "authorization",
    "api_key",
    "apikey",
    "key",
    "bearer",
];

/// How credentials begin.
const SECRET_PREFIXES: &[&str] = &["ak_", "rk_", "at_", "ot_", "st_", "wh_", "whsec_"];

/// Characters that a credential has at least, after its prefix.
const SECRET_CHARS: usize = 32;

fn check_url(uri: &Uri) -> Result<(), Box<Problem>> {
    let in_query = uri.query().unwrap_or_default().split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name).to_ascii_lowercase();
        SECRET_PARAMETERS.contains(&name.as_str()) || is_secret(value) || is_secret(&name)
    });
    if in_query || uri.path().split('/').any(is_secret) {
        let detail = "a credential does not belong into a URL, where logs and histories keep it; \
                      send it in the header `Authorization: Bearer`, and replace this one";
        return Err(Box::new(Problem::new(ErrorCode::TokenInUrl, detail)));
    }
    Ok(())
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn is_secret(text: &str) -> bool {
    let text = decoded(text);
    SECRET_PREFIXES.iter().any(|prefix| {
        text.trim().strip_prefix(prefix).is_some_and(|rest| {
            rest.len() >= SECRET_CHARS
                && rest
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        })
    })
}

fn media_type(headers: &HeaderMap) -> Result<Option<String>, Box<Problem>> {
    let value = only(headers, &CONTENT_TYPE).map_err(|_| not_json("several"))?;
    let essence = value.map(|text| text.split(';').next().unwrap_or_default().trim());
    Ok(essence.map(str::to_ascii_lowercase))
}

fn not_json(found: &str) -> Box<Problem> {
    let expected = "application/json";
    Box::new(Problem {
        path: Some("Content-Type".to_owned()),
        expected: Some(expected.to_owned()),
        found: Some(found.to_owned()),
        ..Problem::new(
            ErrorCode::UnsupportedMediaType,
            format!("Content-Type: expected {expected}, found {found:?}"),
        )
    })
}

/// A body is JSON. Without a body nothing needs to be said about it.
fn check_json(method: &Method, headers: &HeaderMap) -> Result<(), Box<Problem>> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let has_body = headers.contains_key(axum::http::header::TRANSFER_ENCODING)
        || headers
            .get(axum::http::header::CONTENT_LENGTH)
            .is_some_and(|length| length != "0");
    match media_type(headers)?.as_deref() {
        Some("application/json") => Ok(()),
        None if !has_body => Ok(()),
        found => Err(not_json(found.unwrap_or("none"))),
    }
}

/// What a page can post without asking first is no upload.
fn check_not_a_form(headers: &HeaderMap) -> Result<(), Box<Problem>> {
    match media_type(headers)?.as_deref() {
        Some("application/x-www-form-urlencoded" | "multipart/form-data") => {
            Err(not_json("a form"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
