//! A call whose answer is read as it comes: for answers that are streams and may take long.
//!
//! The way to the head of the answer is that of every other call: checked, bounded in time, no redirect. What comes after it is
//! not bounded here: only the reader knows how much is too much, and how long is too long between two pieces.

use std::fmt;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::call::{Open, Outbound, Request, checked, message};
use crate::error::Error;
use crate::target::{Host, Target};

/// An answer whose body is still on its way. Dropped, it closes the connection.
pub struct Streaming {
    /// The status.
    pub status: StatusCode,
    /// What was said beside the body.
    pub headers: HeaderMap,
    host: Host,
    body: Incoming,
    /// It moves the bytes.
    _open: Open,
}

impl fmt::Debug for Streaming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streaming")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Streaming {
    /// The next bytes; nothing after the last. An answer that breaks off is an error.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|source| Error::broken(&self.host, source))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

impl Outbound {
    /// Makes a call, over a connection of its own, and gives the answer as soon as its head is there. The time of
    /// [`Limits::timeout`](crate::Limits::timeout) is for that.
    pub async fn stream(&self, request: Request) -> Result<Streaming, Error> {
        let target = checked(&request)?;
        let asking = self.begin(&target, request);
        self.in_time(&target, Box::pin(asking)).await
    }

    async fn begin(&self, target: &Target, request: Request) -> Result<Streaming, Error> {
        let mut open = self.open(target).await?;
        let mut message = message(target, request);
        let close = HeaderValue::from_static("close");
        message.headers_mut().insert(CONNECTION, close);
        let response = open.sender.send_request(message).await;
        let response = response.map_err(|source| Error::broken(&target.host, source))?;
        let response = refuse_redirect(target, response)?;
        let (parts, body) = response.into_parts();
        Ok(Streaming {
            status: parts.status,
            headers: parts.headers,
            host: target.host.clone(),
            body,
            _open: open,
        })
    }
}

fn refuse_redirect<B>(target: &Target, response: Response<B>) -> Result<Response<B>, Error> {
    if response.status().is_redirection() {
        return Err(Error::Redirect {
            host: target.host.to_string(),
            status: response.status().as_u16(),
        });
    }
    Ok(response)
}
