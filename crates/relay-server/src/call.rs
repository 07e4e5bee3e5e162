//! What a handler gets and gives, beside who asks: the parts of a request as types, which also describe
//! themselves for the API's document.

use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use relay_protocol::ids::{
    AttachmentId, ConversationId, DeliveryId, GrantId, InvocationId, MessageId, PermissionId,
    RunId, SessionId, TokenId, WebhookId,
};
use relay_protocol::limits::{ATTACHMENT_BYTES, REQUEST_BODY_BYTES};
use relay_protocol::problem::ErrorCode;
use relay_protocol::wire;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::refusal::Refusal;

/// The header that makes a repeated request harmless.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// One request, taken apart.
pub(crate) struct Call<P = (), Q = (), B = ()> {
    /// What the path names.
    pub(crate) path: P,
    /// What follows `?`.
    pub(crate) query: Q,
    /// The body.
    pub(crate) body: B,
    /// The headers.
    pub(crate) headers: HeaderMap,
}

/// What a path names.
pub(crate) trait PathParts: Sized + Send {
    /// Reads the parts in the order in which they stand in the path.
    fn read(parts: &[(String, String)]) -> Result<Self, Refusal>;
    /// The schema of each part.
    fn describe() -> Vec<Value>;
}

/// One part of a path.
pub(crate) trait PathPart: Sized + Send {
    /// What it should look like.
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn describe() -> Value;
}

impl PathPart for String {
    const EXPECTED: &'static str = "a name";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn describe() -> Value {
        json!({ "type": "string" })
    }
}

macro_rules! ids_in_paths {
    ($($id:ty),+) => {$(
        impl PathPart for $id {
            const EXPECTED: &'static str = "a UUID";

            fn parse(text: &str) -> Option<Self> {
                Self::from_str(text).ok()
            }

            fn describe() -> Value {
                json!({ "type": "string", "format": "uuid" })
            }
        }
    )+};
}

ids_in_paths!(
    AttachmentId,
    ConversationId,
    DeliveryId,
    GrantId,
    MessageId,
    PermissionId,
    RunId,
    SessionId,
    InvocationId,
    TokenId,
    WebhookId
);

fn part<T: PathPart>(part: Option<&(String, String)>) -> Result<T, Refusal> {
    let (name, text) = part.map_or(("path", ""), |(name, text)| (name, text));
    T::parse(text).ok_or_else(|| Refusal::invalid(name, T::EXPECTED, text))
}

impl PathParts for () {
    fn read(_: &[(String, String)]) -> Result<Self, Refusal> {
        Ok(())
    }

    fn describe() -> Vec<Value> {
        Vec::new()
    }
}

impl<A: PathPart> PathParts for (A,) {
    fn read(parts: &[(String, String)]) -> Result<Self, Refusal> {
        Ok((part(parts.first())?,))
    }

    fn describe() -> Vec<Value> {
        vec![A::describe()]
    }
}

impl<A: PathPart, B: PathPart> PathParts for (A, B) {
    fn read(parts: &[(String, String)]) -> Result<Self, Refusal> {
        Ok((part(parts.first())?, part(parts.get(1))?))
    }

    fn describe() -> Vec<Value> {
        vec![A::describe(), B::describe()]
    }
}

/// What follows `?`.
pub(crate) trait Query: Sized + Send {
    fn read(text: &str) -> Result<Self, Refusal>;
    /// The schema of an object with one property for each parameter.
    fn describe(generator: &mut SchemaGenerator) -> Option<Value>;
}

impl Query for () {
    fn read(text: &str) -> Result<Self, Refusal> {
        match text.split(['=', '&']).next() {
            None | Some("") => Ok(()),
            Some(name) => Err(Refusal::invalid(name, "no parameters", name)),
        }
    }

    fn describe(_: &mut SchemaGenerator) -> Option<Value> {
        None
    }
}

/// Parameters as a struct.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema + Send> Query for Params<T> {
    fn read(text: &str) -> Result<Self, Refusal> {
        serde_urlencoded::from_str(text).map(Self).map_err(|error| {
            let message = error.to_string();
            let mut refusal = Refusal::new(ErrorCode::InvalidRequest, message.clone());
            // Serde names the field in the message only.
            refusal.0.path = message.split('`').nth(1).map(str::to_owned);
            refusal
        })
    }

    fn describe(generator: &mut SchemaGenerator) -> Option<Value> {
        Some(T::json_schema(generator).to_value())
    }
}

/// A request's body.
pub(crate) trait RequestBody: Sized + Send {
    /// True for uploads: the media type says what the content is.
    const ANY_MEDIA_TYPE: bool = false;
    /// Most bytes.
    const MOST: usize = REQUEST_BODY_BYTES;

    fn read(bytes: Bytes, headers: &HeaderMap) -> Result<Self, Refusal>;
    /// The description of the body; none where there is none.
    fn describe(generator: &mut SchemaGenerator) -> Option<Value>;
}

impl RequestBody for () {
    fn read(_: Bytes, _: &HeaderMap) -> Result<Self, Refusal> {
        Ok(())
    }

    fn describe(_: &mut SchemaGenerator) -> Option<Value> {
        None
    }
}

/// A body of JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema + Send> RequestBody for Json<T> {
    fn read(bytes: Bytes, _: &HeaderMap) -> Result<Self, Refusal> {
        wire::decode(&bytes)
            .map(Self)
            .map_err(|error| Refusal::decoding(&error))
    }

    fn describe(generator: &mut SchemaGenerator) -> Option<Value> {
        Some(json_body::<T>(generator, true))
    }
}

