//! What only Swift has: its exchange of credentials, and parts that are objects.

use std::rc::Rc;

use bytes::Bytes;
use logsvc_runtime::{PlainDialer, Runtime};
use logsvc_store::bucket::{Bucket, BucketError, PartPlace, Span};
use logsvc_store::cloud::Secret;
use logsvc_store::swift::{SwiftBucket, SwiftConfig, SwiftCredentials, SwiftPlace};
use logsvc_store::{Folder, PART_BYTES};

use crate::{Place, Server, client, fresh, soon};

mod cases {
    #[test]
    fn swift_tells_what_is_wrong() {
        crate::on_all(super::swift_tells_what_is_wrong, super::swift_tells_what_is_wrong);
    }

    #[test]
    fn parts_go_with_their_object() {
        crate::on_all(super::parts_go_with_their_object, super::parts_go_with_their_object);
    }
}

pub(crate) fn config(
    container: String,
    prefix: String,
    auth_url: String,
    user: String,
    key: String,
) -> SwiftConfig {
    let credentials = SwiftCredentials::V1 { user, key: Secret(key) };
    SwiftConfig { container, prefix, auth_url, credentials, place: SwiftPlace::default() }
}

pub(crate) fn bucket<R: Runtime>(
    runtime: &R,
    config: SwiftConfig,
) -> SwiftBucket<R, PlainDialer<R>> {
    SwiftBucket::new(runtime.clone(), client(runtime), config)
}

async fn swift_tells_what_is_wrong<R: Runtime>(runtime: R, server: Rc<Server>) {
    let Place::Swift(good) = &server.place else { return };
    let (name, until) = (fresh(&runtime, "a"), soon(&runtime));
    let create = async |config: SwiftConfig| {
        let created = bucket(&runtime, config).create(&name, Bytes::from_static(b"x"), until).await;
        created.expect_err("it is wrong")
    };
    let error = create(SwiftConfig { container: "no-such".to_owned(), ..good.clone() }).await;
    assert_eq!(error.to_string(), "refused: there is no container \"no-such\"");
    let credentials = SwiftCredentials::V1 { user: "nobody".to_owned(), key: Secret::default() };
    let error = create(SwiftConfig { credentials, ..good.clone() }).await;
    let text = "refused: 401 Unauthorized: the token or the credentials are refused";
    assert!(error.to_string().starts_with(text), "{error}");
    let auth_url = "http://127.0.0.1:9/auth/v1.0".to_owned();
    let error = create(SwiftConfig { auth_url, ..good.clone() }).await;
    assert!(matches!(error, BucketError::Failed(_)), "{error:?}");
    let nowhere = SwiftConfig { container: "no-such".to_owned(), ..good.clone() };
    let listed = bucket(&runtime, nowhere).list(&Folder::ALL, None, until).await;
    assert!(matches!(listed, Err(BucketError::Refused(_))), "{listed:?}");
}

async fn parts_go_with_their_object<R: Runtime>(runtime: R, server: Rc<Server>) {
    let Place::Swift(config) = &server.place else { return };
    // Nobody else's objects are in the listings.
    let prefix = fresh(&runtime, "own").to_string();
    let bucket = bucket(&runtime, SwiftConfig { prefix: prefix.clone(), ..config.clone() });
    let above = self::bucket(
        &runtime,
        SwiftConfig { prefix: format!("{prefix}/.parts~"), ..config.clone() },
    );
    let (name, until) = (fresh(&runtime, "large"), soon(&runtime));
    let parts_left =
        async || above.list(&Folder::ALL, None, until).await.expect("a listing").objects.len();
    for is_completed in [true, false] {
        let upload = bucket.begin(&name, until).await.expect("it begins");
        let mut parts = Vec::new();
        for (number, body) in [vec![1; PART_BYTES], vec![2; 9]].into_iter().enumerate() {
            let place = PartPlace::of(number, PART_BYTES as u64);
            // A part may come twice.
            bucket
                .put_part(&name, &upload, place, body.clone().into(), until)
                .await
                .expect("a part");
            let part = bucket.put_part(&name, &upload, place, body.into(), until).await;
            parts.push(part.expect("a part"));
        }
        assert_eq!(parts_left().await, 2);
        let page = bucket.list(&Folder::ALL, None, until).await.expect("a listing");
        assert!(page.objects.is_empty() && !page.has_more, "{page:?}");
        if is_completed {
            bucket.complete(&name, &upload, parts.clone(), until).await.expect("complete");
            let again = bucket.complete(&name, &upload, parts, until).await;
            assert!(matches!(again, Err(BucketError::Exists(_))), "{again:?}");
            let at = PART_BYTES as u64;
            let read = bucket.read(&name, Span::Range(at - 1..at + 99), until).await;
            assert_eq!(read.expect("it is there"), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2].as_slice());
            bucket.remove(&name, until).await.expect("removed");
        } else {
            bucket.abort(&name, &upload, until).await.expect("given up");
        }
        assert_eq!(parts_left().await, 0);
    }
}
