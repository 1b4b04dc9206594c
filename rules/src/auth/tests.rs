use std::time::Duration;

use logsvc_runtime::Runtime;
use logsvc_runtime::sim::{SimRuntime, Simulation};

use super::*;
use crate::config::Secret;

fn inline(text: &str) -> SecretSource {
    SecretSource::Inline(Secret(text.to_owned()))
}

fn with(runtime: &SimRuntime, auth: ClientAuth) -> RequestAuth<SimRuntime> {
    let config = HttpConfig {
        auth,
        headers: vec![("X-Team".to_owned(), "a".to_owned()), ("x-team".to_owned(), "b".to_owned())],
        ..HttpConfig::default()
    };
    RequestAuth::new(runtime.clone(), &config).expect("valid headers")
}

async fn sent(auth: &RequestAuth<SimRuntime>) -> Option<String> {
    let headers = auth.headers().await.expect("no file is missing");
    let teams: Vec<_> = headers.get_all("x-team").iter().collect();
    assert_eq!(teams, ["a", "b"]);
    headers.get(AUTHORIZATION).map(|value| {
        assert!(value.is_sensitive());
        value.to_str().expect("text").to_owned()
    })
}

#[test]
fn each_kind_has_its_header() {
    Simulation::new(1).block_on(|runtime| async move {
        let basic = |name: &str, password| ClientAuth::Basic {
            username: name.to_owned(),
            password: inline(password),
        };
        let credentials = |kind: &str| ClientAuth::Credentials {
            kind: kind.to_owned(),
            credentials: inline("t0k"),
        };
        for (auth, header) in [
            (ClientAuth::None, None),
            (ClientAuth::SigV4(Default::default()), None),
            (basic("Aladdin", "open sesame"), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            (basic("ü", "\n"), Some("Basic w7w6Cg==")),
            (credentials(""), Some("Bearer t0k")),
            (credentials("Token"), Some("Token t0k")),
        ] {
            let auth = with(&runtime, auth);
            assert_eq!(sent(&auth).await.as_deref(), header, "{auth:?}");
            assert!(!format!("{auth:?}").contains("t0k"));
        }
    });
}

#[test]
fn a_file_is_read_again_after_a_minute() {
    Simulation::new(1).block_on(|runtime| async move {
        let path = Path::new("/token");
        let auth = with(
            &runtime,
            ClientAuth::Credentials {
                kind: String::new(),
                credentials: SecretSource::File(path.to_owned()),
            },
        );
        let missing = auth.headers().await.expect_err("there is no file");
        let begin = "unable to read the secret file /token: ";
        assert!(missing.to_string().starts_with(begin), "{missing}");
        runtime.replace_file(path, b" one\n".to_vec()).await.expect("written");
        assert_eq!(sent(&auth).await.as_deref(), Some("Bearer one"));
        runtime.replace_file(path, b"two".to_vec()).await.expect("written");
        runtime.sleep_until(runtime.now().after(Duration::from_secs(55))).await;
        assert_eq!(sent(&auth).await.as_deref(), Some("Bearer one"));
        runtime.sleep_until(runtime.now().after(Duration::from_secs(5))).await;
        assert_eq!(sent(&auth).await.as_deref(), Some("Bearer two"));
    });
}

#[test]
fn secrets_and_headers_that_do_not_fit_are_refused() {
    Simulation::new(1).block_on(|runtime| async move {
        let credentials = inline("a\nb");
        let kind = String::new();
        let auth = with(&runtime, ClientAuth::Credentials { kind, credentials });
        assert_eq!(auth.headers().await.expect_err("a line feed"), AuthError::Credentials);
        for header in [("a b", "c"), ("a", "b\n")] {
            let header = (header.0.to_owned(), header.1.to_owned());
            let refusal = AuthError::Header(header.0.clone());
            let config = HttpConfig { headers: vec![header], ..HttpConfig::default() };
            assert_eq!(RequestAuth::new(runtime.clone(), &config).expect_err("bad"), refusal);
        }
    });
}
