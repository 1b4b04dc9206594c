//! What is an error: names that are not there, servers that do not answer, and folders that cannot be.

use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use logsvc_runtime::Runtime;
use logsvc_store::bucket::{Bucket, BucketError, PartPlace, Span};
use logsvc_store::cloud::CloudConfig;
use logsvc_store::folder::FolderBucket;
use logsvc_store::{Folder, ObjectName};

use crate::{Place, Server, bucket, cloud, fresh, soon};

pub(crate) async fn wrong_names_are_refused<R: Runtime>(runtime: R, server: Rc<Server>) {
    let Place::Cloud(mut config) = server.place.clone() else { return };
    match &mut config {
        CloudConfig::S3(config) => config.bucket = "no-such-bucket".to_owned(),
        CloudConfig::Gcs(config) => config.bucket = "no-such-bucket".to_owned(),
        CloudConfig::Azure(config) => config.container = "no-such-container".to_owned(),
    }
    let bucket = cloud(&runtime, &config);
    let read = bucket.read(&fresh(&runtime, "a"), Span::Range(0..1), soon(&runtime)).await;
    assert!(read.is_err(), "{read:?}");
}

pub(crate) async fn a_dead_server_is_an_error<R: Runtime>(runtime: R, server: Rc<Server>) {
    let Place::Cloud(mut config) = server.place.clone() else { return };
    // Nobody listens there.
    let nowhere = "http://127.0.0.1:9".to_owned();
    match &mut config {
        CloudConfig::S3(config) => config.endpoint = nowhere,
        CloudConfig::Gcs(config) => config.endpoint = nowhere,
        CloudConfig::Azure(config) => config.endpoint = format!("{nowhere}/{}", config.account),
    }
    let bucket = cloud(&runtime, &config);
    let name = fresh(&runtime, "a");
    let until = soon(&runtime);
    let created = bucket.create(&name, Bytes::from_static(b"x"), until).await;
    assert!(matches!(created, Err(BucketError::Failed(_))), "{created:?}");
    let read = bucket.read(&name, Span::Range(0..1), until).await;
    assert!(matches!(read, Err(BucketError::Failed(_))), "{read:?}");
    let listed = bucket.list(&Folder::ALL, None, until).await;
    assert!(matches!(listed, Err(BucketError::Failed(_))), "{listed:?}");
    assert!(bucket.remove(&name, until).await.is_err());
    // Azure begins uploads without asking anybody.
    if let Ok(upload) = bucket.begin(&name, until).await {
        let part = bucket
            .put_part(&name, &upload, PartPlace::of(0, 0), Bytes::from_static(b"x"), until)
            .await;
        assert!(part.is_err(), "{part:?}");
    }
}

pub(crate) async fn impossible_folders_are_errors<R: Runtime>(runtime: R, server: Rc<Server>) {
    let Place::Folder(scratch) = &server.place else { return };
    let opened = FolderBucket::open(runtime.clone(), Path::new("/dev/null/bucket")).await;
    let error = opened.err().expect("no folder").to_string();
    assert!(error.starts_with("/dev/null/bucket cannot be a bucket: it cannot be made"), "{error}");
    let bucket = bucket(&runtime, &server).await;
    let (name, until) = (fresh(&runtime, "a"), soon(&runtime));
    bucket.create(&name, Bytes::from_static(b"x"), until).await.expect("it is free");
    let below = ObjectName::new(&format!("{name}/b")).expect("a name");
    let created = bucket.create(&below, Bytes::from_static(b"x"), until).await;
    assert!(matches!(created, Err(BucketError::Refused(_))), "{created:?}");
    for absent in [below, ObjectName::new("a").expect("a name")] {
        let read = bucket.read(&absent, Span::Range(0..9), until).await;
        assert_eq!(read, Err(BucketError::NotFound), "{absent}");
        assert_eq!(bucket.info(&absent, until).await, Err(BucketError::NotFound), "{absent}");
        bucket.remove(&absent, until).await.expect("no such object");
    }
    let hidden = runtime.read_dir(&scratch.0.join(".tmp~")).await.expect("it is there");
    assert_eq!(hidden, [], "nothing is left over");
}
