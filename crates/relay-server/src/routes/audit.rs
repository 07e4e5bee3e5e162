//! The log as evidence.

use axum::http::Method;
use relay_protocol::api::audit::{EraseEvents, EventsErased, EventsRetained, RetainEvents};

use crate::access::{Access, Owner};
use crate::call::{Call, Done, Json};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/audit/erase",
            "Removes the content of events, such as a leaked secret; that they were there stays.",
            erase,
        ),
        Route::new(
            Method::POST,
            "/v1/audit/retain",
            "Removes what the log need not keep any longer.",
            retain,
        ),
    ]
}

async fn erase(
    by: Access<Owner>,
    call: Call<(), (), Json<EraseEvents>>,
) -> Result<Done<EventsErased>, Refusal> {
    let Json(EraseEvents { seqs, reason }) = call.body;
    let erased = by.engine().audit_erase(by.caller(), seqs, &reason).await?;
    Ok(Done(EventsErased { erased }))
}

async fn retain(
    by: Access<Owner>,
    call: Call<(), (), Json<RetainEvents>>,
) -> Result<Done<EventsRetained>, Refusal> {
    let Json(body) = call.body;
    Ok(Done(by.engine().retain_events(by.caller(), body).await?))
}
