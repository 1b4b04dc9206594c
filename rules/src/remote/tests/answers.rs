use std::time::Duration;

use logsvc_runtime::Runtime;
use logsvc_runtime::sim::for_each_seed;

use super::receiver::Mode;
use super::rig::{A, World, assert_balanced, numbers, sample, sleep, unix_ms};
use crate::config::{ClientAuth, RelabelAction, RelabelConfig, Secret, SigV4Config};
use crate::sink::STALE;

#[test]
fn samples_arrive_with_their_headers_and_bits() {
    for_each_seed(0..10, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.change_settings(|settings| {
            settings.clients[0].http.headers = vec![("X-Team".to_owned(), "x".to_owned())];
        });
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let samples = vec![sample(1, 1000, 1.5), sample(2, 1000, STALE), sample(1, 2000, 0.0)];
            world.append_samples(&remote, samples).await.unwrap();
            sleep(&runtime, 5.0).await;
            world.assert_complete(A);
            world.with(A, |receiver| {
                assert_eq!(receiver.requests.len(), 1);
                let headers = &receiver.requests[0].headers;
                assert_eq!(headers["x-scope-orgid"], "t1");
                assert_eq!(headers["x-team"], "x");
            });
            let numbers = numbers(&remote, 0);
            assert_eq!((numbers.samples_taken, numbers.samples_pending), (3, 0));
            assert_eq!(numbers.highest_sent_ms, Some(2000));
            assert_eq!(numbers.durations.iter().sum::<u64>(), 1);
            assert_balanced(&remote);
            remote.close().await;
        });
    });
}

/// Pitfall 8: which refusals are final.
#[test]
fn answers_500_503_200_deliver_once_in_order_and_nothing_overtakes() {
    for_each_seed(0..20, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let start = unix_ms(&runtime);
            for status in [500, 503, 204] {
                let mode = match status {
                    204 => Mode::Takes,
                    status => Mode::Status(status, Vec::new()),
                };
                world.set_mode(A, mode);
                for _ in 0..3 {
                    let now = unix_ms(&runtime);
                    world.append(&remote, now, 0..3).await.unwrap();
                    sleep(&runtime, 5.0).await;
                }
            }
            sleep(&runtime, 10.0).await;
            world.assert_complete(A);
            world.with(A, |receiver| {
                assert_eq!(receiver.count(), 27);
                // The first batch came again and again, the very same, before anything else.
                let taken = receiver.requests.iter().position(|r| r.status == Some(204)).unwrap();
                assert!(taken >= 6, "{taken} requests before the first that was taken");
                let first = &receiver.requests[0].samples;
                assert!(receiver.requests[..=taken].iter().all(|r| r.samples == *first));
                assert!(first.iter().all(|(_, at, _)| *at <= start + 1000));
            });
            let numbers = numbers(&remote, 0);
            assert!(numbers.samples_retried > 0 && numbers.samples_failed == 0);
            assert_balanced(&remote);
        });
    });
}

/// Pitfall 8: which refusals are final.
#[test]
fn a_400_gives_up_its_batch_alone() {
    for status in [400, 404, 401, 413, 422] {
        for_each_seed(0..5, |simulation| {
            let world = World::new(simulation.seed(), &[A]);
            world.set_mode(A, Mode::Status(status, Vec::new()));
            simulation.block_on(|runtime| async move {
                let remote = world.start(&runtime).await;
                let now = unix_ms(&runtime);
                world.append(&remote, now, 0..4).await.unwrap();
                sleep(&runtime, 5.0).await;
                let refused = numbers(&remote, 0);
                assert_eq!((refused.samples_failed, refused.samples_pending), (4, 0));
                assert_eq!(refused.samples_retried, 0);
                world.set_mode(A, Mode::Takes);
                let now = unix_ms(&runtime);
                world.append(&remote, now, 0..4).await.unwrap();
                sleep(&runtime, 5.0).await;
                world.with(A, |receiver| {
                    assert_eq!(receiver.count(), 4);
                    assert_eq!(receiver.requests.len(), 2);
                });
                assert_balanced(&remote);
            });
        });
    }
}

