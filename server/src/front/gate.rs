//! Asks who a client is, where the server has a file of accounts.
//!
//! Guarantees: no handler sees a request without the name and password, or the token, of an account.
//! Probes of whether the node lives and is ready, and OPTIONS, need none. An account with a tenant
//! asks for this tenant alone and changes nothing of the node. A password is checked on a side
//! thread once for each core; until the file changes its hash, with a key of this process, is
//! compared afterwards. No more than [`CHECKS_MAX`] passwords are checked at a time for a core, and
//! names that are not known take as long as others.
//!
//! What can go wrong: the credentials are missing or wrong (401), the account may not do this (403),
//! or too many passwords are being checked (429).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use logsvc_http::{RequestHead, Response};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use sha2::{Digest, Sha256};

use super::core::{Core, tenant_header};
use crate::users::Users;

const TENANT_HEADER: HeaderName = HeaderName::from_static("x-scope-orgid");

/// Passwords of one core that may be checked at a time.
const CHECKS_MAX: usize = 4;

/// What a route asks of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Right {
    /// Nothing: everybody may.
    Open,
    /// Any account.
    Account,
    /// An account that acts for no tenant alone: the route shows or changes the whole node.
    WholeNode,
}

/// Who sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Who {
    /// Everybody: there is no file.
    Anybody,
    /// An account, which may act for one tenant alone.
    Account { tenant: Option<TenantId> },
}

/// What a client says of itself.
enum Credentials {
    Basic { name: String, password: Vec<u8> },
    Bearer(Vec<u8>),
}

/// What is known before a password is checked.
enum Judged {
    Known(Who),
    /// The password is to be checked.
    Open {
        name: String,
        password: Vec<u8>,
    },
    Refused,
}

/// The hash of the last good password of a name.
struct Good {
    hash: [u8; 32],
    /// Of the file that it was checked against.
    version: u64,
}

/// See the module.
pub(super) struct Gate {
    /// Part of each hash, so that a hash is of no use elsewhere.
    key: [u8; 32],
    good: RefCell<BTreeMap<String, Good>>,
    checks: Cell<usize>,
    /// The accounts as this core knows them, with their version.
    seen: RefCell<(u64, Option<Arc<Users>>)>,
}

impl Gate {
    pub(super) fn new<R: Runtime>(runtime: &R) -> Gate {
        let mut key = [0; 32];
        for bytes in key.chunks_mut(8) {
            bytes.copy_from_slice(&runtime.random_u64().to_le_bytes());
        }
        Gate { key, good: RefCell::default(), checks: Cell::new(0), seen: RefCell::default() }
    }

    /// Refuses a request whose body is of no use, because there are no credentials or because they
    /// are known to be wrong. Others go to [`Gate::pass`].
    ///
    /// # Errors
    /// See the module.
    pub(super) fn admit<R: Runtime>(
        &self,
        core: &Core<R>,
        head: &RequestHead,
        right: Right,
    ) -> Result<(), ApiError> {
        match self.judge(core, head, right) {
            Judged::Known(who) => who.check(head, right),
            Judged::Open { .. } if self.checks.get() >= CHECKS_MAX => Err(too_many()),
            Judged::Open { .. } => Ok(()),
            Judged::Refused => Err(unauthorized()),
        }
    }

    /// Lets a request pass, which names its tenant afterwards if its account has one.
    ///
    /// # Errors
    /// See the module.
    pub(super) async fn pass<R: Runtime>(
        &self,
        core: &Core<R>,
        head: &mut RequestHead,
        right: Right,
    ) -> Result<(), ApiError> {
        let who = match self.judge(core, head, right) {
            Judged::Known(who) => who,
            Judged::Open { name, password } => self.check(core, name, password).await?,
            Judged::Refused => return Err(unauthorized()),
        };
        who.check(head, right)?;
        if let Who::Account { tenant: Some(tenant) } = who {
            // The ids of tenants are visible ASCII.
            let value = HeaderValue::from_str(tenant.as_str())
                .map_err(|_| ApiError::bad_request("the tenant cannot be in a header"))?;
            head.headers.insert(TENANT_HEADER, value);
        }
        Ok(())
    }

    /// The accounts in force, with their version; `None` where nobody is asked.
    fn users<R: Runtime>(&self, core: &Core<R>) -> Option<(Arc<Users>, u64)> {
        let version = core.node.entrance.users.version();
        if version == 0 {
            return None;
        }
        let mut seen = self.seen.borrow_mut();
        if seen.0 != version {
            *seen = (version, core.node.entrance.users.current());
            self.good.borrow_mut().clear();
        }
        seen.1.clone().map(|users| (users, version))
    }

