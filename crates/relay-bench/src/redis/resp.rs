//! The protocol of Redis, version 2: commands as lists of strings, replies of five kinds.

use anyhow::{Result, bail};

/// What Redis answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    /// A string, or that there is none.
    Bulk(Option<Vec<u8>>),
    /// A list, or that there is none.
    List(Option<Vec<Reply>>),
}

/// Puts a command to the bytes that are written next.
pub(crate) fn put_command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    use std::io::Write as _;
    // Writing to memory does not fail.
    let _ = write!(out, "*{}\r\n", arguments.len());
    for argument in arguments {
        let _ = write!(out, "${}\r\n", argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first reply of these bytes and how many it takes, if all of it is there.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n") else {
        return Ok(None);
    };
    let (Some(kind), line) = (bytes.first(), bytes.get(1..end).unwrap_or_default()) else {
        return Ok(None);
    };
    let text = || String::from_utf8_lossy(line).into_owned();
    let after = end + 2;
    let reply = match kind {
        b'+' => Reply::Status(text()),
        b'-' => Reply::Error(text()),
        b':' => Reply::Integer(number(line)?),
        b'$' => return parse_bulk(bytes, after, number(line)?),
        b'*' => return parse_list(bytes, after, number(line)?),
        other => bail!("a reply of Redis can't begin with {:?}", *other as char),
    };
    Ok(Some((reply, after)))
}

fn number(line: &[u8]) -> Result<i64> {
    Ok(std::str::from_utf8(line)?.parse()?)
}

fn parse_bulk(bytes: &[u8], from: usize, length: i64) -> Result<Option<(Reply, usize)>> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Some((Reply::Bulk(None), from)));
    };
    let after = from + length + 2;
    let content = bytes.get(from..after).map(|content| &content[..length]);
    Ok(content.map(|content| (Reply::Bulk(Some(content.to_vec())), after)))
}

fn parse_list(bytes: &[u8], from: usize, length: i64) -> Result<Option<(Reply, usize)>> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Some((Reply::List(None), from)));
    };
    let (mut items, mut at) = (Vec::with_capacity(length.min(64)), from);
    for _ in 0..length {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some((item, taken)) = parse(rest)? else {
            return Ok(None);
        };
        items.push(item);
        at += taken;
    }
    Ok(Some((Reply::List(Some(items)), at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(Some(text.as_bytes().to_vec()))
    }

    #[test]
    fn commands_are_lists_of_strings() {
        let mut out = Vec::new();
        put_command(&mut out, &[b"SET", b"key", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_read_once_they_are_whole() {
        let cases = [
            ("+OK\r\n", Reply::Status("OK".to_owned())),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            (":-12\r\n", Reply::Integer(-12)),
            ("$5\r\na\r\nbc\r\n", bulk("a\r\nbc")),
            ("$0\r\n\r\n", bulk("")),
            ("$-1\r\n", Reply::Bulk(None)),
            ("*-1\r\n", Reply::List(None)),
            ("*0\r\n", Reply::List(Some(vec![]))),
            (
                "*2\r\n*1\r\n$1\r\na\r\n:3\r\n",
                Reply::List(Some(vec![
                    Reply::List(Some(vec![bulk("a")])),
                    Reply::Integer(3),
                ])),
            ),
        ];
        for (text, expected) in cases {
            let bytes = text.as_bytes();
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end]).unwrap(), None, "{text:?} to {end}");
            }
            let more = [bytes, b"+next"].concat();
            assert_eq!(
                parse(&more).unwrap(),
                Some((expected, bytes.len())),
                "{text:?}"
            );
        }
        assert!(parse(b"?\r\n").is_err());
        assert!(parse(b":x\r\n").is_err());
    }
}
