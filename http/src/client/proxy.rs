//! Which requests go through a proxy.
//!
//! The rules are those of Go's `net/http`, which people know from Loki and Prometheus: the
//! variables `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in capital or small letters. The own host
//! is never asked through a proxy of the environment.

use std::net::IpAddr;
use std::rc::Rc;

use http::HeaderValue;

use super::target::{Origin, Target};

/// Why a text is no address of a proxy. No message shows the text, which may hold a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid proxy URL: {0}")]
pub struct ProxyError(&'static str);

/// A proxy.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Proxy {
    pub(super) origin: Origin,
    pub(super) authorization: Option<HeaderValue>,
}

/// Which proxy a request goes through. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    plain: Option<Rc<Proxy>>,
    secure: Option<Rc<Proxy>>,
    /// Hosts that are asked without a proxy; `None`: not even the own host is.
    direct: Option<Vec<Direct>>,
}

/// The connections that a request may use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Route {
    /// To the host itself.
    Direct(Origin),
    /// To a proxy that passes requests on.
    Forward {
        proxy: Origin,
        /// So that credentials of two settings do not share connections.
        authorization: Option<Vec<u8>>,
    },
    /// To the host, through a proxy that passes bytes on.
    Tunnel { proxy: Origin, authorization: Option<Vec<u8>>, host: Origin },
}

/// An entry of `NO_PROXY`.
#[derive(Clone, PartialEq, Debug)]
enum Direct {
    All,
    Network(IpAddr, u8),
    Host {
        name: String,
        port: Option<u16>,
        /// Whether the name itself counts, beside the names below it.
        is_whole: bool,
    },
}

impl Proxies {
    /// All requests go through this proxy, those to the own host included.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn always(url: &str) -> Result<Proxies, ProxyError> {
        let proxy = Some(Rc::new(parse_proxy(url)?));
        Ok(Proxies { plain: proxy.clone(), secure: proxy, direct: None })
    }

    /// The proxies that the environment names.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn from_environment() -> Result<Proxies, ProxyError> {
        Proxies::from_variables(|name| std::env::var(name).ok())
    }

    /// The proxies that variables name.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Proxies, ProxyError> {
        let either = |name: &str| {
            let filled = |text: &String| !text.is_empty();
            let capital = variable(name).filter(filled);
            capital.or_else(|| variable(&name.to_ascii_lowercase()).filter(filled))
        };
        let proxy = |name| either(name).map(|url| parse_proxy(&url).map(Rc::new)).transpose();
        Ok(Proxies {
            // A CGI program gets the header `Proxy` of its client in this variable.
            plain: if variable("REQUEST_METHOD").is_some() { None } else { proxy("HTTP_PROXY")? },
            secure: proxy("HTTPS_PROXY")?,
            direct: Some(parse_direct(&either("NO_PROXY").unwrap_or_default())),
        })
    }

    /// The proxy of a request to this host, if it goes through one.
    fn proxy_of(&self, origin: &Origin) -> Option<&Rc<Proxy>> {
        let proxy = if origin.is_secure { &self.secure } else { &self.plain };
        let is_direct = self.direct.as_ref().is_some_and(|entries| is_direct(entries, origin));
        proxy.as_ref().filter(|_| !is_direct)
    }

    /// The connections that a request may use, and the proxy at their end.
    pub(super) fn route(&self, target: &Target) -> (Route, Option<Rc<Proxy>>) {
        let host = target.origin.clone();
        let Some(proxy) = self.proxy_of(&host) else { return (Route::Direct(host), None) };
        let authorization = proxy.authorization.as_ref().map(|value| value.as_bytes().to_vec());
        let origin = proxy.origin.clone();
        let route = if host.is_secure {
            Route::Tunnel { proxy: origin, authorization, host }
        } else {
            Route::Forward { proxy: origin, authorization }
        };
        (route, Some(Rc::clone(proxy)))
    }
}

fn parse_proxy(url: &str) -> Result<Proxy, ProxyError> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let target = Target::parse(&url).map_err(|error| ProxyError(error.0))?;
    Ok(Proxy { origin: target.origin, authorization: target.authorization })
}

fn parse_direct(text: &str) -> Vec<Direct> {
    let entries = text.split(',').map(|entry| entry.trim().to_ascii_lowercase());
    entries.filter(|entry| !entry.is_empty()).map(|entry| parse_entry(&entry)).collect()
}

