use axum::http::{HeaderMap, StatusCode};
use relay_protocol::time::Timestamp;
use serde_json::{Value, json};

use super::*;

fn answer(status: u16, body: &str) -> Result<Answer, Error> {
    Ok(Answer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    })
}

fn delivery() -> DeliveryId {
    DeliveryId::new(Timestamp::from_millis(1), 1)
}

fn receipt(answer: Result<Answer, Error>) -> Value {
    serde_json::to_value(receipt_of(delivery(), answer)).unwrap()
}

#[test]
fn the_answer_is_the_receipt() {
    let id = delivery();
    let cases = [
        json!({ "status": "delivered", "deliveryId": id }),
        json!({ "status": "accepted", "deliveryId": id, "retryable": false }),
        json!({ "status": "deferred", "availableAt": "2030-01-01T00:00:00.000Z" }),
        json!({ "status": "failed", "reason": "no", "retryable": false }),
    ];
    for case in cases {
        let mut expected = case.clone();
        expected["metadata"] = json!({ "door": "webhook", "httpStatus": 200 });
        assert_eq!(receipt(answer(200, &case.to_string())), expected);
    }
    let own =
        json!({ "status": "delivered", "deliveryId": id, "metadata": { "door": "pty", "a": 1 } });
    let found = receipt(answer(202, &own.to_string()));
    assert_eq!(
        found["metadata"],
        json!({ "door": "pty", "a": 1, "httpStatus": 202 })
    );
}

#[test]
fn anything_else_is_a_failed_attempt() {
    let good = json!({ "status": "delivered", "deliveryId": delivery() }).to_string();
    let cases = [
        (
            answer(500, &good),
            "webhook: the session's server answered 500",
        ),
        (
            answer(404, ""),
            "webhook: the session's server answered 404",
        ),
        (answer(200, ""), "webhook: expected a receipt of"),
        (answer(204, ""), "webhook: expected a receipt of"),
        (answer(200, "ok"), "webhook: expected a receipt of"),
        (
            answer(200, r#"{"status":"seen"}"#),
            "webhook: expected a receipt of",
        ),
    ];
    for (answer, expected) in cases {
        let found = receipt(answer);
        let reason = found["reason"].as_str().unwrap();
        assert!(reason.starts_with(expected), "{found}");
        assert_eq!(found["status"], "failed");
        assert_eq!(found["retryable"], true);
        assert_eq!(found["metadata"]["door"], "webhook");
    }
}

#[test]
fn a_call_that_must_not_be_made_is_not_tried_again() {
    let error = Error::Forbidden {
        host: "inside.test".to_owned(),
        address: "10.0.0.1".parse().unwrap(),
        range: "private",
    };
    let found = receipt(Err(error));
    assert_eq!(found["retryable"], false);
    assert!(
        found["reason"]
            .as_str()
            .unwrap()
            .contains("10.0.0.1 (private)")
    );
}

#[test]
fn reasons_fit() {
    let found = no_receipt(&"ä".repeat(REASON_BYTES), true);
    let MessageReceipt::Failed(found) = found else {
        panic!("{found:?}");
    };
    assert!(found.reason.len() <= REASON_BYTES);
}

#[test]
fn results_of_operations() {
    let id = ControlId::new(Timestamp::from_millis(1), 1);
    let other = ControlId::new(Timestamp::from_millis(1), 2);
    let good = json!({ "controlId": id, "ok": true, "result": { "x": 1 } }).to_string();
    let foreign = json!({ "controlId": other, "ok": true }).to_string();
    assert!(result_of(id, answer(200, &good)).ok);
    for answer in [answer(200, &foreign), answer(500, &good), answer(200, "")] {
        let found = result_of(id, answer);
        assert_eq!((found.ok, found.control_id), (false, id));
        assert_eq!(found.problem.unwrap().code, ErrorCode::SessionUnreachable);
    }
}
