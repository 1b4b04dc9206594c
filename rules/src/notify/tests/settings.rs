//! Settings: they change while the notifier runs, and may be wrong.

use std::time::Duration;

use logsvc_runtime::Runtime;
use logsvc_runtime::sim::Simulation;

use super::rig::{AM, Manner, OTHER, Rig, names, to};
use crate::config::{
    AlertmanagerConfig, ClientAuth, HttpConfig, RelabelAction, RelabelConfig, Secret, SecretSource,
};
use crate::notify::check_config;

fn relabel(action: RelabelAction, source: &str, regex: &str) -> RelabelConfig {
    let source_labels = if source.is_empty() { Vec::new() } else { vec![source.to_owned()] };
    RelabelConfig { action, source_labels, regex: regex.to_owned(), ..RelabelConfig::default() }
}

#[test]
fn alerts_are_relabelled_after_they_have_their_external_labels() {
    Simulation::new(1).block_on(|runtime| async move {
        let rename = RelabelConfig {
            target_label: "site".to_owned(),
            ..relabel(RelabelAction::Replace, "cluster", "(.*)")
        };
        let rig = Rig::new(
            runtime,
            AlertmanagerConfig {
                alert_relabel_configs: vec![
                    rename,
                    relabel(RelabelAction::Drop, "alertname", "noise.*"),
                    relabel(RelabelAction::LabelDrop, "", "cluster|app"),
                ],
                ..to(&[AM])
            },
        );
        rig.send("t", ["noise1", "a", "noise2"]);
        rig.sleep(1).await;
        let seen = rig.seen(AM);
        assert_eq!(seen.len(), 1);
        let labels = serde_json::json!({"alertname": "a", "site": "lab"});
        assert_eq!(
            seen[0].alerts.iter().map(|alert| &alert["labels"]).collect::<Vec<_>>(),
            [&labels]
        );
        // What a rule drops is neither given nor dropped.
        assert_eq!((rig.of("t", AM).given, rig.numbers("t").dropped), (1, 0));
        // An alert without labels is not sent.
        let nothing = relabel(RelabelAction::LabelKeep, "", "nothing");
        rig.set(AlertmanagerConfig { alert_relabel_configs: vec![nothing], ..to(&[AM]) });
        rig.send("t", ["b"]);
        rig.sleep(1).await;
        assert_eq!(rig.seen(AM).len(), 1);
    });
}

#[test]
fn changed_settings_are_in_force_for_the_next_alerts() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM]));
        rig.send("t", ["a"]);
        rig.sleep(1).await;
        rig.set(to(&[AM, OTHER]));
        rig.send("t", ["b"]);
        rig.sleep(1).await;
        rig.set(to(&[OTHER]));
        rig.send("t", ["c"]);
        rig.sleep(1).await;
        assert_eq!(rig.taken(AM), ["a", "b"]);
        assert_eq!(rig.taken(OTHER), ["b", "c"]);
        let numbers = rig.numbers("t");
        assert_eq!(numbers.alertmanagers.len(), 1);
        assert_eq!(rig.of("t", OTHER).given, 2);
        // No address at all: alerts go nowhere, which is no loss.
        rig.set(to(&[]));
        rig.send("t", ["d"]);
        rig.sleep(1).await;
        assert!(rig.numbers("t").alertmanagers.is_empty());
        assert_eq!((rig.numbers("t").dropped, rig.numbers("t").queue_length), (0, 0));
    });
}

#[test]
fn alerts_that_wait_go_to_the_address_that_replaces_the_old_one() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM]));
        rig.manner(AM, &[Manner::TimeOut]);
        rig.send("t", ["under way"]);
        rig.sleep(1).await;
        rig.send("t", names(0..5));
        rig.set(to(&[OTHER]));
        rig.send("t", ["new"]);
        rig.sleep(1).await;
        let mut expected = names(0..5);
        expected.push("new".to_owned());
        assert_eq!(rig.taken(OTHER), expected);
        // The request that was under way has ended with the old address.
        assert_eq!(rig.notifier.held_bytes(), (0, 0));
        rig.sleep(60).await;
        assert!(rig.taken(AM).is_empty());
        assert_eq!(rig.notifier.held_bytes(), (0, 0));
    });
}

#[test]
fn wrong_settings_leave_the_earlier_ones_in_force() {
    Simulation::new(1).block_on(|runtime| async move {
        let wrong = [
            to(&["am:9093"]),
            AlertmanagerConfig {
                alert_relabel_configs: vec![relabel(RelabelAction::Keep, "a", "(")],
                ..to(&[AM])
            },
            AlertmanagerConfig {
                http: HttpConfig {
                    headers: vec![("a b".to_owned(), String::new())],
                    ..HttpConfig::default()
                },
                ..to(&[AM])
            },
        ];
        let rig = Rig::new(runtime, wrong[0].clone());
        rig.send("t", ["lost"]);
        assert_eq!(rig.numbers("t").dropped, 1);
        rig.set(to(&[AM]));
        rig.send("t", ["a"]);
        for config in wrong {
            check_config(&config).expect_err("it is wrong");
            rig.set(config);
            rig.send("t", ["b"]);
        }
        rig.sleep(1).await;
        assert_eq!(rig.taken(AM), ["a", "b", "b", "b"]);
        assert_eq!(check_config(&to(&[AM])), Ok(()));
    });
}

