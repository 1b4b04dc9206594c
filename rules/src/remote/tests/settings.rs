use std::time::Duration;

use logsvc_runtime::sim::for_each_seed;

use super::receiver::Mode;
use super::rig::{A, B, World, assert_balanced, client, numbers, sleep, unix_ms};

#[test]
fn receivers_come_change_and_go_while_samples_flow() {
    for_each_seed(0..20, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.set_mode(A, Mode::Dead);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let append = async |count: u64| {
                for _ in 0..count {
                    let now = unix_ms(&runtime);
                    world.append(&remote, now, 0..5).await.unwrap();
                    sleep(&runtime, 2.0).await;
                }
            };
            append(5).await;
            // A new receiver gets what comes from now on.
            world.change_settings(|settings| settings.clients.push(client("new", B)));
            append(5).await;
            sleep(&runtime, 5.0).await;
            world.with(B, |receiver| assert_eq!(receiver.count(), 25));
            // A changed address goes on where the old one was, at once.
            world.change_settings(|settings| {
                settings.clients[0].url = "http://nowhere/".to_owned();
            });
            append(2).await;
            world.set_mode(A, Mode::Takes);
            world.change_settings(|settings| settings.clients[0].url = A.to_owned());
            sleep(&runtime, 5.0).await;
            world.assert_complete(A);
            // While it is off nothing is kept and nothing is sent.
            world.change_settings(|settings| settings.enabled = false);
            let accepted = world.accepted.borrow().clone();
            append(2).await;
            world.accepted.replace(accepted);
            let before = world.with(A, |receiver| receiver.count());
            world.change_settings(|settings| settings.enabled = true);
            append(2).await;
            sleep(&runtime, 5.0).await;
            assert_eq!(world.with(A, |receiver| receiver.count()), before + 10);
            // One that has gone leaves nothing.
            world.change_settings(|settings| drop(settings.clients.pop()));
            let before = world.with(B, |receiver| receiver.count());
            append(2).await;
            sleep(&runtime, 5.0).await;
            assert_eq!(world.with(B, |receiver| receiver.count()), before);
            assert_eq!(remote.numbers().receivers.len(), 1);
            assert_balanced(&remote);
        });
        let files = simulation.disk().files("/samples/t1");
        let positions = files.iter().filter(|file| file.to_string_lossy().ends_with(".position"));
        assert_eq!(positions.count(), 1);
    });
}

#[test]
fn a_paused_receiver_goes_on_with_what_was_unsent() {
    for_each_seed(0..10, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.set_mode(A, Mode::Dead);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..5).await.unwrap();
            sleep(&runtime, 2.0).await;
            world.change_settings(|settings| settings.enabled = false);
            sleep(&runtime, 3.0).await;
            world.set_mode(A, Mode::Takes);
            sleep(&runtime, 60.0).await;
            world.with(A, |receiver| assert_eq!(receiver.count(), 0));
            world.change_settings(|settings| settings.enabled = true);
            sleep(&runtime, 10.0).await;
            world.assert_complete(A);
            assert_eq!(numbers(&remote, 0).samples_pending, 0);
        });
    });
}

#[test]
fn invalid_settings_stop_their_receiver_alone() {
    for_each_seed(0..5, |simulation| {
        let world = World::new(simulation.seed(), &[A, B]);
        world.change_settings(|settings| {
            settings.clients[0].http.headers = vec![("a b".to_owned(), "c".to_owned())];
        });
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..5).await.unwrap();
            sleep(&runtime, 10.0).await;
            world.assert_complete(B);
            world.with(A, |receiver| assert_eq!(receiver.count(), 0));
            world.change_settings(|settings| settings.clients[0].http.headers.clear());
            sleep(&runtime, 5.0).await;
            world.assert_complete(A);
            assert_balanced(&remote);
            remote.close().await;
        });
    });
}

#[test]
fn batches_wait_to_become_full_but_not_for_long() {
    for_each_seed(0..10, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.change_settings(|settings| {
            settings.clients[0].queue.batch_send_deadline = Duration::from_secs(5);
            settings.clients[0].queue.max_samples_per_send = 100;
        });
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            for _ in 0..8 {
                let now = unix_ms(&runtime);
                world.append(&remote, now, 0..10).await.unwrap();
                sleep(&runtime, 0.5).await;
            }
            world.with(A, |receiver| assert_eq!(receiver.requests.len(), 0));
            sleep(&runtime, 2.0).await;
            world.with(A, |receiver| assert_eq!(receiver.requests.len(), 1));
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..100).await.unwrap();
            sleep(&runtime, 0.5).await;
            world.with(A, |receiver| assert_eq!(receiver.requests.len(), 2));
            world.assert_complete(A);
        });
    });
}

#[test]
fn samples_are_taken_for_tenants_with_a_receiver_alone() {
    use crate::sink::SampleSink;
    for_each_seed(0..2, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let takes = || remote.takes(&logsvc_proto::TenantId::new("t").expect("a tenant"));
            assert!(takes());
            world.change_settings(|settings| settings.enabled = false);
            assert!(!takes(), "remote write is off");
            world.change_settings(|settings| settings.enabled = true);
            assert!(takes());
            world.change_settings(|settings| settings.clients.clear());
            assert!(!takes(), "there is no receiver");
            remote.close().await;
        });
    });
}
