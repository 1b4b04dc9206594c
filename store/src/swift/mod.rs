//! A bucket that is a container of Swift, or of a store that speaks like it.
//!
//! # Formats
//!
//! <https://docs.openstack.org/api-ref/object-store/>. An object in parts is a static large object:
//! its parts are objects below [`PARTS`], a folder that no name of an object has, and its manifest
//! has its name.
//!
//! # What can go wrong
//!
//! - **OpenStack's own Swift does not keep creates apart.** `If-None-Match: *` is looked at before
//!   the body is taken, so creates that race may all succeed, and the last one stays. The first
//!   start finds that out and refuses ([`crate::self_test`]), but for luck. This is for stores that
//!   speak Swift's language and create exclusively.
//! - Parts of a writer that died stay until somebody removes them.

mod config;
mod errors;
mod exchange;
mod listing;
mod session;
mod times;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::{ACCEPT, CONTENT_LENGTH, ETAG, IF_NONE_MATCH, RANGE};
use http::{HeaderMap, HeaderValue, Method};
use logsvc_http::client::Client;
use logsvc_http::escape;
use logsvc_runtime::{Dial, Monotonic, Runtime};
use serde_json::json;

use crate::bucket::{
    Answer, Bucket, BucketError, ObjectInfo, Page, PartId, PartPlace, Reason, Span, UploadId,
};
use crate::name::{Folder, ObjectName};
pub use config::{IdOrName, SwiftConfig, SwiftCredentials, SwiftPlace, SwiftUser};
use errors::{of_client, of_container};
use listing::{Entry, entries, removed};
use session::{Ask, Sessions};
use times::of_seconds;

/// The folder of parts. No name of an object has this character.
const PARTS: &str = ".parts~/";
/// Behind all names of parts, and before all names of objects that come later.
const BEHIND_PARTS: &str = ".parts~0";
/// Entries of a listing.
const PAGE_OBJECTS: usize = 1000;
/// The longest listing: a name may take six times its bytes.
const LISTING_MAX_BYTES: u64 = 8 << 20;
/// The longest object or piece of one.
const OBJECT_MAX_BYTES: u64 = 80 << 20;

/// A container of Swift. Stays on its core.
pub struct SwiftBucket<R, D: Dial> {
    runtime: R,
    sessions: Sessions<R, D>,
    container: String,
    /// Before every name; empty, or with a `/` at its end.
    prefix: String,
    address: String,
}

impl<R: Runtime, D: Dial> SwiftBucket<R, D> {
    /// The bucket of these settings. Its requests are sent with `client`. Sends nothing yet.
    pub fn new(runtime: R, client: Client<R, D>, config: SwiftConfig) -> SwiftBucket<R, D> {
        SwiftBucket {
            container: config.container.clone(),
            prefix: config.whole_prefix(),
            address: config.address(),
            sessions: Sessions::new(runtime.clone(), client, config),
            runtime,
        }
    }

    /// The address of an object or a part behind that of the account.
    fn path(&self, name: &str) -> String {
        format!("/{}/{}", escaped(&self.container), escaped(&format!("{}{name}", self.prefix)))
    }

    fn ask(&self, method: Method, name: &str) -> Ask {
        Ask::new(method, self.path(name))
    }

