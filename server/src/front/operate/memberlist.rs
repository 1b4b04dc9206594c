//! `/memberlist`: the nodes that this one knows, and the button that makes all nodes forget a dead one.
//!
//! What the page shows is what this node believes. A node that has been cut off believes other things.

use http::header::{ACCEPT, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use logsvc_http::{Request, Response};
use logsvc_membership::engine::ForgetError;
use logsvc_membership::members::{MemberInfo, Members, Standing};
use logsvc_membership::membership::Membership;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{write_rfc3339, write_rfc3339_nano};
use logsvc_runtime::{Monotonic, Runtime};

use super::pages::{HTML, escaped, page, text_of};
use crate::front::core::JSON;
use crate::front::operate::Operator;
use crate::front::query::params;

impl<R: Runtime> Operator<R> {
    /// The members as a page, or as JSON if the client accepts JSON. POST forgets the dead members with
    /// the instance ID that `forget` names.
    ///
    /// # Errors
    /// 400: nothing is to be forgotten. 404: there is no such member. 409: it is alive. 503: the node
    /// does not take part any more.
    pub(crate) async fn memberlist(&self, request: &Request) -> Result<Response, ApiError> {
        let Some(membership) = self.core.cluster().and_then(|cluster| cluster.membership()) else {
            return Ok(Response::text(StatusCode::OK, "This instance doesn't use memberlist."));
        };
        if request.head.method == Method::POST {
            let params = params::of(request)?;
            return forget(membership, params.get_non_empty("forget"), forget_fault).await;
        }
        let members = membership.members();
        let now_ns = self.core.runtime.unix_nanos();
        let list = List { members: &members, now: self.core.runtime.now(), now_ns };
        let accept = request.head.header(ACCEPT).unwrap_or_default();
        let (media_type, body) = match accept.contains("application/json") {
            true => (JSON, list.json()),
            false => (HTML, list.html().into_bytes()),
        };
        Ok(Response::new(StatusCode::OK).with_content_type(media_type).with_body(body))
    }
}

/// Forgets dead members with an instance ID, and leads back to the page. `fault` says why it cannot.
pub(super) async fn forget(
    membership: &Membership,
    instance: Option<&str>,
    fault: impl FnOnce(&str, ForgetError) -> ApiError,
) -> Result<Response, ApiError> {
    let instance = instance.ok_or_else(|| {
        ApiError::bad_request("forget: the instance ID of a dead member is missing")
    })?;
    membership.forget(instance).await.map_err(|error| fault(instance, error))?;
    tracing::info!(instance, "a dead member was forgotten");
    let mut response = Response::new(StatusCode::FOUND);
    response.headers.insert(LOCATION, HeaderValue::from_static("#"));
    Ok(response)
}

pub(super) fn forget_fault(instance: &str, error: ForgetError) -> ApiError {
    let status = match error {
        ForgetError::Unknown => StatusCode::NOT_FOUND,
        ForgetError::Alive => StatusCode::CONFLICT,
        ForgetError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
    };
    ApiError::new(status, format!("cannot forget {instance}: {error}"))
}

/// What is shown.
struct List<'m> {
    members: &'m Members,
    now: Monotonic,
    now_ns: i64,
}

/// The word for what is believed of a member, and the number that the reference has for it.
fn standing(standing: Standing) -> (&'static str, u8) {
    match standing {
        Standing::Alive => ("alive", 0),
        Standing::Suspected => ("suspected", 1),
        Standing::Dead => ("dead", 2),
    }
}

