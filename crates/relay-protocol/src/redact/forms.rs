//! The forms a registered value may take in text: as it is, escaped, percent-encoded, in base64.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// Adds all forms of a value; some may be the same.
pub(super) fn add_forms(forms: &mut Vec<String>, value: &str) {
    forms.push(value.to_owned());
    let json = serde_json::Value::from(value).to_string();
    let json = json
        .trim_start_matches('"')
        .strip_suffix('"')
        .unwrap_or_default()
        .to_owned();
    forms.push(json.replace('/', "\\/"));
    forms.push(json);
    for kept in ["-_.~", "-_.~/", "-_.!~*'()"] {
        let encoded = percent_encode(value, kept);
        for form in [lower_hex(&encoded), encoded] {
            forms.push(form.replace("%20", "+"));
            forms.push(form);
        }
    }
    add_base64(forms, value.as_bytes());
}

/// Adds the base64 of a value at each of the three places it can have in a longer text, without the
/// characters at the edges, which depend on what surrounds it.
fn add_base64(forms: &mut Vec<String>, value: &[u8]) {
    for before in 0..3 {
        let mut padded = vec![0; before];
        padded.extend_from_slice(value);
        let skipped = (before * 8).div_ceil(6);
        let whole = padded.len() * 8 / 6;
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&padded);
            let last = if before == 0 { encoded.len() } else { whole };
            forms.push(encoded[skipped..last].to_owned());
            forms.push(encoded[skipped..whole].to_owned());
        }
    }
}

fn percent_encode(value: &str, kept: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn lower_hex(encoded: &str) -> String {
    let mut out = String::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some(at) = rest.find('%') {
        let after = (at + 3).min(rest.len());
        out.push_str(&rest[..at]);
        out.push_str(&rest[at..after].to_ascii_lowercase());
        rest = &rest[after..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_all_its_forms() {
        let mut forms = Vec::new();
        add_forms(&mut forms, "pa\"ss wörd/1");
        for expected in [
            "pa\"ss wörd/1",
            "pa\\\"ss wörd/1",
            "pa%22ss%20w%C3%B6rd%2F1",
            "pa%22ss+w%c3%b6rd/1",
            "cGEic3Mgd8O2cmQvMQ",
        ] {
            assert!(
                forms.iter().any(|form| form == expected),
                "{expected} in {forms:?}"
            );
        }
    }
}
