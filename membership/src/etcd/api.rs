//! The bodies of etcd's JSON gateway: numbers of 64 bits are texts, keys and values are base64.
//!
//! Guarantees: decoders meet any bytes without a panic, in time and memory that their length bounds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::identity::Identity;
use crate::vitals::Report;
use crate::wire::Item;

/// What the key of a node begins with, behind the prefix.
const INSTANCES: &str = "instances/";
/// What the key of a member begins with that is to be forgotten.
const FORGOTTEN: &str = "forgotten/";

/// The number of a lease.
pub(super) type LeaseId = i64;

/// An answer that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the answer of etcd has no {0}")]
pub(super) struct NoSuchField(pub(super) &'static str);

/// What the keys say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Listed {
    /// Nodes, and what they tell.
    pub(super) members: Vec<(Identity, Report)>,
    /// Members that are to be forgotten.
    pub(super) forgotten: Vec<Identity>,
    /// Values that this version does not understand.
    pub(super) damaged: u64,
}

/// Asks for a lease of so many seconds.
pub(super) fn grant(seconds: u64) -> Value {
    json!({ "TTL": seconds.to_string() })
}

/// The number of the lease that was granted.
pub(super) fn granted(answer: &Value) -> Result<LeaseId, NoSuchField> {
    number(&answer["ID"]).filter(|id| *id != 0).ok_or(NoSuchField("ID"))
}

/// Asks to renew a lease.
pub(super) fn keep_alive(lease: LeaseId) -> Value {
    json!({ "ID": lease.to_string() })
}

/// Whether the lease was renewed. If not, it has ended.
pub(super) fn is_kept(answer: &Value) -> Result<bool, NoSuchField> {
    let result = answer.get("result").ok_or(NoSuchField("result"))?;
    // What is zero is left out.
    Ok(number(&result["TTL"]).is_some_and(|seconds| seconds > 0))
}

/// Asks to write what a node tells of itself.
pub(super) fn put_member(
    prefix: &str,
    identity: Identity,
    report: &Report,
    lease: LeaseId,
) -> Value {
    let key = format!("{prefix}{INSTANCES}{}", report.vitals.instance);
    put(&key, &Item::Vitals(identity, report.clone()), lease)
}

/// Asks to write that a member is to be forgotten.
pub(super) fn put_forgotten(prefix: &str, identity: Identity, lease: LeaseId) -> Value {
    let Identity { address, generation, chance } = identity;
    let key = format!("{prefix}{FORGOTTEN}{address}-{generation}-{chance:x}");
    put(&key, &Item::Forget(identity), lease)
}

fn put(key: &str, item: &Item, lease: LeaseId) -> Value {
    json!({
        "key": STANDARD.encode(key),
        "value": STANDARD.encode(item.encode()),
        "lease": lease.to_string(),
    })
}

/// Asks for all keys that begin with a prefix, at most so many.
pub(super) fn range(prefix: &str, limit: usize) -> Value {
    json!({
        "key": STANDARD.encode(prefix),
        "range_end": STANDARD.encode(end_of(prefix.as_bytes())),
        "limit": limit.to_string(),
    })
}

/// The first key behind all that begin with a prefix. A zero stands for the end of all keys.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// What the keys of an answer say.
pub(super) fn listed(answer: &Value) -> Result<Listed, NoSuchField> {
    answer.get("header").ok_or(NoSuchField("header"))?;
    if answer["more"] == true {
        // Who is missing in a part of the list need not be dead.
        return Err(NoSuchField("end: too many keys begin with the prefix"));
    }
    let mut listed = Listed::default();
    // An empty list is left out.
    for pair in answer["kvs"].as_array().into_iter().flatten() {
        let value = pair["value"].as_str().and_then(|text| STANDARD.decode(text).ok());
        match value.and_then(|bytes| Item::decode(&bytes).ok()) {
            Some(Item::Vitals(identity, report)) => listed.members.push((identity, report)),
            Some(Item::Forget(identity)) => listed.forgotten.push(identity),
            None => listed.damaged += 1,
        }
    }
    Ok(listed)
}

/// Asks for a token.
pub(super) fn authenticate(name: &str, password: &str) -> Value {
    json!({ "name": name, "password": password })
}

