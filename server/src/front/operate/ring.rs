//! `/ring` and its relatives: who does a part of the work, and what each of them owns.
//!
//! The members of every ring of a node without others are its shards. Among others they are the nodes
//! that have the part, as gossip tells, and for partitions the writers of the newest map that this node
//! knows, too.
//!
//! What can go wrong: the page shows what this node knows. One that is cut off knows other things than
//! the others. A node that knows no map has no ring (503).

use std::collections::BTreeMap;

use http::header::{ACCEPT, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use logsvc_cluster::map::{Epoch, Map, Partition};
use logsvc_http::{Request, Response};
use logsvc_membership::engine::ForgetError;
use logsvc_membership::members::{MemberInfo, Members, Standing};
use logsvc_membership::vitals::State as Vital;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{write_rfc3339, write_rfc3339_nano};
use logsvc_runtime::{CoreId, Monotonic, Runtime};
use logsvc_shards::member::{KEEPER_PARTITION, Routes};

use super::memberlist::{forget, forget_fault};
use super::pages::{HTML, escaped, page, text_of};
use crate::config::targets::Part;
use crate::front::core::JSON;
use crate::front::operate::Operator;
use crate::front::query::params;
use crate::services::{Component, State};

/// The time on a ring page that stands for never.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The error of a node that knows no map, in the words of the reference.
const NO_RING: &str = "no ring returned from the KV store";

/// What the members of a ring own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owned {
    /// Partitions.
    Partitions,
    /// All work of the part, which the owner of [`KEEPER_PARTITION`] does for all.
    WorkOfKeeper,
    /// Nothing: any of them takes any request.
    Nothing,
}

/// The ring of a path: its part, and what its members own.
fn ring_of(path: &str) -> (Part, Owned) {
    match path {
        "/distributor/ring" => (Part::Distributor, Owned::Nothing),
        "/compactor/ring" => (Part::Compactor, Owned::WorkOfKeeper),
        "/scheduler/ring" => (Part::QueryScheduler, Owned::Nothing),
        "/ruler/ring" => (Part::Ruler, Owned::WorkOfKeeper),
        "/indexgateway/ring" => (Part::IndexGateway, Owned::Nothing),
        // Who has partitions finds their patterns.
        _ => (Part::Ingester, Owned::Partitions),
    }
}

/// A member of a ring.
#[derive(Clone, Default, PartialEq, Debug)]
struct Member {
    id: String,
    zone: String,
    state: &'static str,
    address: String,
    /// In ns since the Unix epoch; `None` stands for never.
    heartbeat_ns: Option<i64>,
    registered_ns: Option<i64>,
    /// Numbers of partitions.
    tokens: Vec<Partition>,
    /// Of what there is to own, from 0 to 1; `None` if that is nothing.
    share: Option<f64>,
    /// What people should know of it.
    mark: &'static str,
    can_be_forgotten: bool,
}

/// What is shown.
struct Ring {
    members: Vec<Member>,
    /// What the members are, for people.
    text: String,
    now_ns: i64,
    /// Whether people want to see the numbers of partitions.
    shows_tokens: bool,
}

impl<R: Runtime> Operator<R> {
    /// The members of a ring as a page, or as JSON if the client accepts JSON. POST forgets the dead
    /// members with the instance ID that `forget` names.
    ///
    /// # Errors
    /// 503: this node knows no map yet, or there is no member to forget. 400: nothing is to be forgotten.
    /// 409: the member lives, or still has partitions.
    pub(crate) async fn ring_page(&self, request: &Request) -> Result<Response, ApiError> {
        let params = params::of(request)?;
        if request.head.method == Method::POST {
            return self.forget_in_ring(params.get_non_empty("forget")).await;
        }
        let mut ring = match self.core.cluster() {
            None => self.shards(),
            Some(_) => self.nodes(&request.head.path)?,
        };
        ring.shows_tokens = params.get("tokens") == Some("true");
        let accept = request.head.header(ACCEPT).unwrap_or_default();
        let (media_type, body) = if accept.contains("application/json") {
            (JSON, ring.json())
        } else {
            (HTML, ring.html().into_bytes())
        };
        Ok(Response::new(StatusCode::OK).with_content_type(media_type).with_body(body))
    }

    /// The shards of a node without others.
    fn shards(&self) -> Ring {
        let (count, now_ns) = (self.core.runtime.core_count(), self.core.runtime.unix_nanos());
        let member = |core: u16| Member {
            id: format!("shard-{core}"),
            state: ring_state(self.core.node.services.share(CoreId(core), Component::Ingester)),
            address: self.core.config().http_address.to_string(),
            heartbeat_ns: Some(now_ns),
            registered_ns: Some(self.started_ns),
            share: Some(1.0 / f64::from(count.max(1))),
            can_be_forgotten: true,
            ..Member::default()
        };
        let members = (0..count).map(member).collect();
        let text = "The members are the shards of this node.".to_owned();
        Ring { members, text, now_ns, shows_tokens: false }
    }