    /// Ends a request at its deadline.
    async fn in_time<T>(
        &self,
        until: Monotonic,
        request: impl Future<Output = Result<T, BucketError>>,
    ) -> Result<T, BucketError> {
        match select(Box::pin(request), Box::pin(self.runtime.sleep_until(until))).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(BucketError::failed("no answer in time")),
        }
    }

    /// Sends a request that puts something into the container.
    async fn put(&self, ask: Ask) -> Result<HeaderMap, BucketError> {
        let put = self.sessions.fetch(&ask).await;
        put.map(|(headers, _)| headers).map_err(|error| of_container(error, &self.container))
    }

    async fn read_now(&self, name: &ObjectName, span: Span) -> Result<Bytes, BucketError> {
        let mut ask = self.ask(Method::GET, name.as_str());
        match span {
            Span::Range(range) if range.is_empty() => return Ok(Bytes::new()),
            Span::Range(range) => {
                let text = format!("bytes={}-{}", range.start, range.end - 1);
                ask.headers.insert(RANGE, header(text)?);
                ask.max_bytes = range.end - range.start;
            }
            Span::Whole { max_bytes } => ask.max_bytes = max_bytes,
        }
        ask.max_bytes = ask.max_bytes.min(OBJECT_MAX_BYTES);
        let is_range = ask.headers.contains_key(RANGE);
        let answer = match self.sessions.send(&ask).await {
            // The range begins behind the object.
            Err(BucketError::Refused(Reason(text))) if is_range && text.starts_with("416") => {
                return Ok(Bytes::new());
            }
            answer => answer?,
        };
        if answer.left_bytes().is_some_and(|left| left > ask.max_bytes) {
            return Err(match is_range {
                true => BucketError::failed("the range is answered with more than it has"),
                false => BucketError::TooLarge { max_bytes: ask.max_bytes },
            });
        }
        let max_bytes = usize::try_from(ask.max_bytes).unwrap_or(usize::MAX);
        Ok(answer.collect(max_bytes).await.map_err(of_client)?.into())
    }

    async fn info_now(&self, name: &ObjectName) -> Result<(ObjectInfo, bool), BucketError> {
        let (headers, _) = self.sessions.fetch(&self.ask(Method::HEAD, name.as_str())).await?;
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let len_bytes = text(CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok());
        let created_ns = text("x-timestamp").and_then(of_seconds);
        let is_large =
            text("x-static-large-object").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        match len_bytes.zip(created_ns) {
            Some((len_bytes, created_ns)) => {
                Ok((ObjectInfo { name: name.clone(), len_bytes, created_ns }, is_large))
            }
            None => Err(BucketError::failed("the answer has no length or no X-Timestamp")),
        }
    }

    /// Entries of the container behind a name.
    async fn entries(&self, prefix: &str, behind: &str) -> Result<Vec<Entry>, BucketError> {
        let query = format!(
            "format=json&limit={PAGE_OBJECTS}&prefix={}&marker={}",
            escape(prefix),
            escape(behind)
        );
        let mut ask = Ask::new(Method::GET, format!("/{}?{query}", escaped(&self.container)));
        ask.max_bytes = LISTING_MAX_BYTES;
        let answer = self.sessions.fetch(&ask).await;
        let (_, body) = answer.map_err(|error| of_container(error, &self.container))?;
        entries(&body)
    }

    async fn list_now(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
    ) -> Result<Page, BucketError> {
        let prefix = format!("{}{}", self.prefix, folder.as_str());
        let parts = format!("{}{PARTS}", self.prefix);
        let mut behind = after.map_or_else(String::new, |after| format!("{}{after}", self.prefix));
        loop {
            let found = self.entries(&prefix, &behind).await?;
            let has_more = found.len() >= PAGE_OBJECTS;
            let Some(last) = found.last() else { return Ok(Page::default()) };
            let next = match last.name.starts_with(&parts) {
                true => format!("{}{BEHIND_PARTS}", self.prefix),
                false => last.name.clone(),
            };
            let objects = found.iter().filter_map(|entry| entry.info(&self.prefix));
            // A server that does not know where to begin would be asked for ever.
            let objects = objects.filter(|info| after.is_none_or(|after| info.name > *after));
            let objects: Vec<ObjectInfo> = objects.collect();
            // A page without objects would pass for the end.
            if !objects.is_empty() || !has_more {
                return Ok(Page { objects, has_more });
            }
            if next <= behind {
                return Err(BucketError::failed("the listing does not go on"));
            }
            behind = next;
        }
    }

    async fn remove_now(&self, name: &ObjectName) -> Result<(), BucketError> {
        // Only a large object may be asked to take its parts along.
        let is_large = match self.info_now(name).await {
            Err(BucketError::NotFound) => return Ok(()),
            info => info?.1,
        };
        if !is_large {
            return self.remove_one(self.path(name.as_str())).await;
        }
        let mut ask = self.ask(Method::DELETE, name.as_str());
        ask.path.push_str("?multipart-manifest=delete");
        ask.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        match self.sessions.fetch(&ask).await {
            Err(BucketError::NotFound) => Ok(()),
            answer => removed(&answer?.1),
        }
    }

    async fn remove_one(&self, path: String) -> Result<(), BucketError> {
        match self.sessions.fetch(&Ask::new(Method::DELETE, path)).await {
            Ok(_) | Err(BucketError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn abort_now(&self, folder: &str) -> Result<(), BucketError> {
        let (prefix, mut behind) = (format!("{}{folder}", self.prefix), String::new());
        loop {
            let found = self.entries(&prefix, &behind).await?;
            for entry in &found {
                let path = format!("/{}/{}", escaped(&self.container), escaped(&entry.name));
                self.remove_one(path).await?;
            }
            match found.last() {
                Some(last) if found.len() >= PAGE_OBJECTS && last.name > behind => {
                    behind.clone_from(&last.name);
                }
                _ => return Ok(()),
            }
        }
    }
}

/// The folder of the parts of an upload.
fn folder_of(name: &ObjectName, upload: &UploadId) -> String {
    format!("{PARTS}{name}/{}/", upload.0)
}

/// A part as an id: its name, length and tag.
fn part_id(name: &str, len_bytes: usize, etag: &str) -> PartId {
    PartId(format!("{len_bytes} {etag} {name}"))
}

/// The manifest of parts.
fn manifest(container: &str, prefix: &str, parts: &[PartId]) -> Result<Bytes, BucketError> {
    let mut list = Vec::new();
    for PartId(text) in parts {
        let mut words = text.splitn(3, ' ');
        let (Some(len_bytes), Some(etag), Some(name)) = (words.next(), words.next(), words.next())
        else {
            return Err(BucketError::failed("a part of another bucket"));
        };
        let len_bytes: u64 = len_bytes.parse().map_err(BucketError::failed)?;
        let path = format!("/{container}/{prefix}{name}");
        let mut part = json!({"path": path, "size_bytes": len_bytes});
        if !etag.is_empty() {
            part["etag"] = json!(etag);
        }
        list.push(part);
    }
    Ok(json!(list).to_string().into_bytes().into())
}

/// Escapes a path for an address.
fn escaped(path: &str) -> String {
    let parts: Vec<String> = path.split('/').map(|it| escape(it).replace('+', "%20")).collect();
    parts.join("/")
}

fn header(text: String) -> Result<HeaderValue, BucketError> {
    HeaderValue::try_from(text).map_err(BucketError::failed)
}

impl<R: Runtime, D: Dial> Bucket for SwiftBucket<R, D> {
    fn create(&self, name: &ObjectName, body: Bytes, until: Monotonic) -> Answer<'_, ()> {
        let mut ask = self.ask(Method::PUT, name.as_str());
        ask.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        ask.body = body;
        Box::pin(async move { self.in_time(until, self.put(ask)).await.map(|_| ()) })
    }

    fn begin(&self, _: &ObjectName, _: Monotonic) -> Answer<'_, UploadId> {
        let chance = [(); 2].map(|()| self.runtime.random_u64());
        let upload = UploadId(format!("{:016x}{:016x}", chance[0], chance[1]));
        Box::pin(std::future::ready(Ok(upload)))
    }

    fn put_part(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        place: PartPlace,
        body: Bytes,
        until: Monotonic,
    ) -> Answer<'_, PartId> {
        let part = format!("{}{:08}", folder_of(name, upload), place.number);
        let len_bytes = body.len();
        let mut ask = self.ask(Method::PUT, &part);
        ask.body = body;
        Box::pin(async move {
            let headers = self.in_time(until, self.put(ask)).await?;
            let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or("");
            Ok(part_id(&part, len_bytes, etag.trim_matches('"')))
        })
    }

    fn complete(
        &self,
        name: &ObjectName,
        _: &UploadId,
        parts: Vec<PartId>,
        until: Monotonic,
    ) -> Answer<'_, ()> {
        let mut ask = self.ask(Method::PUT, name.as_str());
        ask.path.push_str("?multipart-manifest=put");
        ask.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        let body = manifest(&self.container, &self.prefix, &parts);
        Box::pin(async move {
            ask.body = body?;
            self.in_time(until, self.put(ask)).await.map(|_| ())
        })
    }

    fn abort(&self, name: &ObjectName, upload: &UploadId, until: Monotonic) -> Answer<'_, ()> {
        let folder = folder_of(name, upload);
        Box::pin(async move { self.in_time(until, self.abort_now(&folder)).await })
    }

    fn read(&self, name: &ObjectName, span: Span, until: Monotonic) -> Answer<'_, Bytes> {
        let name = name.clone();
        Box::pin(async move { self.in_time(until, self.read_now(&name, span)).await })
    }

    fn info(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ObjectInfo> {
        let name = name.clone();
        Box::pin(
            async move { self.in_time(until, self.info_now(&name)).await.map(|(info, _)| info) },
        )
    }

    fn list(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
        until: Monotonic,
    ) -> Answer<'_, Page> {
        let (folder, after) = (folder.clone(), after.cloned());
        Box::pin(async move { self.in_time(until, self.list_now(&folder, after.as_ref())).await })
    }

    fn remove(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ()> {
        let name = name.clone();
        Box::pin(async move { self.in_time(until, self.remove_now(&name)).await })
    }

    fn address(&self) -> &str {
        &self.address
    }
}