/// The token.
pub(super) fn token(answer: &Value) -> Result<String, NoSuchField> {
    answer["token"].as_str().map(str::to_owned).ok_or(NoSuchField("token"))
}

/// A number that is written as a text, or as a number.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    use super::*;
    use crate::vitals::Vitals;

    const ME: Identity = Identity {
        address: std::net::SocketAddr::new(
            std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
            9095,
        ),
        generation: 7,
        chance: 255,
    };

    fn text(value: &Value) -> String {
        let bytes = STANDARD.decode(value.as_str().expect("a text")).expect("base64");
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn answers_of_a_real_etcd_are_understood() {
        let answer: Value =
            serde_json::from_str(r#"{"header":{"revision":"2"},"ID":"7587889234567","TTL":"5"}"#)
                .expect("JSON");
        assert_eq!(granted(&answer), Ok(7_587_889_234_567));
        assert_eq!(granted(&json!({ "error": "x" })), Err(NoSuchField("ID")));
        let kept = |text: &str| is_kept(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(kept(r#"{"result":{"header":{},"ID":"7","TTL":"5"}}"#), Ok(true));
        assert_eq!(kept(r#"{"result":{"header":{},"ID":"7"}}"#), Ok(false));
        assert_eq!(kept(r#"{"error":{"grpc_code":14}}"#), Err(NoSuchField("result")));
        assert_eq!(listed(&json!({ "header": {} })), Ok(Listed::default()));
        assert_eq!(listed(&json!({})), Err(NoSuchField("header")));
        assert!(listed(&json!({ "header": {}, "more": true })).is_err());
        assert_eq!(token(&json!({ "header": {}, "token": "t" })), Ok("t".to_owned()));
    }

    #[test]
    fn what_is_put_is_listed() {
        let report = Report { number: 3, vitals: Vitals::joining("a", 1..=1) };
        let put = put_member("p/", ME, &report, 9);
        assert_eq!((text(&put["key"]), put["lease"].as_str()), ("p/instances/a".into(), Some("9")));
        let forget = put_forgotten("p/", ME, 9);
        assert_eq!(text(&forget["key"]), "p/forgotten/10.0.0.1:9095-7-ff");
        let strange = json!({ "key": "", "value": "AAAA" });
        let answer = json!({ "header": {}, "kvs": [put, strange, forget] });
        let expected = Listed { members: vec![(ME, report)], forgotten: vec![ME], damaged: 1 };
        assert_eq!(listed(&answer), Ok(expected));
    }

    #[test]
    fn a_range_ends_behind_the_prefix() {
        let asked = range("p/", 10);
        assert_eq!((text(&asked["key"]), text(&asked["range_end"])), ("p/".into(), "p0".into()));
        assert_eq!(end_of(&[1, 255, 255]), [2]);
        assert_eq!(end_of(&[255]), [0]);
        assert_eq!(end_of(&[]), [0]);
    }

    /// Gives bytes to all decoders of answers.
    fn decode(data: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<Value>(data) else { return };
        let _ = (granted(&answer), is_kept(&answer), token(&answer));
        if let Ok(listed) = listed(&answer) {
            assert!(listed.members.len() + listed.forgotten.len() <= data.len());
        }
    }

    #[test]
    fn damaged_answers_do_no_harm() {
        let report = Report { number: 3, vitals: Vitals::joining("a", 1..=1) };
        let pairs = [put_member("p/", ME, &report, 9), put_forgotten("p/", ME, 9)];
        let whole = json!({ "header": {}, "result": { "TTL": "5" }, "ID": "7", "kvs": pairs });
        let whole = whole.to_string().into_bytes();
        decode(&whole);
        for text in ["", "[]", "{\"kvs\":[1,{}],\"header\":0}", "{\"ID\":1.5}", "{\"ID\":\"x\"}"] {
            decode(text.as_bytes());
        }
        for seed in seeds(50) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            for _ in 0..100 {
                let mut bytes = whole.clone();
                for _ in 0..=rng.index(3) {
                    let place = rng.index(bytes.len());
                    bytes[place] = *rng.pick(b"\"{}[],:0aZ/=");
                }
                decode(&bytes);
            }
        }
    }
}
