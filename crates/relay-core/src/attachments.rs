//! Attachments: what content is taken, decided by the content and not by its label.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use relay_protocol::api::messages::{AttachmentStored, NewAttachment};
use relay_protocol::ids::AttachmentId;
use relay_protocol::limits::{
    ATTACHMENT_BYTES, ATTACHMENTS_PER_MESSAGE, FILE_NAME_CHARS, INLINE_ATTACHMENT_BYTES,
    MEDIA_TYPE_BYTES,
};
use relay_protocol::message::AttachmentKind;

use crate::caller::Caller;
use crate::engine::{Engine, within};
use crate::error::{Error, Result};
use crate::store::requests::NewContent;
use crate::store::{AttachmentContent, NewAttachmentRow};

/// Content to upload.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Its media type, such as `image/png` or `text/plain`.
    pub media_type: String,
    /// A file name.
    pub name: Option<String>,
    /// The content.
    pub data: Vec<u8>,
}

impl Engine {
    /// Stores content for messages to refer to. Uploads that no message uses go after a day.
    pub async fn upload(&self, caller: &Caller, upload: Upload) -> Result<AttachmentStored> {
        if upload.data.len() > ATTACHMENT_BYTES {
            return Err(too_large(ATTACHMENT_BYTES, upload.data.len()));
        }
        let kind = kind_of(&upload.media_type)?;
        let mut row = self.attachment_row(caller, kind, upload)?;
        let policy = self.current(caller)?.policy.messages.redact;
        self.redact_attachment(policy, &mut row)?;
        let stored = AttachmentStored {
            attachment_id: row.id,
            kind,
            media_type: row.media_type.clone(),
            size: row.data.len() as u64,
        };
        self.store.store_attachment(row).await?;
        Ok(stored)
    }

    /// Stored content, for those who can see it.
    pub async fn attachment(&self, caller: &Caller, id: AttachmentId) -> Result<AttachmentContent> {
        self.store.attachment(caller.reader()?, id).await
    }

    /// Checks what a send brings.
    pub(crate) fn contents(
        &self,
        caller: &Caller,
        given: Option<Vec<NewAttachment>>,
    ) -> Result<Vec<NewContent>> {
        let given = given.unwrap_or_default();
        within("attachments", ATTACHMENTS_PER_MESSAGE, given.len())?;
        given
            .into_iter()
            .enumerate()
            .map(|(index, attachment)| {
                let content = self.content(caller, attachment);
                content.map_err(|error| at_index(error, index))
            })
            .collect()
    }

    fn content(&self, caller: &Caller, given: NewAttachment) -> Result<NewContent> {
        let NewAttachment {
            attachment_id,
            kind,
            media_type,
            name,
            data,
        } = given;
        match (attachment_id, kind, media_type, data) {
            (Some(id), None, None, None) if name.is_none() => Ok(NewContent::Uploaded(id)),
            (None, Some(kind), Some(media_type), Some(data)) => {
                let data = decode(&data)?;
                let upload = Upload {
                    media_type,
                    name,
                    data,
                };
                self.attachment_row(caller, kind, upload)
                    .map(NewContent::Inline)
            }
            _ => Err(Error::BadAttachment {
                index: None,
                expected: "attachmentId alone, or type, mediaType and data".to_owned(),
                found: "another set of fields".to_owned(),
            }),
        }
    }

    fn attachment_row(
        &self,
        caller: &Caller,
        kind: AttachmentKind,
        upload: Upload,
    ) -> Result<NewAttachmentRow> {
        let Upload {
            media_type,
            name,
            data,
        } = upload;
        check_content(kind, &media_type, &data)?;
        check_file_name(name.as_deref())?;
        let viewer = caller.viewer()?;
        let at = self.now();
        let id = AttachmentId::new(at, self.bits());
        Ok(NewAttachmentRow {
            workspace_no: viewer.workspace_no,
            id,
            owner: viewer.agent,
            kind,
            media_type,
            name,
            data,
            at,
            keep: false,
        })
    }
}

/// Says which attachment of a message can't be taken.
fn at_index(error: Error, at: usize) -> Error {
    match error {
        Error::BadAttachment {
            expected, found, ..
        } => Error::BadAttachment {
            index: Some(at),
            expected,
            found,
        },
        error => error,
    }
}

fn decode(data: &str) -> Result<Vec<u8>> {
    // Four characters carry three bytes: the size is known before anything is decoded.
    if data.len() / 4 * 3 > INLINE_ATTACHMENT_BYTES + 2 {
        return Err(too_large(INLINE_ATTACHMENT_BYTES, data.len() / 4 * 3));
    }
    let bytes = STANDARD
        .decode(data)
        .map_err(|error| Error::BadAttachment {
            index: None,
            expected: "data as standard base64".to_owned(),
            found: error.to_string(),
        })?;
    if bytes.len() > INLINE_ATTACHMENT_BYTES {
        return Err(too_large(INLINE_ATTACHMENT_BYTES, bytes.len()));
    }
    Ok(bytes)
}

