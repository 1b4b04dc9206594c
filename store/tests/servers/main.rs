//! Buckets of real servers and folders of the real file system, on the real backends.
//!
//! Folders are always there. `ci buckets` installs and starts the servers, and tells these tests
//! where they are: `LOGSVC_TEST_BUCKETS` has a word for each,
//! `name=kind,endpoint,account,bucket,id,secret`. Without it the tests say so, and run on folders.

#[expect(clippy::disallowed_methods, reason = "a server of the test's own, on a thread")]
mod containers;
mod failures;
#[cfg(feature = "swift")]
mod swift;
#[cfg(feature = "swift")]
#[expect(clippy::disallowed_methods, reason = "a server of the test's own, on threads")]
mod tokens;

use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use containers::containers_get_their_credentials;
use failures::{a_dead_server_is_an_error, impossible_folders_are_errors, wrong_names_are_refused};
use futures_util::future::join_all;
use logsvc_http::client::{Client, ClientConfig};
use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_runtime::{LaunchOptions, Monotonic, PlainDialer, Runtime, glommio_backend};
use logsvc_store::bucket::{Bucket, BucketError, PartPlace, Span};
use logsvc_store::cloud::{
    AzureConfig, AzureCredentials, CloudBucket, CloudConfig, GcsConfig, GcsCredentials, S3Config,
    S3Credentials, Secret,
};
use logsvc_store::folder::FolderBucket;
use logsvc_store::self_test::{Honesty, self_test};
#[cfg(feature = "swift")]
use logsvc_store::swift::SwiftConfig;
use logsvc_store::{Created, Folder, ObjectName, PART_BYTES, Store};

/// Where a bucket is.
#[derive(Clone)]
enum Place {
    /// At a server that the tests were told of.
    Cloud(CloudConfig),
    /// The same, with Swift's own exchange of credentials.
    #[cfg(feature = "swift")]
    Swift(SwiftConfig),
    /// In a folder of its own.
    Folder(Arc<Scratch>),
}

#[derive(Clone)]
struct Server {
    name: String,
    place: Place,
}

impl Server {
    /// OpenStack's own Swift looks whether there is an object before it takes the body.
    fn keeps_creates_apart(&self) -> bool {
        self.name != "swift"
    }
}

