//! The exchange of credentials for a token, without I/O: requests and their answers.
//!
//! Formats: <https://docs.openstack.org/api-ref/object-store/> (version 1),
//! <https://docs.openstack.org/api-ref/identity/v3/>, and version 2 as it was.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use logsvc_http::client::{ClientRequest, Target};
use serde_json::{Value, json};

use super::config::{IdOrName, SwiftConfig, SwiftCredentials, SwiftPlace, SwiftUser};
use super::times::{NS_PER_S, of_iso};

/// The header of tokens.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const USER: HeaderName = HeaderName::from_static("x-auth-user");
const KEY: HeaderName = HeaderName::from_static("x-auth-key");

/// What an exchange gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// The token, which no log shows.
    pub(super) token: HeaderValue,
    /// Where the containers are, without a `/` at its end.
    pub(super) storage_url: String,
    /// How long the token counts, if that is told.
    pub(super) life_ns: Option<i64>,
}

/// The request of an exchange.
///
/// # Errors
/// Settings that no request can have, in words without secrets.
pub(super) fn request(config: &SwiftConfig) -> Result<ClientRequest, String> {
    let base = config.auth_url.trim_end_matches('/');
    let target = |url: &str| Target::parse(url).map_err(|error| format!("auth_url: {error}"));
    let (path, body) = match &config.credentials {
        SwiftCredentials::V1 { user, key } => {
            let request = ClientRequest::new(Method::GET, target(&config.auth_url)?);
            let user = HeaderValue::try_from(user).map_err(|_| "the user is no header")?;
            return Ok(request.with_header(USER, user).with_header(KEY, secret(&key.0)?));
        }
        SwiftCredentials::V2 { user, password, project } => {
            let mut auth = json!({
                "passwordCredentials": {"username": user, "password": password.0},
            });
            match project {
                Some(IdOrName::Id(id)) => auth["tenantId"] = json!(id),
                Some(IdOrName::Name(name)) => auth["tenantName"] = json!(name),
                None => {}
            }
            ("tokens", auth)
        }
        SwiftCredentials::V3 { user, password, project } => {
            let mut user = of_user(user);
            user["password"] = json!(password.0);
            let mut auth = json!({
                "identity": {"methods": ["password"], "password": {"user": user}},
            });
            match project {
                Some((IdOrName::Id(id), _)) => auth["scope"] = json!({"project": {"id": id}}),
                Some((name, domain)) => {
                    let mut project = of_either(name);
                    project["domain"] = of_either(domain);
                    auth["scope"] = json!({"project": project});
                }
                None => {}
            }
            ("auth/tokens", auth)
        }
        SwiftCredentials::Application { credential, user, secret } => {
            let mut application = of_either(credential);
            application["secret"] = json!(secret.0);
            if let IdOrName::Name(_) = credential {
                application["user"] = of_user(user);
            }
            let identity = json!({
                "methods": ["application_credential"],
                "application_credential": application,
            });
            ("auth/tokens", json!({"identity": identity}))
        }
    };
    let json = HeaderValue::from_static("application/json");
    let request = ClientRequest::new(Method::POST, target(&format!("{base}/{path}"))?);
    let request = request.with_header(CONTENT_TYPE, json.clone()).with_header(ACCEPT, json);
    Ok(request.with_body(json!({"auth": body}).to_string().into_bytes()))
}

fn of_either(either: &IdOrName) -> Value {
    match either {
        IdOrName::Id(id) => json!({"id": id}),
        IdOrName::Name(name) => json!({"name": name}),
    }
}

fn of_user(SwiftUser { user, domain }: &SwiftUser) -> Value {
    let mut json = of_either(user);
    if let IdOrName::Name(_) = user {
        json["domain"] = of_either(domain);
    }
    json
}

fn secret(text: &str) -> Result<HeaderValue, String> {
    let mut value =
        HeaderValue::try_from(text).map_err(|_| "a secret has bytes that no header has")?;
    value.set_sensitive(true);
    Ok(value)
}