/// A number, or the text for none.
fn or_none<T: ToString>(value: Option<T>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

impl List<'_> {
    fn seconds_since(&self, then: Monotonic) -> f64 {
        self.now.since(then).as_secs_f64()
    }

    /// The names of the reference's fields come first, where it has them.
    fn json(&self) -> Vec<u8> {
        let mut out = b"{\"Now\":".to_vec();
        write_json_text(&text_of(|out| write_rfc3339_nano(Some(self.now_ns), out)), &mut out);
        out.extend_from_slice(b",\"SortedMembers\":[");
        for (place, member) in self.members.list.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            self.member_json(member, &mut out);
        }
        out.extend_from_slice(b"]}\n");
        out
    }

    fn member_json(&self, member: &MemberInfo, out: &mut Vec<u8>) {
        let (word, number) = standing(member.standing);
        let (identity, vitals) = (member.identity, &member.vitals);
        let texts = [
            ("Name", vitals.instance.clone()),
            ("Addr", identity.address.ip().to_string()),
            ("Standing", word.to_owned()),
            ("Announced", vitals.state.as_str().to_owned()),
            ("Zone", vitals.zone.clone()),
            ("Transport", or_none(vitals.transport, "")),
            ("HTTP", or_none(vitals.http, "")),
        ];
        let values = [
            ("Port", identity.address.port().to_string()),
            ("State", number.to_string()),
            ("PMin", vitals.protocol_min.to_string()),
            ("PMax", vitals.protocol_max.to_string()),
            ("Me", (identity == self.members.me).to_string()),
            ("Generation", identity.generation.to_string()),
            ("Incarnation", member.incarnation.to_string()),
            ("StandingSeconds", format!("{:.3}", self.seconds_since(member.since))),
            ("LastNewsSeconds", format!("{:.3}", self.seconds_since(member.last_news))),
            ("Epoch", or_none(vitals.writer_epoch, "null")),
            ("Map", vitals.map_number.to_string()),
        ];
        let mut before = b'{';
        let mut key = |name: &str, out: &mut Vec<u8>| {
            out.push(before);
            before = b',';
            write_json_text(name, out);
            out.push(b':');
        };
        for (name, text) in texts {
            key(name, out);
            write_json_text(&text, out);
        }
        for (name, value) in values {
            key(name, out);
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
    }

    fn html(&self) -> String {
        const COLUMNS: [&str; 13] = [
            "Instance ID",
            "Standing",
            "For",
            "State",
            "Gossip",
            "Transport",
            "HTTP",
            "Availability Zone",
            "Last News",
            "Incarnation",
            "Epoch",
            "Map",
            "Actions",
        ];
        let header: String = COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
        let rows: String = self.members.list.iter().map(|member| self.row(member)).collect();
        page(
            "Memberlist Status",
            &format!(
                "<p>Current time: {}. {} of {} members are alive, as this node sees it.</p>\n\
                 <table border=\"1\">\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
                 </table>\n",
                text_of(|out| write_rfc3339(Some(self.now_ns), out)),
                self.members.alive().count(),
                self.members.list.len(),
            ),
        )
    }

    fn row(&self, member: &MemberInfo) -> String {
        let vitals = &member.vitals;
        let instance = escaped(&vitals.instance);
        let mine = if member.identity == self.members.me { " (this node)" } else { "" };
        // All others may come back by themselves.
        let action = match member.standing {
            Standing::Dead => format!(
                "<form method=\"POST\"><button name=\"forget\" value=\"{instance}\">Forget\
                 </button></form>"
            ),
            Standing::Alive | Standing::Suspected => String::new(),
        };
        let cells = [
            format!("{instance}{mine}"),
            standing(member.standing).0.to_owned(),
            format!("{:.0}s", self.seconds_since(member.since)),
            vitals.state.as_str().to_owned(),
            member.identity.address.to_string(),
            or_none(vitals.transport, ""),
            or_none(vitals.http, ""),
            escaped(&vitals.zone),
            format!("{:.1}s ago", self.seconds_since(member.last_news)),
            member.incarnation.to_string(),
            or_none(vitals.writer_epoch, ""),
            vitals.map_number.to_string(),
            action,
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>\n")
    }
}

#[cfg(test)]
mod tests {
    use logsvc_membership::driver;
    use logsvc_membership::identity::Identity;
    use logsvc_membership::members::Traffic;
    use logsvc_membership::settings::{JoinSettings, Settings};
    use logsvc_membership::vitals::Vitals;
    use logsvc_runtime::sim::Simulation;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn member(number: u8, standing: Standing) -> MemberInfo {
        let address = ([10, 0, 0, number], 7946).into();
        MemberInfo {
            identity: Identity { address, generation: 1000 + u64::from(number), chance: 1 },
            incarnation: 2,
            standing,
            since: Monotonic(SECOND_NS),
            last_news: Monotonic(3 * SECOND_NS),
            vitals: Vitals {
                zone: "z<1".to_owned(),
                transport: Some(([10, 0, 0, number], 9095).into()),
                map_number: 8,
                ..Vitals::joining(format!("node-{number}"), 1..=1)
            },
        }
    }

    fn shown<T>(show: impl FnOnce(&List<'_>) -> T) -> T {
        let mut list = vec![member(1, Standing::Alive), member(2, Standing::Suspected)];
        list.push(member(3, Standing::Dead));
        list[0].vitals.writer_epoch = Some(7);
        list[0].vitals.http = Some(([10, 0, 0, 1], 3100).into());
        let me = list[0].identity;
        let members = Members { version: 1, me, list, traffic: Traffic::default() };
        let now_ns = 1_795_226_511_992_463_561;
        show(&List { members: &members, now: Monotonic(4 * SECOND_NS), now_ns })
    }

    #[test]
    fn members_are_told_to_programs() {
        let text = String::from_utf8(shown(|list| list.json())).expect("UTF-8");
        let first = concat!(
            r#"{"Now":"2026-11-21T02:01:51.992463561Z","SortedMembers":[{"Name":"node-1","#,
            r#""Addr":"10.0.0.1","Standing":"alive","Announced":"JOINING","Zone":"z<1","#,
            r#""Transport":"10.0.0.1:9095","HTTP":"10.0.0.1:3100","Port":7946,"State":0,"PMin":1,"#,
            r#""PMax":1,"Me":true,"Generation":1001,"Incarnation":2,"StandingSeconds":3.000,"#,
            r#""LastNewsSeconds":1.000,"Epoch":7,"Map":8},{"Name":"node-2","#,
        );
        assert!(text.starts_with(first) && text.ends_with("}]}\n"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let states: Vec<_> = value["SortedMembers"].as_array().expect("a list").iter().collect();
        assert_eq!(states.len(), 3);
        assert_eq!((&states[1]["State"], &states[1]["Standing"]), (&1.into(), &"suspected".into()));
        assert_eq!((&states[2]["State"], &states[2]["Me"]), (&2.into(), &false.into()));
        assert!(states[2]["Epoch"].is_null() && states[2]["HTTP"] == "");
    }

    #[test]
    fn members_are_shown_to_people() {
        let page = shown(|list| list.html());
        for part in [
            "<title>Memberlist Status</title>",
            "2 of 3 members are alive",
            "<td>node-1 (this node)</td><td>alive</td><td>3s</td><td>JOINING</td>",
            "<td>node-2</td><td>suspected</td>",
            "<td>z&lt;1</td><td>1.0s ago</td><td>2</td><td>7</td><td>8</td><td></td>",
            "<button name=\"forget\" value=\"node-3\">Forget</button>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(page.matches("<button").count(), 1, "only the dead are forgotten");
    }

    #[test]
    fn only_dead_members_can_be_forgotten() {
        Simulation::new(1).block_on(|runtime| async move {
            let me = member(1, Standing::Alive);
            let node = Membership::alone(me.identity, me.vitals, runtime.now()).expect("it is one");
            for (instance, status, text) in [
                (None, 400, "forget: the instance ID of a dead member is missing"),
                (Some("node-2"), 404, "cannot forget node-2: no member has this instance ID"),
                (Some("node-1"), 409, "cannot forget node-1: the member is alive"),
            ] {
                let fault = forget(&node, instance, forget_fault)
                    .await
                    .expect_err("there is nobody to forget");
                assert_eq!((fault.status.as_u16(), &*fault.message), (status, text));
            }
        });
        // Nodes that have others forget.
        Simulation::new(2).block_on(|runtime| async move {
            let settings = |join: Option<String>| Settings {
                bind_addr: vec![[127, 0, 0, 1].into()],
                bind_port: 0,
                join: JoinSettings {
                    join_members: join.into_iter().collect(),
                    ..JoinSettings::default()
                },
                ..Settings::default()
            };
            let start = |join, name| {
                driver::start(&runtime, settings(join), Vitals::joining(name, 1..=1))
                    .expect("it starts")
            };
            let node = start(None, "a");
            let other = start(Some(node.members().me.address.to_string()), "b");
            other.joined().await.expect("the first one is there");
            other.stop();
            while node.members().named("b").next().is_none_or(MemberInfo::is_alive) {
                node.changed(node.members().version).await;
            }
            let response = forget(&node, Some("b"), forget_fault).await.expect("it is dead");
            assert_eq!(
                (response.status.as_u16(), &response.headers[LOCATION]),
                (302, &"#".parse().expect("a value"))
            );
            while node.members().named("b").next().is_some() {
                node.changed(node.members().version).await;
            }
            node.leave().await;
            let fault = forget(&node, Some("b"), forget_fault).await.expect_err("it has left");
            assert_eq!(fault.status.as_u16(), 503, "{}", fault.message);
        });
    }

    #[test]
    fn faults_have_their_codes() {
        for (error, status, text) in [
            (ForgetError::Unknown, 404, "cannot forget n: no member has this instance ID"),
            (ForgetError::Alive, 409, "cannot forget n: the member is alive"),
            (ForgetError::Stopped, 503, "cannot forget n: this node does not take part any more"),
        ] {
            let fault = forget_fault("n", error);
            assert_eq!((fault.status.as_u16(), &*fault.message), (status, text));
        }
    }
}