fn parse_entry(entry: &str) -> Direct {
    if entry == "*" {
        return Direct::All;
    }
    if let Some((address, bits)) = entry.split_once('/')
        && let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse())
    {
        return Direct::Network(address, bits);
    }
    let (name, port) = match entry.rsplit_once(':') {
        // More colons are an address of IPv6.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let below = name.strip_prefix("*.").or_else(|| name.strip_prefix('.'));
    Direct::Host { name: below.unwrap_or(name).to_owned(), port, is_whole: below.is_none() }
}

fn is_direct(entries: &[Direct], origin: &Origin) -> bool {
    let host = origin.host.trim_end_matches('.');
    let address = host.parse::<IpAddr>().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    entries.iter().any(|entry| match entry {
        Direct::All => true,
        Direct::Network(network, bits) => {
            address.is_some_and(|address| is_within(address, *network, *bits))
        }
        Direct::Host { port: Some(port), .. } if *port != origin.port => false,
        Direct::Host { name, is_whole, .. } => {
            *is_whole && host == name
                || address.is_none()
                    && host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
        }
    })
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, len) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    if bits > len {
        return false;
    }
    let shift = u32::from(len - bits);
    address.checked_shr(shift).unwrap_or(0) == network.checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &'static [(&str, &str)]) -> Result<Proxies, ProxyError> {
        Proxies::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn through(proxies: &Proxies, url: &str) -> Option<String> {
        let target = Target::parse(url).expect(url);
        proxies.route(&target).1.map(|proxy| proxy.origin.to_string())
    }

    #[test]
    fn the_environment_names_proxies_by_scheme() {
        let set = proxies(&[("HTTP_PROXY", "p:3128"), ("https_proxy", "http://u:p@s")]);
        let set = set.expect("good addresses");
        assert_eq!(through(&set, "http://am/").as_deref(), Some("p:3128"));
        assert_eq!(through(&set, "https://am/").as_deref(), Some("s:80"));
        assert_eq!(through(&set, "http://localhost:9093/"), None);
        assert_eq!(through(&set, "https://127.3.0.1/"), None);
        assert_eq!(through(&set, "https://[::1]/"), None);
        let target = Target::parse("https://am").expect("good");
        let (route, proxy) = set.route(&target);
        assert!(matches!(route, Route::Tunnel { host, .. } if host == target.origin));
        assert_eq!(proxy.expect("a proxy").authorization, Some("Basic dTpw".parse().expect("ok")));
        let set = proxies(&[("HTTP_PROXY", "p"), ("REQUEST_METHOD", "GET")]).expect("good");
        assert_eq!(through(&set, "http://am/"), None);
        assert!(proxies(&[("HTTPS_PROXY", "socks5://p")]).is_err());
        assert_eq!(through(&Proxies::default(), "http://am/"), None);
    }

    #[test]
    fn an_explicit_proxy_is_always_used() {
        let set = Proxies::always("http://p:1").expect("good");
        for url in ["http://localhost", "https://127.0.0.1", "http://am"] {
            assert_eq!(through(&set, url).as_deref(), Some("p:1"), "{url}");
        }
    }

    #[test]
    fn hosts_are_excepted_as_in_go() {
        const EXCEPTED: &str = "a.example, .b.example,*.c.example,10.0.0.0/8,fd00::/8,\
                                192.168.1.1,d.example:8080,[fe80::1]:80,,x/y,1.2.3.4/99";
        let set = proxies(&[("HTTP_PROXY", "p"), ("NO_PROXY", EXCEPTED)]).expect("good");
        for (host, is_direct) in [
            ("a.example", true),
            ("A.EXAMPLE.", true),
            ("x.a.example", true),
            ("xa.example", false),
            ("b.example", false),
            ("x.b.example", true),
            ("c.example", false),
            ("x.c.example", true),
            ("10.2.3.4", true),
            ("11.2.3.4", false),
            ("[fd12::1]", true),
            ("192.168.1.1", true),
            ("192.168.1.2", false),
            ("d.example", false),
            ("d.example:8080", true),
            ("[fe80::1]", true),
            ("[fe80::1]:81", false),
            ("1.2.3.4", false),
        ] {
            let url = format!("http://{host}/");
            assert_eq!(through(&set, &url).is_none(), is_direct, "{host}");
        }
        let all = proxies(&[("HTTP_PROXY", "p"), ("no_proxy", "*")]).expect("good");
        assert_eq!(through(&all, "http://am/"), None);
    }
}