    fn judge<R: Runtime>(&self, core: &Core<R>, head: &RequestHead, right: Right) -> Judged {
        let Some((users, version)) = self.users(core) else {
            return Judged::Known(Who::Anybody);
        };
        if right == Right::Open {
            return Judged::Known(Who::Anybody);
        }
        match Credentials::of(head) {
            None => Judged::Refused,
            Some(Credentials::Bearer(token)) => match users.by_token(&token) {
                Some(account) => Judged::Known(Who::Account { tenant: account.tenant.clone() }),
                None => Judged::Refused,
            },
            Some(Credentials::Basic { name, password }) => {
                let good = self.good.borrow();
                let is_good = good.get(&name).is_some_and(|good| {
                    good.version == version && good.hash == self.hash(&name, &password)
                });
                match users.by_name(&name) {
                    Some(account) if is_good => {
                        Judged::Known(Who::Account { tenant: account.tenant.clone() })
                    }
                    _ => Judged::Open { name, password },
                }
            }
        }
    }

    async fn check<R: Runtime>(
        &self,
        core: &Core<R>,
        name: String,
        password: Vec<u8>,
    ) -> Result<Who, ApiError> {
        let Some((users, version)) = self.users(core) else {
            return Ok(Who::Anybody);
        };
        if self.checks.get() >= CHECKS_MAX {
            return Err(too_many());
        }
        let _counted = Counted::new(&self.checks);
        let hash = self.hash(&name, &password);
        let asked = name.clone();
        let work = move || account_of(&users, &asked, &password);
        let Some(tenant) = core.runtime.offload(work).await else { return Err(unauthorized()) };
        self.good.borrow_mut().insert(name, Good { hash, version });
        Ok(Who::Account { tenant })
    }

    fn hash(&self, name: &str, password: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(password);
        hash.finalize().into()
    }
}

/// The tenant of the account with this name and password, if there is one. Takes its time.
fn account_of(users: &Arc<Users>, name: &str, password: &[u8]) -> Option<Option<TenantId>> {
    match users.by_name(name) {
        Some(account) => account.has_password(password).then(|| account.tenant.clone()),
        None => {
            users.pretend_to_check(password);
            None
        }
    }
}

/// Counts a check while it runs.
struct Counted<'c>(&'c Cell<usize>);

impl Counted<'_> {
    fn new(count: &Cell<usize>) -> Counted<'_> {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Who {
    /// Whether the account may do this.
    fn check(&self, head: &RequestHead, right: Right) -> Result<(), ApiError> {
        let Who::Account { tenant: Some(tenant) } = self else { return Ok(()) };
        if right == Right::WholeNode {
            let text = "this account acts for one tenant, and this is about the whole node";
            return Err(ApiError::forbidden(text).with_newline());
        }
        match tenant_header(head)? {
            Some(asked) if asked != tenant.as_str().as_bytes() => {
                let text = "this account acts for another tenant than X-Scope-OrgID names";
                Err(ApiError::forbidden(text).with_newline())
            }
            _ => Ok(()),
        }
    }
}

impl Credentials {
    /// Those of a request that has exactly one header with good ones.
    fn of(head: &RequestHead) -> Option<Credentials> {
        let mut values = head.headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let (scheme, rest) = value.to_str().ok()?.trim().split_once(' ')?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Credentials::Bearer(rest.as_bytes().to_vec()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let text = STANDARD.decode(rest).ok()?;
        let colon = text.iter().position(|&byte| byte == b':')?;
        let name = std::str::from_utf8(&text[..colon]).ok()?.to_owned();
        Some(Credentials::Basic { name, password: text[colon + 1..].to_vec() })
    }
}

/// Tells a client how to say who it is, if this was the error. A missing tenant is none: browsers
/// would ask people for a password that does not exist.
pub(super) fn with_challenge(mut response: Response, error: &ApiError) -> Response {
    if response.status == StatusCode::UNAUTHORIZED && *error == unauthorized() {
        let challenge = HeaderValue::from_static("Basic realm=\"logsvc\", charset=\"UTF-8\"");
        response.headers.insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

fn unauthorized() -> ApiError {
    let text = "name and password, or a bearer token, of an account are needed";
    ApiError::new(StatusCode::UNAUTHORIZED, text).with_newline()
}

fn too_many() -> ApiError {
    ApiError::too_many_requests("too many passwords are being checked", 1).with_newline()
}
