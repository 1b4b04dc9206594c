//! Groups that nodes have in common: against a model, with changes that fail, and damage.

use logsvc_runtime::sim::Simulation;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::*;
use crate::common::fake::{Fake, Fate};

fn tenant(id: &str) -> TenantId {
    TenantId::new(id).expect("a tenant")
}

fn group(name: &str, limit: u64) -> RuleGroup {
    RuleGroup { name: name.to_owned(), limit, ..RuleGroup::default() }
}

/// The limits of all groups by tenant, namespace and name.
type Limits = BTreeMap<(String, String, String), u64>;

fn limits_of(changes: &[TenantChange]) -> Limits {
    let mut limits = Limits::new();
    for (tenant, groups) in changes {
        for (namespace, name, group) in groups.groups() {
            let key = (tenant.to_string(), namespace.to_string(), name.to_string());
            limits.insert(key, group.limit);
        }
    }
    limits
}

async fn opened(fake: &Rc<Fake>) -> (CommonStore, Limits) {
    let mut store = CommonStore::new(fake.clone());
    let limits = limits_of(&store.load().await.expect("it can be read"));
    (store, limits)
}

#[test]
fn the_next_keeper_has_what_the_model_has() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        Simulation::new(seed).block_on(async move |_| {
            let (fake, mut rng) = (Fake::shared(), Rng::new(seed));
            let mut model = Limits::new();
            for _ in 0..4 {
                let (mut store, found) = opened(&fake).await;
                assert_eq!(found, model);
                for _ in 0..15 {
                    change(&fake, &mut store, &mut rng, &mut model).await;
                }
            }
            // Nothing is left of groups that are gone.
            assert_eq!(fake.files.borrow().len(), model.len());
        });
    }
}

async fn change(fake: &Fake, store: &mut CommonStore, rng: &mut Rng, model: &mut Limits) {
    let tenant_id = *rng.pick(&["t", "u"]);
    let (of, namespace) = (tenant(tenant_id), *rng.pick(&["a", "b"]));
    let name = *rng.pick(&["g", "h", "i"]);
    let limit = rng.between(1, 1000);
    fake.fate.set(*rng.pick(&[Fate::Made, Fate::Made, Fate::MadeSilently, Fate::Lost]));
    let key = (tenant_id.to_owned(), namespace.to_owned(), name.to_owned());
    let result = match rng.below(5) {
        0 => {
            let result = store.remove_namespace(&of, namespace).await;
            if result.is_ok() {
                model.retain(|(t, n, _), _| t != tenant_id || n != namespace);
            }
            result
        }
        1 => {
            let result = store.remove(&of, namespace, name).await;
            if result.is_ok() {
                model.remove(&key);
            }
            result
        }
        _ => {
            let result = store.put(&of, namespace, &group(name, limit)).await;
            if result.is_ok() {
                model.insert(key, limit);
            }
            result
        }
    };
    fake.fate.take();
    if result.is_err() && rng.one_in(2) {
        // Further changes may come first.
        return settle(fake, model);
    }
    if result.is_err() {
        settle(fake, model);
        let changes = store.poll().await;
        for (tenant, groups) in &changes {
            let of_tenant: Limits = model
                .iter()
                .filter(|((t, _, _), _)| *t == tenant.as_str())
                .map(|(key, limit)| (key.clone(), *limit))
                .collect();
            assert_eq!(limits_of(&[(tenant.clone(), groups.clone())]), of_tenant);
        }
    }
    if rng.one_in(10) {
        store.poll().await;
        assert_eq!(store.poll().await.len(), 0);
    }
}

/// A change that has failed may be in force: the files decide.
fn settle(fake: &Fake, model: &mut Limits) {
    model.clear();
    for (path, (_, content)) in &*fake.files.borrow() {
        let tenant = path.split('/').nth(2).expect("a tenant").to_owned();
        let (namespace, group) = format::decode(content).expect("a group");
        model.insert((tenant, namespace.to_string(), group.name), group.limit);
    }
}

#[test]
fn damage_costs_its_group_alone() {
    Simulation::new(1).block_on(async move |_| {
        let fake = Fake::shared();
        let (mut store, _) = opened(&fake).await;
        let t = tenant("t");
        for name in ["g", "h", "i"] {
            store.put(&t, "a", &group(name, 1)).await.expect("it is stored");
        }
        let path = |name: &str| path_of(&t, &format::file_name("a", name));
        let mut foreign = fake.files.borrow()[&path("h")].1.clone();
        fake.write(&path("g"), Some(b"no group".to_vec()));
        foreign[8] = 9;
        let mut sum = foreign[..12].to_vec();
        sum.extend([0; 4]);
        sum.extend(&foreign[16..64]);
        foreign[12..16].copy_from_slice(&crc32c::crc32c(&sum).to_le_bytes());
        fake.write(&path("h"), Some(foreign));
        let (mut store, found) = opened(&fake).await;
        assert_eq!(found.keys().map(|(_, _, name)| name.as_str()).collect::<Vec<_>>(), ["i"]);
        assert_eq!(store.unreadable(), std::slice::from_ref(&t));
        // New groups of their names take the place of the damaged one, and not of the other.
        for name in ["g", "h"] {
            store.put(&t, "a", &group(name, 2)).await.expect("it is stored");
        }
        assert!(fake.number(&format!("{}.1", path("h"))).is_some());
        assert_eq!(fake.files.borrow().len(), 4);
        let (mut store, found) = opened(&fake).await;
        assert_eq!(found.values().copied().collect::<Vec<_>>(), [2, 2, 1]);
        store.remove(&t, "a", "h").await.expect("it is removed");
        assert_eq!(fake.files.borrow().len(), 3);
    });
}

#[test]
fn a_bucket_that_is_away_is_no_loss_and_the_end_of_a_term_refuses() {
    Simulation::new(1).block_on(async move |_| {
        let fake = Fake::shared();
        let (mut store, _) = opened(&fake).await;
        let t = tenant("t");
        store.put(&t, "a", &group("g", 1)).await.expect("it is stored");
        fake.is_away.set(true);
        assert!(CommonStore::new(fake.clone()).load().await.is_err());
        fake.fate.set(Fate::MadeSilently);
        let error = store.put(&t, "a", &group("g", 2)).await.expect_err("nobody knows");
        assert!(error.get_ref().is_some_and(|it| it.is::<crate::common::ChangeError>()));
        assert!(store.poll().await.is_empty() && store.is_behind());
        fake.is_away.set(false);
        assert_eq!(limits_of(&store.poll().await).values().copied().collect::<Vec<_>>(), [2]);
        assert!(!store.is_behind());
        fake.is_over.set(true);
        assert!(store.put(&t, "a", &group("g", 3)).await.is_err());
        assert!(store.remove(&t, "a", "g").await.is_err());
        assert_eq!(opened(&fake).await.1.values().copied().collect::<Vec<_>>(), [2]);
    });
}