#[test]
fn the_password_of_an_address_is_sent_and_shown_nowhere() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&["http://Aladdin:open%20sesame@am:9093"]));
        rig.send("t", ["a"]);
        rig.sleep(1).await;
        let header = |at: usize| rig.seen(AM)[at].headers["authorization"].clone();
        assert_eq!(header(0), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(&*rig.numbers("t").alertmanagers[0].address, AM);
        // The settings win over the address.
        let auth = ClientAuth::Credentials {
            kind: String::new(),
            credentials: SecretSource::Inline(Secret("t0k".to_owned())),
        };
        let headers = vec![("X-Scope-OrgID".to_owned(), "fixed".to_owned())];
        rig.set(AlertmanagerConfig {
            http: HttpConfig { auth, headers, ..HttpConfig::default() },
            ..to(&["http://u:p@am:9093"])
        });
        rig.send("t", ["b"]);
        rig.sleep(1).await;
        assert_eq!(header(1), "Bearer t0k");
        assert_eq!(rig.seen(AM)[1].tenant, "fixed");
    });
}

#[test]
fn files_that_are_missing_for_a_moment_cost_no_alert() {
    Simulation::new(1).block_on(|runtime| async move {
        let path = std::path::PathBuf::from("/password");
        let auth = ClientAuth::Basic {
            username: "u".to_owned(),
            password: SecretSource::File(path.clone()),
        };
        let http = HttpConfig { auth, ..HttpConfig::default() };
        let rig = Rig::new(runtime, AlertmanagerConfig { http, ..to(&[AM]) });
        rig.world.connect_failures.set(1);
        rig.send("t", ["a"]);
        rig.sleep_ms(1500).await;
        rig.runtime.replace_file(&path, b"p\n".to_vec()).await.expect("written");
        rig.sleep(5).await;
        assert_eq!(rig.taken(AM), ["a"]);
        assert_eq!(rig.seen(AM)[0].headers["authorization"], "Basic dTpw");
    });
}

#[test]
fn instances_of_a_service_come_and_go() {
    Simulation::new(1).block_on(|runtime| async move {
        let service = "_http._tcp.am.example";
        let rig = Rig::new(
            runtime,
            AlertmanagerConfig {
                discovery: true,
                refresh_interval: Duration::from_secs(30),
                ..to(&["http://_http._tcp.am.example/x"])
            },
        );
        let set = |found: Result<&[&str], &str>| {
            let found = found.map(|all| all.iter().map(|&host| host.to_owned()).collect());
            let services = &mut *rig.world.services.borrow_mut();
            services.insert(service.to_owned(), found.map_err(str::to_owned));
        };
        let url = |host: &str| format!("http://{host}/x/api/v2/alerts");
        // Alerts wait until the name can be resolved.
        rig.send("t", ["early"]);
        rig.sleep(5).await;
        assert_eq!(rig.numbers("t").queue_length, 1);
        set(Ok(&["a:1", "b:2", "a:1"]));
        rig.sleep(16).await;
        assert_eq!(rig.taken(&url("a:1")), ["early"]);
        assert_eq!(rig.taken(&url("b:2")), ["early"]);
        assert_eq!(rig.numbers("t").alertmanagers.len(), 2);
        // A failure keeps what is known.
        set(Err("no answer from the name server"));
        rig.sleep(60).await;
        rig.send("t", ["later"]);
        rig.sleep(1).await;
        assert_eq!(rig.taken(&url("b:2")), ["early", "later"]);
        set(Ok(&["b:2", "c:3"]));
        rig.sleep(60).await;
        rig.send("t", ["last"]);
        rig.sleep(1).await;
        assert_eq!(rig.taken(&url("a:1")), ["early", "later"]);
        assert_eq!(rig.taken(&url("b:2")), ["early", "later", "last"]);
        assert_eq!(rig.taken(&url("c:3")), ["last"]);
        // Fixed addresses again: the look-ups end.
        rig.set(to(&[AM]));
        rig.send("t", ["fixed"]);
        rig.sleep(120).await;
        assert_eq!(rig.taken(AM), ["fixed"]);
        rig.notifier.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn a_tenant_without_rules_is_forgotten() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM]));
        rig.manner(AM, &[Manner::TimeOut]);
        rig.send("gone", names(0..300));
        rig.send("kept", ["a"]);
        rig.sleep(1).await;
        rig.notifier.retain(|tenant| tenant.as_str() == "kept");
        assert_eq!(rig.notifier.numbers().len(), 1);
        rig.manner(AM, &[Manner::ok()]);
        rig.sleep(60).await;
        assert_eq!(rig.notifier.held_bytes(), (0, 0));
        assert_eq!(rig.taken(AM), ["a"]);
        rig.send("gone", ["back"]);
        rig.sleep(1).await;
        assert_eq!(rig.taken(AM), ["a", "back"]);
    });
}
