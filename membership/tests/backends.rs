//! Nodes on the real backends, over loopback.

mod certified;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_membership::driver::start;
use logsvc_membership::engine::Change;
use logsvc_membership::members::{Members, Standing};
use logsvc_membership::membership::Membership;
use logsvc_membership::settings::{JoinSettings, Settings};
use logsvc_membership::vitals::{State, Vitals};
use logsvc_runtime::monoio_backend::{MonoioDriver, launch};
use logsvc_runtime::{LaunchOptions, Runtime, glommio_backend};

use certified::{AUTHORITY, start_as};

/// Nothing takes so long on a machine that works.
const LIMIT: Duration = Duration::from_secs(60);

fn vitals(name: &str) -> Vitals {
    Vitals { started_unix_ms: 1, ..Vitals::joining(name, 1..=1) }
}

/// Waits until the list of a node is as it should be.
async fn await_list<R: Runtime>(
    runtime: &R,
    node: &Membership,
    is_right: impl Fn(&Members) -> bool,
) -> Arc<Members> {
    let until = runtime.now().after(LIMIT);
    let mut members = node.members();
    while !is_right(&members) {
        let changed = pin!(node.changed(members.version));
        members = match select(changed, pin!(runtime.sleep_until(until))).await {
            Either::Left((members, _)) => members,
            Either::Right(_) => panic!("not within {LIMIT:?}: {members:#?}"),
        };
    }
    members
}

async fn nodes_meet_and_part<R: Runtime>(runtime: R) {
    meet_and_part(&runtime, async |settings, vitals| {
        start(&runtime, settings, vitals).expect("it starts")
    })
    .await;
}

async fn nodes_meet_and_part_over_tls<R: Runtime>(runtime: R) {
    let driver = runtime.driver_name().replace('/', "-");
    let folder = format!("{}/gossip-{driver}", env!("CARGO_TARGET_TMPDIR"));
    meet_and_part(&runtime, async |settings, vitals| {
        let node = &AUTHORITY.node;
        start_as(&runtime, &folder, node, settings, vitals).await.expect("it starts")
    })
    .await;
    who_is_not_known_is_not_let_in(&runtime, &folder).await;
}

async fn who_is_not_known_is_not_let_in<R: Runtime>(runtime: &R, folder: &str) {
    let settings = |join_members| Settings {
        bind_addr: vec![[127, 0, 0, 1].into()],
        bind_port: 0,
        join: JoinSettings { join_members, max_join_retries: 1, ..JoinSettings::default() },
        ..Settings::default()
    };
    let start = async |identity, name, join| {
        let started = start_as(runtime, folder, identity, settings(join), vitals(name)).await;
        started.expect("it starts")
    };
    let first = start(&AUTHORITY.node, "first", Vec::new()).await;
    let join = vec![first.members().me.address.to_string()];
    let stranger = start(&AUTHORITY.stranger, "stranger", join).await;
    assert!(stranger.joined().await.is_err(), "nobody has let it in");
    assert_eq!(first.members().list.len(), 1);
    stranger.stop();
    first.stop();
}

async fn meet_and_part<R: Runtime>(
    runtime: &R,
    start: impl AsyncFn(Settings, Vitals) -> Membership,
) {
    let settings = |join_members: Vec<String>| Settings {
        bind_addr: vec![[127, 0, 0, 1].into()],
        bind_port: 0,
        join: JoinSettings { join_members, ..JoinSettings::default() },
        ..Settings::default()
    };
    let first = start(settings(Vec::new()), vitals("first")).await;
    let address = first.members().me.address;
    let join = vec![format!("dns+localhost:{}", address.port())];
    let second = &start(settings(join.clone()), vitals("second")).await;
    let third = &start(settings(join), vitals("third")).await;
    for node in [&first, second, third] {
        node.joined().await.expect("the first one is there");
        await_list(runtime, node, |members| members.alive().count() == 3).await;
    }
    second.change(Change::State(State::Active)).await;
    let is_active = |members: &Members| {
        members.named("second").any(|member| member.vitals.state == State::Active)
    };
    await_list(runtime, third, is_active).await;

    // Who leaves in order is gone, and who does not is dead.
    third.leave().await;
    let is_gone = |members: &Members| members.named("third").next().is_none();
    await_list(runtime, &first, is_gone).await;
    await_list(runtime, second, is_gone).await;
    second.stop();
    let is_dead =
        |members: &Members| members.named("second").all(|member| member.standing == Standing::Dead);
    let members = await_list(runtime, &first, is_dead).await;
    assert_eq!(members.alive().count(), 1);
    let traffic = members.traffic;
    assert!(traffic.sent > 0 && traffic.received > 0 && traffic.damaged == 0, "{traffic:?}");
    first.stop();
}

fn options() -> LaunchOptions {
    LaunchOptions::with_cores(1)
}

#[test]
fn on_epoll() {
    launch(&options(), MonoioDriver::Epoll, nodes_meet_and_part).expect("one core starts");
    launch(&options(), MonoioDriver::Epoll, nodes_meet_and_part_over_tls).expect("it starts");
}

/// With io_uring where the kernel allows it, and epoll elsewhere.
#[test]
fn on_ring() {
    launch(&options(), MonoioDriver::Auto, nodes_meet_and_part).expect("one core starts");
    launch(&options(), MonoioDriver::Auto, nodes_meet_and_part_over_tls).expect("it starts");
}

#[test]
fn on_glommio() {
    fn on<F: Future<Output = ()> + 'static>(
        case: fn(glommio_backend::GlommioRuntime) -> F,
    ) -> std::io::Result<()> {
        glommio_backend::launch(&options(), case)
    }
    if let Err(error) = on(|_| async {}) {
        println!("SKIPPED: this machine refuses glommio: {error}");
        return;
    }
    on(nodes_meet_and_part).expect("one core starts");
    on(nodes_meet_and_part_over_tls).expect("one core starts");
}