fn too_large(most: usize, found: usize) -> Error {
    let hint = if most == INLINE_ATTACHMENT_BYTES {
        " inline (upload larger ones first)"
    } else {
        ""
    };
    Error::BadAttachment {
        index: None,
        expected: format!("at most {most} bytes{hint}"),
        found: format!("{found} bytes"),
    }
}

/// The kind that a media type stands for.
fn kind_of(media_type: &str) -> Result<AttachmentKind> {
    within("mediaType", MEDIA_TYPE_BYTES, media_type.len())?;
    let is_printable = media_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_printable {
        return Err(Error::BadAttachment {
            index: None,
            expected: "a media type of printable characters".to_owned(),
            found: format!("{media_type:?}"),
        });
    }
    if IMAGES.iter().any(|(name, _)| *name == media_type) {
        Ok(AttachmentKind::Image)
    } else if is_textual(media_type) {
        Ok(AttachmentKind::Text)
    } else {
        Err(Error::BadAttachment {
            index: None,
            expected: "text/*, application/json and its like, image/png, jpeg, gif or webp"
                .to_owned(),
            found: media_type.to_owned(),
        })
    }
}

/// Tells whether content begins as its media type says.
type Begins = fn(&[u8]) -> bool;

/// The pictures that models can see, and how each begins.
const IMAGES: &[(&str, Begins)] = &[
    ("image/png", |data| data.starts_with(b"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", |data| data.starts_with(b"\xff\xd8\xff")),
    ("image/gif", |data| {
        data.starts_with(b"GIF87a") || data.starts_with(b"GIF89a")
    }),
    ("image/webp", |data| {
        data.starts_with(b"RIFF") && data.get(8..12) == Some(b"WEBP")
    }),
];

fn is_textual(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence
        .strip_prefix("text/")
        .is_some_and(|subtype| !subtype.is_empty())
        || matches!(
            essence,
            "application/json"
                | "application/xml"
                | "application/toml"
                | "application/yaml"
                | "application/javascript"
                | "application/x-ndjson"
        )
        || essence.starts_with("application/")
            && (essence.ends_with("+json") || essence.ends_with("+xml"))
}

/// Checks that content is what it claims to be.
fn check_content(kind: AttachmentKind, media_type: &str, data: &[u8]) -> Result<()> {
    if kind_of(media_type)? != kind {
        return Err(Error::BadAttachment {
            index: None,
            expected: format!("a media type of the kind {kind}"),
            found: media_type.to_owned(),
        });
    }
    let is_true = match IMAGES.iter().find(|(name, _)| *name == media_type) {
        Some((_, begins_right)) => begins_right(data),
        None => std::str::from_utf8(data).is_ok_and(|text| !text.contains('\0')),
    };
    if is_true {
        return Ok(());
    }
    let expected = match kind {
        AttachmentKind::Image => format!("the content of {media_type}"),
        AttachmentKind::Text => "UTF-8 text without NUL characters".to_owned(),
    };
    Err(Error::BadAttachment {
        index: None,
        expected,
        found: "other content".to_owned(),
    })
}

fn check_file_name(name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    within("attachment name", FILE_NAME_CHARS, name.chars().count())?;
    if name.is_empty()
        || name
            .chars()
            .any(|c| c.is_control() || matches!(c, '/' | '\\'))
    {
        return Err(Error::BadAttachment {
            index: None,
            expected: "a file name without slashes and control characters".to_owned(),
            found: format!("{name:?}"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        use AttachmentKind::{Image, Text};
        let png = b"\x89PNG\r\n\x1a\n....";
        let cases: [(AttachmentKind, &str, &[u8], bool); 12] = [
            (Image, "image/png", png, true),
            (Image, "image/jpeg", png, false),
            (Image, "image/webp", b"RIFF....WEBPVP8 ", true),
            (Image, "image/gif", b"GIF89a", true),
            (Image, "image/svg+xml", b"<svg/>", false),
            (Image, "image/png", b"", false),
            (Text, "text/plain", b"hello", true),
            (Text, "text/plain; charset=utf-8", "grüß".as_bytes(), true),
            (Text, "application/json", b"{}", true),
            (Text, "text/plain", b"a\0b", false),
            (Text, "text/plain", b"\xff\xfe", false),
            (Text, "application/octet-stream", b"x", false),
        ];
        for (kind, media_type, data, expected) in cases {
            let found = check_content(kind, media_type, data).is_ok();
            assert_eq!(found, expected, "{kind} {media_type} {data:?}");
        }
    }

    #[test]
    fn file_names() {
        for good in ["a.txt", "Bild 1.png"] {
            assert!(check_file_name(Some(good)).is_ok(), "{good}");
        }
        for bad in ["", "../x", "a\\b", "a\nb", &"x".repeat(256)] {
            assert!(check_file_name(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn inline_content_is_small() {
        let most = STANDARD.encode(vec![b'x'; INLINE_ATTACHMENT_BYTES]);
        assert_eq!(decode(&most).unwrap().len(), INLINE_ATTACHMENT_BYTES);
        let more = STANDARD.encode(vec![b'x'; INLINE_ATTACHMENT_BYTES + 1]);
        assert!(decode(&more).is_err());
        assert!(decode("not base64!").is_err());
    }
}
