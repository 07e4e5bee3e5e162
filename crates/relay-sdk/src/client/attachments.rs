//! Content beside the text of messages.

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use relay_protocol::api::messages::AttachmentStored;
use relay_protocol::ids::AttachmentId;
use serde::Serialize;

use super::Client;
use crate::error::{Error, Result};
use crate::http::{Call, with_query};

/// Stored content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// Its media type.
    pub media_type: String,
    /// The content.
    pub data: Bytes,
}

#[derive(Serialize)]
struct UploadQuery<'a> {
    name: &'a str,
}

impl Client {
    /// Uploads content for messages to refer to.
    pub async fn upload(
        &self,
        media_type: &str,
        name: &str,
        data: impl Into<Bytes>,
    ) -> Result<AttachmentStored> {
        let path = with_query("/v1/attachments", &UploadQuery { name });
        let media_type = HeaderValue::from_str(media_type)
            .map_err(|_| Error::InvalidTarget(format!("{media_type:?} is no media type")))?;
        // An upload that nobody refers to is removed by the server.
        let call = Call::upload(path, media_type, data.into()).repeatable();
        self.http().json(call).await
    }

    /// Content, as it was uploaded.
    pub async fn attachment(&self, attachment_id: AttachmentId) -> Result<Download> {
        let path = format!("/v1/attachments/{attachment_id}");
        let answer = self.http().ask(Call::get(path)).await?;
        let media_type = answer.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        Ok(Download {
            media_type: media_type.unwrap_or("application/octet-stream").to_owned(),
            data: answer.body,
        })
    }
}
