//! Loki's keys for Swift.

use logsvc_store::swift::{IdOrName, SwiftConfig, SwiftCredentials, SwiftPlace, SwiftUser};

use super::*;

fn chosen(section: &str) -> String {
    format!("common: {{storage: {{swift: {{container_name: c, {section}}}}}}}")
}

fn swift(section: &str) -> SwiftConfig {
    match bucket_with(&chosen(section), &[], &[]) {
        BucketConfig::Swift(config) => config,
        other => panic!("{section}: {other:?}"),
    }
}

fn named(name: &str) -> IdOrName {
    IdOrName::Name(name.to_owned())
}

#[test]
fn keys_of_swift_mean_what_they_mean_in_loki() {
    let found = swift(
        "auth_url: 'https://k:5000/v3', username: u, password: hush, user_domain_name: d, \
         project_name: p, region_name: r, internal: true",
    );
    let secret = Secret("hush".to_owned());
    let user = SwiftUser { user: named("u"), domain: named("d") };
    let expected = SwiftConfig {
        container: "c".to_owned(),
        prefix: "logsvc".to_owned(),
        auth_url: "https://k:5000/v3".to_owned(),
        credentials: SwiftCredentials::V3 {
            user: user.clone(),
            password: secret.clone(),
            project: Some((named("p"), named("Default"))),
        },
        place: SwiftPlace { region: "r".to_owned(), is_internal: true },
    };
    assert_eq!(found, expected);
    let found = swift("auth_url: 'http://s/auth/v1.0', username: 'a:u', password: hush");
    let first = SwiftCredentials::V1 { user: "a:u".to_owned(), key: secret.clone() };
    assert_eq!(found.credentials, first);
    let text = "auth_url: 'http://k/', auth_version: 2, username: u, password: hush, project_id: i";
    let second = SwiftCredentials::V2 {
        user: "u".to_owned(),
        password: secret.clone(),
        project: Some(IdOrName::Id("i".to_owned())),
    };
    assert_eq!(swift(text).credentials, second);
    let text = "auth_url: 'http://k/v3', application_credential_name: a, username: u, \
                domain_name: d, application_credential_secret: hush";
    let application = SwiftCredentials::Application { credential: named("a"), user, secret };
    assert_eq!(swift(text).credentials, application);
    let text = chosen("auth_url: 'http://k/v1', username: u, max_retries: 3, request_timeout: 5s");
    let paths = ["common.storage.swift.max_retries", "common.storage.swift.request_timeout"];
    assert_eq!(ignored(&text), paths);
}

#[test]
fn sections_of_swift_that_lack_something_are_refused() {
    for (section, expected) in [
        ("username: u", "common.storage.swift: auth_url: must begin with http:// or https://"),
        ("auth_url: 'http://k/', username: u", "auth_url: does not tell the version"),
        ("auth_url: 'http://k/v3', password: hush", "names no user: set username"),
        ("auth_url: 'http://k/v2.0', user_id: u", "user_id: needs auth_version 3"),
        ("auth_url: 'http://k/v3', application_credential_name: a", "needs username or user_id"),
    ] {
        let found = errors(&chosen(section));
        assert!(found.len() == 1 && found[0].contains(expected), "{section}: {found:?}");
        assert!(!found[0].contains("hush"), "{found:?}");
    }
}
