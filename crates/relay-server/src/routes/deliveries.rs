//! Deliveries: making, following, settling, calling back.

use axum::http::Method;
use relay_core::PageQuery;
use relay_core::store::DeliveryFilter;
use relay_protocol::api::Page;
use relay_protocol::delivery::{DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::{
    CancelDelivery, DeliverMessage, Delivery, PostReceipt, RetryDelivery,
};
use relay_protocol::ids::DeliveryId;
use relay_protocol::socket::ReceiptFrame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Access, Participant, Reader};
use crate::call::{Call, Done, Json, Made, OptionalJson, Params, idempotency_key};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/deliveries",
            "Delivers a stored message to an agent or a session.",
            deliver,
        )
        .idempotent(),
        Route::new(
            get.clone(),
            "/v1/deliveries",
            "Deliveries, newest first.",
            list,
        ),
        Route::new(
            get,
            "/v1/deliveries/{id}",
            "One delivery with every decision, attempt and receipt.",
            show,
        ),
        Route::new(
            post.clone(),
            "/v1/deliveries/{id}/receipt",
            "Says what happened to a delivery.",
            receipt,
        ),
        Route::new(
            post.clone(),
            "/v1/deliveries/{id}/retry",
            "Reopens a failed delivery under the same id.",
            retry,
        ),
        Route::new(
            post,
            "/v1/deliveries/{id}/cancel",
            "Calls a delivery back.",
            cancel,
        ),
    ]
}

async fn deliver(
    by: Access<Participant>,
    call: Call<(), (), Json<DeliverMessage>>,
) -> Result<Made<MessageReceipt>, Refusal> {
    let Json(mut body) = call.body;
    let named = body
        .context
        .as_mut()
        .and_then(|it| it.idempotency_key.take());
    if let Some(key) = idempotency_key(&call.headers, named)? {
        body.context.get_or_insert_default().idempotency_key = Some(key);
    }
    Ok(Made(by.engine().deliver(by.caller(), body).await?))
}

/// Which deliveries are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeliveryQuery {
    /// Only those for this agent.
    agent: Option<String>,
    /// Only those in this state.
    state: Option<DeliveryState>,
    /// The `nextCursor` of an earlier page.
    cursor: Option<String>,
    /// Most items, 1 to 200; absent: 50.
    limit: Option<u32>,
}

async fn list(
    by: Access<Reader>,
    call: Call<(), Params<DeliveryQuery>>,
) -> Result<Done<Page<Delivery>>, Refusal> {
    let Params(query) = call.query;
    let filter = DeliveryFilter {
        agent: query.agent,
        state: query.state,
    };
    let page = PageQuery {
        cursor: query.cursor,
        limit: query.limit,
    };
    let found = by
        .engine()
        .deliveries_where(by.caller(), filter, page)
        .await?;
    Ok(Done(found))
}

async fn show(by: Access<Reader>, call: Call<(DeliveryId,)>) -> Result<Done<Delivery>, Refusal> {
    Ok(Done(by.engine().delivery(by.caller(), call.path.0).await?))
}

/// What became of a receipt.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptTaken {
    /// Where the delivery stands now.
    pub(crate) state: DeliveryState,
    /// True: it came after the end or for an older offer, and changed nothing.
    pub(crate) late: bool,
}

async fn receipt(
    by: Access<Participant>,
    call: Call<(DeliveryId,), (), Json<PostReceipt>>,
) -> Result<Done<ReceiptTaken>, Refusal> {
    let Json(body) = call.body;
    let frame = ReceiptFrame {
        delivery_id: call.path.0,
        epoch: body.epoch,
        receipt: body.receipt,
    };
    let stored = by.engine().receipt(by.caller(), None, frame).await?;
    Ok(Done(ReceiptTaken {
        state: stored.state,
        late: stored.late,
    }))
}

async fn retry(
    by: Access<Participant>,
    call: Call<(DeliveryId,), (), OptionalJson<RetryDelivery>>,
) -> Result<Done<MessageReceipt>, Refusal> {
    Ok(Done(by.engine().retry(by.caller(), call.path.0).await?))
}

async fn cancel(
    by: Access<Participant>,
    call: Call<(DeliveryId,), (), OptionalJson<CancelDelivery>>,
) -> Result<Done<Delivery>, Refusal> {
    let OptionalJson(body) = call.body;
    let cancelled = by
        .engine()
        .cancel_delivery(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(cancelled))
}