/// What a good answer grants.
///
/// # Errors
/// What it lacks.
pub(super) fn granted(
    config: &SwiftConfig,
    headers: &HeaderMap,
    body: &[u8],
    now_ns: i64,
) -> Result<Granted, String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let life_ns = |ends: &Value| Some(of_iso(ends.as_str()?)?.saturating_sub(now_ns));
    let (token, storage_url, life_ns) = match &config.credentials {
        SwiftCredentials::V1 { .. } => {
            let life_s = header("x-auth-token-expires").and_then(|text| text.parse::<i64>().ok());
            let url = header("x-storage-url").map(str::to_owned);
            (
                header("x-auth-token").map(str::to_owned),
                url,
                life_s.map(|s| s.saturating_mul(NS_PER_S)),
            )
        }
        SwiftCredentials::V2 { .. } => {
            let json: Value = parsed(body)?;
            let access = &json["access"];
            let key = if config.place.is_internal { "internalURL" } else { "publicURL" };
            let url = endpoint(&access["serviceCatalog"], &config.place, |it| it[key].as_str());
            let token = access["token"]["id"].as_str().map(str::to_owned);
            (token, url, life_ns(&access["token"]["expires"]))
        }
        SwiftCredentials::V3 { .. } | SwiftCredentials::Application { .. } => {
            let json: Value = parsed(body)?;
            let wanted = if config.place.is_internal { "internal" } else { "public" };
            let url = endpoint(&json["token"]["catalog"], &config.place, |it| {
                it["url"].as_str().filter(|_| it["interface"] == wanted)
            });
            let token = header("x-subject-token").map(str::to_owned);
            (token, url, life_ns(&json["token"]["expires_at"]))
        }
    };
    let token = token.ok_or("the answer has no token")?;
    let storage_url = storage_url.ok_or_else(|| match config.place.region.as_str() {
        "" => "the answer names no object store: is the user in a project?".to_owned(),
        region => format!("the answer names no object store in the region {region}"),
    })?;
    let storage_url = storage_url.trim_end_matches('/').to_owned();
    Target::parse(&storage_url).map_err(|error| format!("the address of the store: {error}"))?;
    Ok(Granted { token: secret(&token)?, storage_url, life_ns })
}

fn parsed(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|_| "the answer is not JSON".to_owned())
}