    /// The nodes in the ring of a path.
    fn nodes(&self, path: &str) -> Result<Ring, ApiError> {
        let membership = self.core.cluster().and_then(|cluster| cluster.membership());
        let routes = self.core.routes().filter(|routes| routes.number > 0);
        let (Some(membership), Some(routes)) = (membership, routes) else { return Err(no_ring()) };
        let seen = Seen {
            members: &membership.members(),
            routes: &routes,
            now: self.core.runtime.now(),
            now_ns: self.core.runtime.unix_nanos(),
        };
        let (part, owned) = ring_of(path);
        Ok(seen.ring(part, owned))
    }

    async fn forget_in_ring(&self, instance: Option<&str>) -> Result<Response, ApiError> {
        let Some(cluster) = self.core.cluster() else {
            // The button of the page; a shard comes back by itself.
            let mut response = Response::new(StatusCode::FOUND);
            response.headers.insert(LOCATION, HeaderValue::from_static("#"));
            return Ok(response);
        };
        let membership = cluster.membership().ok_or_else(no_ring)?;
        let routes = self.core.routes();
        let fault = |instance: &str, error| ring_fault(instance, error, routes.as_deref());
        forget(membership, instance, fault).await
    }
}

fn no_ring() -> ApiError {
    ApiError::unavailable(NO_RING).with_newline()
}

/// Why a member cannot be forgotten.
fn ring_fault(instance: &str, error: ForgetError, routes: Option<&Routes>) -> ApiError {
    if error != ForgetError::Unknown {
        return forget_fault(instance, error).with_newline();
    }
    let mut members = routes.into_iter().flat_map(|routes| routes.map.members.values());
    if members.any(|info| info.name == instance) {
        let text = format!("cannot forget {instance}: other nodes are about to take over from it");
        return ApiError::new(StatusCode::CONFLICT, text).with_newline();
    }
    ApiError::unavailable(format!("instance {instance} not found in the ring")).with_newline()
}

/// What this node knows of the others.
struct Seen<'n> {
    members: &'n Members,
    routes: &'n Routes,
    now: Monotonic,
    now_ns: i64,
}

impl Seen<'_> {
    fn ring(&self, part: Part, owned: Owned) -> Ring {
        let map = &self.routes.map;
        let mut tokens = tokens(map, owned);
        let total = match owned {
            Owned::Partitions => map.slots.len(),
            Owned::WorkOfKeeper => 1,
            Owned::Nothing => 0,
        };
        let is_in_map = |epoch: &Epoch| map.members.contains_key(epoch);
        let unowned = total
            - tokens
                .iter()
                .filter(|(epoch, _)| is_in_map(epoch))
                .map(|(_, it)| it.len())
                .sum::<usize>();
        let share = |tokens: &[Partition]| (total > 0).then(|| tokens.len() as f64 / total as f64);
        let mut members = Vec::new();
        let mut told = Vec::new();
        for info in &self.members.list {
            let epoch = info.vitals.writer_epoch.map(Epoch);
            let tokens = epoch.and_then(|epoch| tokens.remove(&epoch)).unwrap_or_default();
            if info.vitals.roles.has(part) || !tokens.is_empty() {
                members.push(Member { share: share(&tokens), tokens, ..self.member(info, owned) });
            }
            told.extend(epoch);
        }
        // Gossip does not know them, or not yet.
        let others = map.members.iter().filter(|(epoch, _)| {
            owned == Owned::Partitions && !map.is_guest(**epoch) && !told.contains(epoch)
        });
        for (epoch, info) in others {
            let tokens = tokens.remove(epoch).unwrap_or_default();
            members.push(Member {
                id: info.name.clone(),
                zone: info.zone.clone(),
                state: "UNHEALTHY",
                address: info.address.clone(),
                share: share(&tokens),
                tokens,
                ..Member::default()
            });
        }
        members.sort_by(|one, other| one.id.cmp(&other.id));
        let what = match owned {
            Owned::Partitions => "Tokens are partitions",
            Owned::WorkOfKeeper => "The keeper does the work of all, whatever its parts",
            Owned::Nothing => "Any of them takes any request",
        };
        let mut text = format!("The members are nodes, as this node sees them. {what}.");
        if unowned > 0 && owned == Owned::Partitions {
            text += &format!(" {unowned} of {total} partitions have no owner that lives.");
        }
        Ring { members, text, now_ns: self.now_ns, shows_tokens: false }
    }

    /// A node that gossip knows.
    fn member(&self, info: &MemberInfo, owned: Owned) -> Member {
        let vitals = &info.vitals;
        let is_me = info.identity == self.members.me;
        let keeper = self.routes.map.live_owner(KEEPER_PARTITION);
        let keeps = owned == Owned::WorkOfKeeper
            && keeper.is_some_and(|keeper| vitals.writer_epoch == Some(keeper.0));
        let age = if is_me { 0 } else { info.age(self.now).as_nanos() };
        let age_ns = i64::try_from(age).unwrap_or(i64::MAX);
        let registered_ms = i64::try_from(vitals.started_unix_ms).unwrap_or(i64::MAX);
        Member {
            id: vitals.instance.clone(),
            zone: vitals.zone.clone(),
            state: match info.standing {
                Standing::Alive | Standing::Suspected => vitals.state.as_str(),
                Standing::Dead if vitals.state == Vital::Left => Vital::Left.as_str(),
                Standing::Dead => "UNHEALTHY",
            },
            address: vitals.transport.unwrap_or(info.identity.address).to_string(),
            heartbeat_ns: Some(self.now_ns.saturating_sub(age_ns)),
            registered_ns: Some(registered_ms.saturating_mul(1_000_000)),
            mark: match (is_me, keeps) {
                (true, true) => " (this node, keeper)",
                (true, false) => " (this node)",
                (false, true) => " (keeper)",
                (false, false) => "",
            },
            can_be_forgotten: info.standing == Standing::Dead,
            ..Member::default()
        }
    }
}

