//! Listings of a container, and answers to removals of large objects.

use serde_json::Value;

use super::times::of_iso;
use crate::bucket::{BucketError, ObjectInfo};
use crate::name::ObjectName;

/// An entry of a listing.
pub(super) struct Entry {
    /// The whole name.
    pub(super) name: String,
    len_bytes: u64,
    created_ns: i64,
}

impl Entry {
    /// The object, if it is one of this bucket. Others may have objects of other names there.
    pub(super) fn info(&self, prefix: &str) -> Option<ObjectInfo> {
        let name = ObjectName::new(self.name.strip_prefix(prefix)?).ok()?;
        Some(ObjectInfo { name, len_bytes: self.len_bytes, created_ns: self.created_ns })
    }
}

/// Reads a listing with `format=json`
/// (<https://docs.openstack.org/api-ref/object-store/#show-container-details-and-list-objects>).
///
/// # Errors
/// It is none.
pub(super) fn entries(body: &[u8]) -> Result<Vec<Entry>, BucketError> {
    if body.is_empty() {
        // 204: there is none.
        return Ok(Vec::new());
    }
    let json: Value =
        serde_json::from_slice(body).map_err(|_| BucketError::failed("the listing is not JSON"))?;
    let list = json.as_array().ok_or_else(|| BucketError::failed("the listing is no list"))?;
    let entry = |json: &Value| {
        let created_ns = of_iso(json["last_modified"].as_str()?)?;
        let name = json["name"].as_str()?.to_owned();
        Some(Entry { name, len_bytes: json["bytes"].as_u64()?, created_ns })
    };
    let read: Option<Vec<Entry>> = list.iter().map(entry).collect();
    read.ok_or_else(|| BucketError::failed("the listing has an entry without name, bytes or time"))
}

/// Reads the answer to a `DELETE` with `multipart-manifest=delete`, whose status is always 200
/// (<https://docs.openstack.org/swift/latest/overview_large_objects.html>).
///
/// # Errors
/// Something is still there.
pub(super) fn removed(body: &[u8]) -> Result<(), BucketError> {
    let json: Value = serde_json::from_slice(body)
        .map_err(|_| BucketError::failed("the answer to a removal is not JSON"))?;
    let status = json["Response Status"].as_str().unwrap_or("no status");
    if status.starts_with("200") || status.starts_with("404") {
        return Ok(());
    }
    Err(BucketError::failed(format!("a large object is not removed: {status}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    const LISTING: &str = r#"[
        {"bytes": 16, "hash": "x", "name": "p/a/b", "last_modified": "1970-01-01T00:00:01.000000"},
        {"bytes": 0, "name": "p/.parts~/a", "last_modified": "1970-01-01T00:00:01.5", "x": [null]}
    ]"#;

    #[test]
    fn listings_are_read() {
        let read = entries(LISTING.as_bytes()).expect("a listing");
        let first = read[0].info("p/").expect("an object");
        assert_eq!((first.name.as_str(), first.len_bytes), ("a/b", 16));
        assert_eq!(first.created_ns, 1_000_000_000);
        assert!(read[0].info("q/").is_none() && read[1].info("p/").is_none());
        assert!(entries(b"").expect("nothing").is_empty());
        for bad in ["[1]", "{}", "x", "[{\"name\": \"a\", \"bytes\": -1}]"] {
            assert!(entries(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(removed(br#"{"Response Status": "200 OK", "Errors": []}"#), Ok(()));
        assert_eq!(removed(br#"{"Response Status": "404 Not Found"}"#), Ok(()));
        for bad in [r#"{"Response Status": "400 Bad Request"}"#, "[]", ""] {
            assert!(removed(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn damaged_listings_do_no_harm() {
        for seed in seeds(200) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut body = LISTING.as_bytes().to_vec();
            for _ in 0..rng.between(1, 4) {
                let at = rng.below(body.len() as u64) as usize;
                body[at] = rng.next_u64() as u8;
            }
            body.truncate(rng.below(body.len() as u64 + 1) as usize);
            // Either is fine.
            let _ = entries(&body).map(|read| read.len());
            let _ = removed(&body);
        }
    }
}