/// The first address of an object store in a catalogue that fits.
fn endpoint<'c>(
    catalogue: &'c Value,
    place: &SwiftPlace,
    url: impl Fn(&'c Value) -> Option<&'c str>,
) -> Option<String> {
    let services = catalogue.as_array()?.iter().filter(|it| it["type"] == "object-store");
    let mut endpoints = services.filter_map(|it| it["endpoints"].as_array()).flatten();
    let is_there = |it: &Value| {
        place.region.is_empty() || it["region"] == *place.region || it["region_id"] == *place.region
    };
    endpoints.find_map(|it| url(it).filter(|_| is_there(it))).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Secret;
    use logsvc_http::client::RequestBody;

    fn config(credentials: SwiftCredentials, place: SwiftPlace) -> SwiftConfig {
        SwiftConfig {
            container: "c".to_owned(),
            prefix: String::new(),
            auth_url: "http://keys:5000/v3/".to_owned(),
            credentials,
            place,
        }
    }

    fn named(text: &str) -> IdOrName {
        IdOrName::Name(text.to_owned())
    }

    fn v3() -> SwiftCredentials {
        SwiftCredentials::V3 {
            user: SwiftUser { user: named("u"), domain: IdOrName::Id("d".to_owned()) },
            password: Secret("hush".to_owned()),
            project: Some((named("p"), named("Default"))),
        }
    }

    fn sent(credentials: SwiftCredentials) -> (String, Value) {
        let request = request(&config(credentials, SwiftPlace::default())).expect("good settings");
        let RequestBody::Full(body) = &request.body else { panic!("no body") };
        let body = serde_json::from_slice(body).expect("JSON");
        (format!("{} {:?}", request.method, request.target), body)
    }

    #[test]
    fn credentials_become_requests() {
        let (line, body) = sent(v3());
        assert_eq!(line, "POST http://keys:5000/v3/auth/tokens");
        let user = json!({"name": "u", "domain": {"id": "d"}, "password": "hush"});
        let expected = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "p", "domain": {"name": "Default"}}},
        }});
        assert_eq!(body, expected);
        let (line, body) = sent(SwiftCredentials::V2 {
            user: "u".to_owned(),
            password: Secret("hush".to_owned()),
            project: Some(named("p")),
        });
        assert_eq!(line, "POST http://keys:5000/v3/tokens");
        let credentials = json!({"username": "u", "password": "hush"});
        let expected = json!({"passwordCredentials": credentials, "tenantName": "p"});
        assert_eq!(body, json!({"auth": expected}));
        let (_, body) = sent(SwiftCredentials::Application {
            credential: IdOrName::Id("i".to_owned()),
            user: SwiftUser { user: named(""), domain: named("") },
            secret: Secret("hush".to_owned()),
        });
        let credential = json!({"id": "i", "secret": "hush"});
        assert_eq!(body["auth"]["identity"]["application_credential"], credential);
        assert_eq!(body["auth"]["scope"], Value::Null);
        let key = Secret("hush".to_owned());
        let first = SwiftCredentials::V1 { user: "a:u".to_owned(), key };
        let request = request(&config(first, SwiftPlace::default())).expect("good settings");
        assert_eq!(
            (&request.headers[USER], &request.method),
            (&"a:u".parse().unwrap(), &Method::GET)
        );
        assert!(request.headers[KEY].is_sensitive());
    }

    #[test]
    fn answers_name_the_store() {
        let endpoint = |interface: &str, region: &str| json!({"interface": interface, "region": region, "url": format!("http://{interface}.{region}/v1/A/")});
        let endpoints = [("admin", "r"), ("public", "r"), ("internal", "s"), ("public", "s")];
        let endpoints = endpoints.map(|(interface, region)| endpoint(interface, region));
        let catalog = json!([
            {"type": "compute", "endpoints": [endpoint("public", "compute")]},
            {"type": "object-store", "endpoints": endpoints},
        ]);
        let ends = "2026-11-28T17:06:34.000000Z";
        let body = json!({"token": {"expires_at": ends, "catalog": catalog}}).to_string();
        let mut headers = HeaderMap::new();
        headers.insert("x-subject-token", HeaderValue::from_static("t"));
        let now_ns = of_iso(ends).expect("a time") - 3600 * NS_PER_S;
        let ask = |region: &str, is_internal, body: &str| {
            let place = SwiftPlace { region: region.to_owned(), is_internal };
            let granted = granted(&config(v3(), place), &headers, body.as_bytes(), now_ns)?;
            assert!(granted.token == "t" && granted.token.is_sensitive());
            assert_eq!(granted.life_ns, Some(3600 * NS_PER_S));
            Ok::<_, String>(granted.storage_url)
        };
        assert_eq!(ask("", false, &body).as_deref(), Ok("http://public.r/v1/A"));
        assert_eq!(ask("s", false, &body).as_deref(), Ok("http://public.s/v1/A"));
        assert_eq!(ask("s", true, &body).as_deref(), Ok("http://internal.s/v1/A"));
        let lacking = ask("x", false, &body).expect_err("no such region");
        assert_eq!(lacking, "the answer names no object store in the region x");
        for (body, expected) in [
            ("", "the answer is not JSON"),
            ("[1]", "the answer names no object store: is the user in a project?"),
            (
                "{\"token\": {\"catalog\": [{}]}}",
                "the answer names no object store: is the user in a project?",
            ),
        ] {
            assert_eq!(ask("", false, body), Err(expected.to_owned()));
        }
    }
}