/// What each writer owns, ended or not.
fn tokens(map: &Map, owned: Owned) -> BTreeMap<Epoch, Vec<Partition>> {
    let mut tokens: BTreeMap<Epoch, Vec<Partition>> = BTreeMap::new();
    for (partition, slot) in map.partitions() {
        let counts = match owned {
            Owned::Partitions => true,
            Owned::WorkOfKeeper => partition == KEEPER_PARTITION,
            Owned::Nothing => false,
        };
        if let Some(owner) = slot.owner.filter(|_| counts) {
            tokens.entry(owner).or_default().push(partition);
        }
    }
    tokens
}

/// The state of a shard in the words of the rings.
fn ring_state(state: State) -> &'static str {
    match state {
        State::New => "PENDING",
        State::Starting => "JOINING",
        State::Running => "ACTIVE",
        State::Stopping => "LEAVING",
        State::Terminated => "LEFT",
        State::Failed => "UNHEALTHY",
    }
}

/// A time in ns since the Unix epoch, to the second.
fn seconds(ns: Option<i64>) -> String {
    ns.map_or_else(|| NEVER.to_owned(), |ns| text_of(|out| write_rfc3339(Some(ns), out)))
}

impl Ring {
    fn json(&self) -> Vec<u8> {
        let mut out = b"{\"shards\":".to_vec();
        if self.members.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            out.push(b'[');
            for (place, member) in self.members.iter().enumerate() {
                out.extend_from_slice(if place > 0 { b",{" } else { b"{" });
                member.write_json(&mut out);
            }
            out.push(b']');
        }
        out.extend_from_slice(b",\"now\":");
        write_json_text(&text_of(|out| write_rfc3339_nano(Some(self.now_ns), out)), &mut out);
        out.extend_from_slice(b"}\n");
        out
    }

    fn html(&self) -> String {
        const COLUMNS: [&str; 11] = [
            "Instance ID",
            "Availability Zone",
            "State",
            "Address",
            "Registered At",
            "Read-Only",
            "Read-Only Updated",
            "Last Heartbeat",
            "Tokens",
            "Ownership",
            "Actions",
        ];
        let header: String = COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
        let rows: String = self.members.iter().map(|one| one.row(self.shows_tokens)).collect();
        page(
            "Ring Status",
            &format!(
                "<p>Current time: {}. {}</p>\n\
                 <table border=\"1\">\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
                 </table>\n",
                seconds(Some(self.now_ns)),
                self.text,
            ),
        )
    }
}

impl Member {
    /// All of it behind the first brace.
    fn write_json(&self, out: &mut Vec<u8>) {
        let fields = [
            ("id", self.id.as_str()),
            ("state", self.state),
            ("address", &self.address),
            ("timestamp", &seconds(self.heartbeat_ns)),
            ("registered_timestamp", &seconds(self.registered_ns)),
            ("read_only_updated_timestamp", NEVER),
            ("zone", &self.zone),
        ];
        for (name, value) in fields {
            write_json_text(name, out);
            out.push(b':');
            write_json_text(value, out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"read_only\":false,\"tokens\":[");
        out.extend_from_slice(self.listed_tokens(",").as_bytes());
        out.extend_from_slice(b"]}");
    }

    fn listed_tokens(&self, between: &str) -> String {
        let tokens: Vec<String> = self.tokens.iter().map(Partition::to_string).collect();
        tokens.join(between)
    }

    fn row(&self, shows_tokens: bool) -> String {
        let id = escaped(&self.id);
        let action = if self.can_be_forgotten {
            format!(
                "<form method=\"POST\"><button name=\"forget\" value=\"{id}\">Forget</button></form>"
            )
        } else {
            String::new()
        };
        let listed = if shows_tokens && !self.tokens.is_empty() {
            format!(": {}", self.listed_tokens(", "))
        } else {
            String::new()
        };
        let cells = [
            format!("{id}{}", self.mark),
            escaped(&self.zone),
            self.state.to_owned(),
            escaped(&self.address),
            self.registered_ns.map_or_else(String::new, |ns| seconds(Some(ns))),
            "false".to_owned(),
            String::new(),
            self.heartbeat_ns.map_or_else(String::new, |ns| seconds(Some(ns))),
            format!("{}{listed}", self.tokens.len()),
            self.share.map_or_else(String::new, |share| format!("{:.2}%", 100.0 * share)),
            action,
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>\n")
    }
}

#[cfg(test)]
mod tests;
