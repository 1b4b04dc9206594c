//! Bulk requests and their answers.

use super::{Action, BulkError, Reply, check, filter, items, write_error};

/// Three actions, of which the second has no object.
const THREE: &str = concat!(
    "{\"create\":{}}\n",
    "{\"@timestamp\":\"2026-11-25T03:00:00Z\",\"message\":\"one\"}\n",
    "{\"index\":{\"_index\":\"a\\u0062\",\"_id\":\"7\"}}\r\n",
    "[1]\r\n",
    "\n",
    "{ \"delete\" : {\"_index\":\"x\",\"_id\":\"1\"} }\n",
    "{\"update\":{\"_id\":\"2\"}}\n",
    "{\"doc\":{}}\n",
);

#[test]
fn actions_come_with_their_documents() {
    assert_eq!(check(THREE.as_bytes()), Ok(4));
    let read: Vec<_> = items(THREE.as_bytes())
        .map(|item| {
            let item = item.unwrap();
            let document = item.document.map(|text| String::from_utf8_lossy(text).into_owned());
            (item.action, item.index().map(String::from), item.id().map(String::from), document)
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    let one = text(r#"{"@timestamp":"2026-11-25T03:00:00Z","message":"one"}"#);
    assert_eq!(
        read,
        [
            (Action::Create, None, None, one),
            (Action::Index, text("ab"), text("7"), text("[1]")),
            (Action::Delete, text("x"), text("1"), None),
            (Action::Update, None, text("2"), text(r#"{"doc":{}}"#)),
        ]
    );
    let cut = items(b"{\"index\":{}}\n").next().unwrap().unwrap();
    assert_eq!(cut.document, None);
}

#[test]
fn a_broken_action_refuses_the_whole_body() {
    let good = "{\"index\":{}}\n{}\n";
    for (line, message) in [
        ("oops", "expected START_OBJECT"),
        ("[]", "expected START_OBJECT"),
        ("{}", "expected FIELD_NAME but found [END_OBJECT]"),
        (
            r#"{"store":{}}"#,
            "expected field [create], [delete], [index] or [update] but found [store]",
        ),
        (r#"{"index":1}"#, "expected an object at byte 10"),
        (r#"{"index":{}"#, "expected ',' or '}' in an object at byte 12"),
        (r#"{"index":{},"create":{}}"#, "expected one action"),
        (r#"{"index":{}}{}"#, "there is something behind the action"),
    ] {
        let body = format!("{good}{line}\n{{}}\n");
        let error = check(body.as_bytes()).unwrap_err();
        assert_eq!(error, BulkError::Malformed { line: 3, message: message.to_owned().into() });
        assert_eq!(error.kind(), "illegal_argument_exception");
    }
    assert_eq!(check(b""), Err(BulkError::Empty));
    assert_eq!(check(b"\n\n"), Err(BulkError::NoActions));
    assert_eq!(check(b"{\"index\":{}}\n{}"), Err(BulkError::NotTerminated));
}

fn reply() -> Vec<u8> {
    let mut reply = Reply::new();
    for item in items(THREE.as_bytes()).map(Result::unwrap) {
        let index = item.index().unwrap_or_default();
        match item.action {
            Action::Create => reply.stored(&item, &index),
            _ => reply.refused(&item, &index, 400, "kind", "a \"reason\""),
        }
    }
    reply.finish(3)
}

#[test]
fn an_answer_has_its_items_in_order() {
    let answer: serde_json::Value = serde_json::from_slice(&reply()).unwrap();
    let error = serde_json::json!({"type": "kind", "reason": "a \"reason\""});
    assert_eq!(
        answer,
        serde_json::json!({"took": 3, "errors": true, "items": [
            {"create": {"_index": "", "_id": answer["items"][0]["create"]["_id"],
                        "result": "created", "status": 201}},
            {"index": {"_index": "ab", "_id": "7", "status": 400, "error": error}},
            {"delete": {"_index": "x", "_id": "1", "status": 400, "error": error}},
            {"update": {"_index": "", "_id": "2", "status": 400, "error": error}},
        ]})
    );
    assert_eq!(answer["items"][0]["create"]["_id"].as_str().map(str::len), Some(16));
    assert_eq!(Reply::new().finish(0), br#"{"errors":false,"took":0,"items":[]}"#);
    let mut error = Vec::new();
    write_error(400, "kind", "why", &mut error);
    let expected = r#"{"error":{"root_cause":[{"type":"kind","reason":"why"}],"type":"kind","reason":"why"},"status":400}"#;
    assert_eq!(String::from_utf8(error).unwrap(), expected);
}

#[test]
fn filter_path_leaves_what_was_asked_for() {
    let reply = reply();
    let left = |patterns: &str| String::from_utf8(filter(&reply, patterns).unwrap()).unwrap();
    assert_eq!(
        left("errors,items.*.status"),
        concat!(
            r#"{"errors":true,"items":[{"create":{"status":201}},{"index":{"status":400}},"#,
            r#"{"delete":{"status":400}},{"update":{"status":400}}]}"#
        )
    );
    // Items of which nothing is left vanish.
    assert_eq!(left("items.*.error.type").matches("kind").count(), 3);
    assert_eq!(left("items.create"), left("items.cr*te"));
    assert_eq!(left("**.result"), r#"{"items":[{"create":{"result":"created"}}]}"#);
    assert_eq!(left("took,-items"), r#"{"took":3}"#);
    assert_eq!(left("-items.*"), r#"{"errors":true,"took":3}"#);
    assert_eq!(left("nothing"), "{}");
    assert_eq!(left(" , "), String::from_utf8(reply.clone()).unwrap());
    assert_eq!(left("**"), left(""));
    assert_eq!(left("-**"), "{}");
    assert!(filter(b"{\"a\":", "a").is_err());
}