/// A body of JSON that may be left out.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema + Default + Send> RequestBody for OptionalJson<T> {
    fn read(bytes: Bytes, headers: &HeaderMap) -> Result<Self, Refusal> {
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        Json::read(bytes, headers).map(|Json(body)| Self(body))
    }

    fn describe(generator: &mut SchemaGenerator) -> Option<Value> {
        Some(json_body::<T>(generator, false))
    }
}

fn json_body<T: JsonSchema>(generator: &mut SchemaGenerator, required: bool) -> Value {
    let schema = generator.subschema_for::<T>();
    json!({ "required": required, "content": { "application/json": { "schema": schema } } })
}

/// A body that is content.
pub(crate) struct RawBody(pub(crate) Bytes);

impl RequestBody for RawBody {
    const ANY_MEDIA_TYPE: bool = true;
    const MOST: usize = ATTACHMENT_BYTES;

    fn read(bytes: Bytes, _: &HeaderMap) -> Result<Self, Refusal> {
        Ok(Self(bytes))
    }

    fn describe(_: &mut SchemaGenerator) -> Option<Value> {
        Some(json!({ "required": true, "content": { "*/*": {} } }))
    }
}

/// Reads a body to its end, if that is not too far or too long.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    timeout: Duration,
) -> Result<Bytes, Refusal> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if let Some(found) = announced.filter(|length| *length > most as u64) {
        return Err(too_large(most, &format!("{found} bytes")));
    }
    let read = tokio::time::timeout(timeout, Limited::new(body, most).collect()).await;
    match read {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(most, "more")),
        Ok(Err(error)) => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("the body could not be read: {error}"),
        )),
        Err(_) => Err(Refusal::new(
            ErrorCode::RequestTimeout,
            format!("the body did not come within {} s", timeout.as_secs()),
        )),
    }
}

fn too_large(most: usize, found: &str) -> Refusal {
    let mut refusal = Refusal::new(
        ErrorCode::BodyTooLarge,
        format!("expected a body of at most {most} bytes, found {found}"),
    );
    refusal.0.expected = Some(format!("at most {most} bytes"));
    refusal.0.found = Some(found.to_owned());
    refusal
}

/// The key of a request: in the header or in the body, or the same in both.
pub(crate) fn idempotency_key(
    headers: &HeaderMap,
    body: Option<String>,
) -> Result<Option<String>, Refusal> {
    let Some(header) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(body);
    };
    let header = header
        .to_str()
        .map_err(|_| Refusal::invalid("Idempotency-Key", "printable characters", "other bytes"))?;
    match body {
        Some(body) if body != header => {
            let expected = format!("the key of the header, {header:?}");
            Err(Refusal::invalid("idempotencyKey", expected, &body))
        }
        _ => Ok(Some(header.to_owned())),
    }
}

/// What a handler answers.
pub(crate) trait Answer: Send {
    fn into_response(self) -> Response<Body>;
    /// Its status and the description of its content.
    fn describe(generator: &mut SchemaGenerator) -> (StatusCode, Value);
}

/// 200 with JSON.
pub(crate) struct Done<T>(pub(crate) T);

impl<T: Serialize + JsonSchema + Send> Answer for Done<T> {
    fn into_response(self) -> Response<Body> {
        json_response(StatusCode::OK, &self.0)
    }

    fn describe(generator: &mut SchemaGenerator) -> (StatusCode, Value) {
        (StatusCode::OK, json_content::<T>(generator))
    }
}

/// 201 with JSON.
pub(crate) struct Made<T>(pub(crate) T);

impl<T: Serialize + JsonSchema + Send> Answer for Made<T> {
    fn into_response(self) -> Response<Body> {
        json_response(StatusCode::CREATED, &self.0)
    }

    fn describe(generator: &mut SchemaGenerator) -> (StatusCode, Value) {
        (StatusCode::CREATED, json_content::<T>(generator))
    }
}

/// 202 with JSON.
pub(crate) struct Accepted<T>(pub(crate) T);

impl<T: Serialize + JsonSchema + Send> Answer for Accepted<T> {
    fn into_response(self) -> Response<Body> {
        json_response(StatusCode::ACCEPTED, &self.0)
    }

    fn describe(generator: &mut SchemaGenerator) -> (StatusCode, Value) {
        (StatusCode::ACCEPTED, json_content::<T>(generator))
    }
}

/// 204.
pub(crate) struct Nothing;

impl Answer for Nothing {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }

    fn describe(_: &mut SchemaGenerator) -> (StatusCode, Value) {
        (StatusCode::NO_CONTENT, Value::Null)
    }
}

/// The description of content that is JSON.
pub(crate) fn json_content<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({ "application/json": { "schema": generator.subschema_for::<T>() } })
}

/// An answer of JSON.
pub(crate) fn json_response(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => response(status, "application/json", bytes),
        Err(error) => {
            Refusal::new(ErrorCode::Internal, format!("unwritable: {error}")).into_response()
        }
    }
}

/// An answer with content.
pub(crate) fn response(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_header_and_body_agree() {
        let cases = [
            (None, None, Ok(None)),
            (Some("a"), None, Ok(Some("a"))),
            (None, Some("a"), Ok(Some("a"))),
            (Some("a"), Some("a"), Ok(Some("a"))),
            (Some("a"), Some("b"), Err(())),
        ];
        for (header, body, expected) in cases {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static(header));
            }
            let found = idempotency_key(&headers, body.map(str::to_owned)).map_err(|_| ());
            let expected = expected.map(|key: Option<&str>| key.map(str::to_owned));
            assert_eq!(found, expected, "{header:?} {body:?}");
        }
    }
}
