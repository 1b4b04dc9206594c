//! The members that a node asks to let it in, as an operator names them.

use std::fmt;
use std::str::FromStr;

/// One of `memberlist.join_members`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinAddress {
    /// `host`, `host:port` or `dns+host:port`: all addresses of a host.
    Host {
        /// A name or an IP address, that of IPv6 without brackets.
        host: String,
        /// `None`: the port on which this node listens.
        port: Option<u16>,
    },
    /// `dnssrv+name`: the targets of SRV records, which have the ports.
    Service(String),
}

/// Why a text names no members.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is none of host, host:port, dns+host:port and dnssrv+name: {reason}")]
pub struct JoinAddressError {
    text: String,
    reason: &'static str,
}

impl FromStr for JoinAddress {
    type Err = JoinAddressError;

    fn from_str(text: &str) -> Result<JoinAddress, JoinAddressError> {
        let fault = |reason| JoinAddressError { text: text.to_owned(), reason };
        if let Some(name) = text.strip_prefix("dnssrv+").or(text.strip_prefix("dnssrvnoa+")) {
            return match name {
                "" => Err(fault("the name is missing")),
                name if name.contains([':', '+', '/']) => Err(fault("it is no name")),
                name => Ok(JoinAddress::Service(name.to_owned())),
            };
        }
        let rest = text.strip_prefix("dns+").unwrap_or(text);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or(fault("a bracket is missing"))?;
                match behind {
                    "" => (host, None),
                    behind => (host, Some(behind.strip_prefix(':').ok_or(fault("no port"))?)),
                }
            }
            // More than one colon: an IPv6 address as such.
            None if rest.matches(':').count() > 1 => (rest, None),
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        if host.is_empty() || host.contains(['+', '/', '[', ']', ' ']) {
            return Err(fault("the host is no name and no address"));
        }
        if host.contains(':') && host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(fault("the host is no IPv6 address"));
        }
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return Err(fault("the port is no number from 1 to 65535")),
        };
        Ok(JoinAddress::Host { host: host.to_owned(), port })
    }
}

impl fmt::Display for JoinAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinAddress::Host { host, port: None } => f.write_str(host),
            JoinAddress::Host { host, port: Some(port) } if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            JoinAddress::Host { host, port: Some(port) } => write!(f, "{host}:{port}"),
            JoinAddress::Service(name) => write!(f, "dnssrv+{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(host: &str, port: Option<u16>) -> JoinAddress {
        JoinAddress::Host { host: host.to_owned(), port }
    }

    #[test]
    fn forms() {
        let parse = |text: &str| text.parse::<JoinAddress>().expect(text);
        assert_eq!(parse("read"), host("read", None));
        assert_eq!(parse("read:7"), host("read", Some(7)));
        assert_eq!(parse("dns+read.example:7946"), host("read.example", Some(7946)));
        assert_eq!(parse("10.0.0.1:7946"), host("10.0.0.1", Some(7946)));
        assert_eq!(parse("[fd00::1]:7"), host("fd00::1", Some(7)));
        assert_eq!(parse("[fd00::1]"), host("fd00::1", None));
        assert_eq!(parse("fd00::1"), host("fd00::1", None));
        let name = "_gossip._tcp.logs.example";
        assert_eq!(parse(&format!("dnssrv+{name}")), JoinAddress::Service(name.to_owned()));
        assert_eq!(parse(&format!("dnssrvnoa+{name}")), JoinAddress::Service(name.to_owned()));
        for text in ["read", "read:7", "[fd00::1]:7", "dnssrv+a.b"] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let texts = "|:7|read:|read:0|read:65536|read:x|dnssrv+|dnssrv+a:1|http://read:1|a+b:1|[fd00::1|[fd00::1]7|fd00::x:y|dns+";
        for text in texts.split('|') {
            let error = text.parse::<JoinAddress>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