/// A folder that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bucket-{}-{number}", std::process::id());
        Scratch(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A left-over in the target folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn servers() -> Vec<Server> {
    let mut servers: Vec<Server> = match std::env::var("LOGSVC_TEST_BUCKETS") {
        Ok(told) => told.split_whitespace().map(server).collect(),
        Err(_) => {
            println!("SKIPPED: no server of buckets is named");
            Vec::new()
        }
    };
    let place = Place::Folder(Arc::new(Scratch::new()));
    servers.push(Server { name: "folder".to_owned(), place });
    servers
}

fn server(word: &str) -> Server {
    let (name, fields) = word.split_once('=').expect("name=fields");
    let fields: Vec<String> = fields.split(',').map(str::to_owned).collect();
    let [kind, endpoint, account, bucket, id, secret] = fields.try_into().expect("six fields");
    let prefix = "some/prefix".to_owned();
    let config = match kind.as_str() {
        #[cfg(feature = "swift")]
        "swift" => {
            let config = swift::config(bucket, prefix, endpoint, id, secret);
            return Server { name: name.to_owned(), place: Place::Swift(config) };
        }
        "s3" => CloudConfig::S3(S3Config {
            bucket,
            prefix,
            endpoint,
            has_bucket_in_path: true,
            credentials: S3Credentials::Key {
                id,
                secret: Secret(secret),
                session_token: Secret::default(),
            },
            ..S3Config::default()
        }),
        "azure" => CloudConfig::Azure(AzureConfig {
            account,
            container: bucket,
            prefix,
            endpoint,
            credentials: AzureCredentials::Key(Secret(secret)),
        }),
        "gcs" => CloudConfig::Gcs(GcsConfig {
            bucket,
            prefix,
            endpoint,
            credentials: GcsCredentials::Anonymous,
        }),
        other => panic!("{other} is no kind of a bucket"),
    };
    Server { name: name.to_owned(), place: Place::Cloud(config) }
}

/// Runs a case for each server on each real backend.
fn on_all<F, G>(
    on_monoio: fn(MonoioRuntime, Rc<Server>) -> F,
    on_glommio: fn(glommio_backend::GlommioRuntime, Rc<Server>) -> G,
) where
    F: Future<Output = ()> + 'static,
    G: Future<Output = ()> + 'static,
{
    let options = LaunchOptions::with_cores(1);
    for server in servers() {
        for driver in [MonoioDriver::Epoll, MonoioDriver::Auto] {
            println!("{} on {driver:?}", server.name);
            let server = server.clone();
            let case = move |runtime| on_monoio(runtime, Rc::new(server.clone()));
            launch(&options, driver, case).expect("one core starts");
        }
        if let Err(error) = glommio_backend::launch(&options, |_| async {}) {
            println!("SKIPPED: this machine refuses glommio: {error}");
            continue;
        }
        println!("{} on glommio", server.name);
        let case = move |runtime| on_glommio(runtime, Rc::new(server.clone()));
        glommio_backend::launch(&options, case).expect("one core starts");
    }
}

macro_rules! cases {
    ($($case:ident)*) => {
        mod cases {
            $(#[test]
            fn $case() {
                crate::on_all(crate::$case, crate::$case);
            })*
        }
    };
}

cases! {
    objects_are_created_once
    creates_that_race_have_one_winner
    starts_find_out_who_keeps_creates_apart
    parts_become_one_object
    listings_are_sorted_and_go_on
    wrong_names_are_refused
    a_dead_server_is_an_error
    containers_get_their_credentials
    impossible_folders_are_errors
}

fn client<R: Runtime>(runtime: &R) -> Client<R, PlainDialer<R>> {
    let dialer = PlainDialer::new(runtime.clone());
    Client::new(runtime.clone(), dialer, ClientConfig::default())
}

fn cloud<R: Runtime>(runtime: &R, config: &CloudConfig) -> CloudBucket<R> {
    CloudBucket::new(runtime.clone(), client(runtime), config).expect("good settings")
}

async fn bucket<R: Runtime>(runtime: &R, server: &Server) -> Box<dyn Bucket> {
    match &server.place {
        Place::Cloud(config) => Box::new(cloud(runtime, config)),
        #[cfg(feature = "swift")]
        Place::Swift(config) => Box::new(swift::bucket(runtime, config.clone())),
        Place::Folder(scratch) => {
            let opened = FolderBucket::open(runtime.clone(), &scratch.0).await;
            Box::new(opened.expect("a folder that can be written"))
        }
    }
}

async fn store<R: Runtime>(runtime: &R, server: &Server) -> Store<R> {
    Store::new(runtime.clone(), bucket(runtime, server).await)
}

fn soon<R: Runtime>(runtime: &R) -> Monotonic {
    runtime.now().after(Duration::from_secs(60))
}

/// A name that no other run has.
fn fresh<R: Runtime>(runtime: &R, text: &str) -> ObjectName {
    let (now_ns, chance) = (runtime.unix_nanos(), runtime.random_u64());
    ObjectName::new(&format!("{text}/{now_ns}-{chance:016x}")).expect("a name")
}

async fn objects_are_created_once<R: Runtime>(runtime: R, server: Rc<Server>) {
    let bucket = bucket(&runtime, &server).await;
    let name = fresh(&runtime, "once");
    let until = soon(&runtime);
    assert_eq!(bucket.info(&name, until).await, Err(BucketError::NotFound));
    let span = Span::Range(0..5);
    assert_eq!(bucket.read(&name, span, until).await, Err(BucketError::NotFound));
    let body = Bytes::from_static(b"0123456789");
    bucket.create(&name, body.clone(), until).await.expect("it is free");
    let again = loop {
        match bucket.create(&name, Bytes::from_static(b"other"), until).await {
            // Google's store wants a pause between two creates of one name.
            Err(BucketError::Busy(_)) => {
                runtime.sleep_until(runtime.now().after(Duration::from_millis(200))).await;
            }
            answer => break answer,
        }
    };
    assert!(matches!(again, Err(BucketError::Exists(_))), "{again:?}");
    for (range, expected) in [(0..10, "0123456789"), (3..5, "34"), (8..20, "89"), (20..30, "")] {
        let read = bucket.read(&name, Span::Range(range.clone()), until).await;
        assert_eq!(read.expect("it is there"), expected.as_bytes(), "{range:?}");
    }
    let whole = bucket.read(&name, Span::Whole { max_bytes: 10 }, until).await;
    assert_eq!(whole, Ok(body));
    let whole = bucket.read(&name, Span::Whole { max_bytes: 9 }, until).await;
    assert_eq!(whole, Err(BucketError::TooLarge { max_bytes: 9 }));
    let info = bucket.info(&name, until).await.expect("it is there");
    assert_eq!((&info.name, info.len_bytes), (&name, 10));
    let age_ns = runtime.unix_nanos() - info.created_ns;
    assert!(age_ns.abs() < 120_000_000_000, "it is {age_ns} ns old");
    bucket.remove(&name, until).await.expect("removed");
    bucket.remove(&name, until).await.expect("removed before");
    assert_eq!(bucket.info(&name, until).await, Err(BucketError::NotFound));
}

async fn starts_find_out_who_keeps_creates_apart<R: Runtime>(runtime: R, server: Rc<Server>) {
    // Luck might hide a store that does not. Each start has connections of its own.
    let starts = if server.keeps_creates_apart() { 1 } else { 5 };
    for _ in 0..starts {
        let store = store(&runtime, &server).await;
        let found = self_test(&runtime, &store, soon(&runtime)).await.expect("an answer");
        assert_eq!(found == Honesty::Honest, server.keeps_creates_apart(), "{found:?}");
    }
}

async fn creates_that_race_have_one_winner<R: Runtime>(runtime: R, server: Rc<Server>) {
    if !server.keeps_creates_apart() {
        return;
    }
    let store = store(&runtime, &server).await;
    for _ in 0..5 {
        let name = fresh(&runtime, "race");
        let writers = (0..8).map(|writer| {
            let (store, name) = (store.clone(), name.clone());
            let until = soon(&runtime);
            async move {
                let body = Bytes::from(format!("{writer:016}"));
                (writer, store.create(&name, body, 0..16, until).await.expect("an answer"))
            }
        });
        let results = join_all(writers).await;
        let winners: Vec<u32> = results
            .iter()
            .filter(|(_, created)| created.is_own())
            .map(|(writer, _)| *writer)
            .collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        let own = Bytes::from(format!("{:016}", winners[0]));
        for (writer, created) in results {
            assert!(writer == winners[0] || created == Created::Existing(own.clone()));
        }
    }
}

async fn parts_become_one_object<R: Runtime>(runtime: R, server: Rc<Server>) {
    let store = store(&runtime, &server).await;
    let name = fresh(&runtime, "parts");
    let until = soon(&runtime);
    let bodies = [vec![1; PART_BYTES], vec![2; PART_BYTES], vec![3; 100]].map(Bytes::from);
    let len_bytes: u64 = bodies.iter().map(|body| body.len() as u64).sum();
    let upload = store.begin(&name, until).await.expect("it begins");
    let parts = bodies.iter().enumerate().map(|(number, body)| {
        store.put_part(
            &name,
            &upload,
            PartPlace::of(number, PART_BYTES as u64),
            body.clone(),
            until,
        )
    });
    let parts: Vec<_> =
        join_all(parts).await.into_iter().map(|part| part.expect("a part")).collect();
    assert!(store.info(&name, until).await.expect_err("nothing shows").is_not_found());
    store.complete(&name, &upload, &parts, len_bytes, until).await.expect("complete");
    assert_eq!(store.info(&name, until).await.expect("it is there").len_bytes, len_bytes);
    let at = PART_BYTES as u64;
    let read = store.read(&name, Span::Range(at - 2..at + 2), until).await;
    assert_eq!(read.expect("it is there"), [1, 1, 2, 2].as_slice());
    let all = store.list(&Folder::new("parts").expect("a folder"), None, until).await;
    let listed = all.expect("a listing").into_iter().find(|info| info.name == name);
    assert_eq!(listed.expect("it is listed").len_bytes, len_bytes);
    store.remove(&name, until).await.expect("removed");
    assert!(store.info(&name, until).await.expect_err("it is gone").is_not_found());
    let other = fresh(&runtime, "parts");
    let upload = store.begin(&other, until).await.expect("it begins");
    store.abort(&other, &upload, until).await.expect("given up");
}

async fn listings_are_sorted_and_go_on<R: Runtime>(runtime: R, server: Rc<Server>) {
    let store = store(&runtime, &server).await;
    let folder = fresh(&runtime, "list");
    let until = soon(&runtime);
    let name = |number: u32| ObjectName::new(&format!("{folder}/{number:04}")).expect("a name");
    for number in 0..30 {
        let body = Bytes::from(vec![0; number as usize + 1]);
        let created = store.create(&name(number), body, 0..0, until).await;
        assert_eq!(created, Ok(Created::New));
    }
    let beside = ObjectName::new(&format!("{folder}0")).expect("a name");
    store.create(&beside, Bytes::from_static(b"x"), 0..1, until).await.expect("created");
    let folder = Folder::new(folder.as_str()).expect("a folder");
    let all = store.list(&folder, None, until).await.expect("a listing");
    let expected: Vec<_> = (0..30).map(|number| (name(number), u64::from(number) + 1)).collect();
    let told: Vec<_> = all.into_iter().map(|info| (info.name, info.len_bytes)).collect();
    assert_eq!(told, expected);
    let behind = store.list(&folder, Some(&name(20)), until).await.expect("a listing");
    let told: Vec<_> = behind.into_iter().map(|info| info.name).collect();
    assert_eq!(told, (21..30).map(name).collect::<Vec<_>>());
    let none = Folder::new("none").expect("a folder");
    assert_eq!(store.list(&none, None, until).await, Ok(Vec::new()));
}