/// Pitfall 8: which refusals are final.
#[test]
fn a_429_waits_as_long_as_the_receiver_says_and_loses_nothing() {
    for_each_seed(0..20, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            world.set_mode(A, Mode::Status(429, vec![("retry-after", "5".to_owned())]));
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..4).await.unwrap();
            sleep(&runtime, 3.0).await;
            world.set_mode(A, Mode::Takes);
            sleep(&runtime, 10.0).await;
            world.assert_complete(A);
            world.with(A, |receiver| {
                assert_eq!(receiver.requests.len(), 2);
                let pause = receiver.requests[1].at - receiver.requests[0].at;
                assert!(pause >= Duration::from_secs(5), "{pause:?}");
                assert!(pause < Duration::from_secs(6), "{pause:?}");
                assert_eq!(receiver.requests[0].samples, receiver.requests[1].samples);
            });
            // The receiver of Prometheus' own manner.
            world.change_settings(|settings| settings.clients[0].queue.retry_on_http_429 = false);
            world.set_mode(A, Mode::Status(429, Vec::new()));
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..4).await.unwrap();
            sleep(&runtime, 5.0).await;
            assert_eq!(numbers(&remote, 0).samples_failed, 4);
            assert_balanced(&remote);
        });
    });
}

#[test]
fn version_2_is_spoken_where_the_receiver_agrees() {
    for (mode, is_v2) in [(Mode::Takes, true), (Mode::Version1Only, false), (Mode::Ignorant, false)]
    {
        for_each_seed(0..5, |simulation| {
            let world = World::new(simulation.seed(), &[A]);
            world.set_mode(A, mode.clone());
            world.change_settings(|settings| settings.clients[0].prefers_v2 = true);
            simulation.block_on(|runtime| async move {
                let remote = world.start(&runtime).await;
                for _ in 0..2 {
                    let now = unix_ms(&runtime);
                    world.append(&remote, now, 0..4).await.unwrap();
                    sleep(&runtime, 5.0).await;
                }
                world.assert_complete(A);
                let versions: Vec<String> = world.with(A, |receiver| {
                    let version = |request: &super::receiver::Request| {
                        let version = &request.headers["x-prometheus-remote-write-version"];
                        version.to_str().unwrap().to_owned()
                    };
                    receiver.requests.iter().map(version).collect()
                });
                let wanted: &[&str] =
                    if is_v2 { &["2.0.0", "2.0.0"] } else { &["2.0.0", "0.1.0", "0.1.0"] };
                assert_eq!(versions, wanted);
                assert_balanced(&remote);
            });
        });
    }
}

#[test]
fn requests_are_signed_relabelled_and_split() {
    for_each_seed(0..5, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.change_settings(|settings| {
            let client = &mut settings.clients[0];
            client.http.auth = ClientAuth::SigV4(SigV4Config {
                region: "eu-west-1".to_owned(),
                access_key: "AK".to_owned(),
                secret_key: Some(Secret("s".to_owned())),
            });
            client.write_relabel_configs = vec![RelabelConfig {
                source_labels: vec!["pod".to_owned()],
                regex: "p[0-4]".to_owned(),
                action: RelabelAction::Drop,
                ..RelabelConfig::default()
            }];
            client.queue.max_samples_per_send = 7;
        });
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..50).await.unwrap();
            sleep(&runtime, 20.0).await;
            world.with(A, |receiver| {
                assert_eq!(receiver.count(), 45);
                assert!(receiver.requests.iter().all(|request| request.samples.len() <= 7));
                let headers = &receiver.requests[0].headers;
                let text = headers["authorization"].to_str().unwrap();
                assert!(text.starts_with("AWS4-HMAC-SHA256 Credential=AK/20260101/eu-west-1/aps/"));
                assert!(headers.contains_key("x-amz-date"));
            });
            assert_eq!(numbers(&remote, 0).dropped_by_relabelling, 5);
            assert_balanced(&remote);
        });
    });
}

#[test]
fn a_receiver_that_hangs_does_not_hold_up_another_one() {
    for_each_seed(0..10, |simulation| {
        let world = World::new(simulation.seed(), &[A, super::rig::B]);
        world.set_mode(A, Mode::Hangs);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            for _ in 0..5 {
                let now = unix_ms(&runtime);
                world.append(&remote, now, 0..4).await.unwrap();
                sleep(&runtime, 5.0).await;
            }
            world.assert_complete(super::rig::B);
            world.set_mode(A, Mode::Takes);
            sleep(&runtime, 60.0).await;
            world.assert_complete(A);
            // A stop does not wait longer than its patience for an answer.
            world.set_mode(A, Mode::Hangs);
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..4).await.unwrap();
            sleep(&runtime, 2.0).await;
            let begun = runtime.now();
            remote.close().await;
            assert!(runtime.now().since(begun) <= Duration::from_secs(6));
            let refusal = world.append(&remote, now + 1, 0..1).await.unwrap_err();
            assert_eq!(refusal.to_string(), "WAL storage closed");
        });
    });
}
