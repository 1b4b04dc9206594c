//! Settings that are allowed but that hardly anybody means.

use super::{Config, Limits, Machine};

/// One text for each, with what to do about it.
pub(crate) fn advice(config: &Config, machine: &Machine) -> Vec<String> {
    let mut texts = Vec::new();
    if config.cores > machine.cores {
        texts.push(format!(
            "cores is {}, but this process may use {} CPUs: cores that share one are slower than \
             fewer cores; leave --cores out",
            config.cores, machine.cores
        ));
    }
    if !config.retention_enabled
        && config.limits.retention_period_ns != Limits::default().retention_period_ns
    {
        texts.push(
            "limits_config.retention_period is set, but nothing is ever removed: set \
             compactor.retention_enabled, too"
                .to_owned(),
        );
    }
    if !config.http_address.ip().is_loopback()
        && !config.tls.is_on()
        && !config.auth_enabled
        && !config.access.asks_who()
    {
        texts.push(format!(
            "whoever reaches {} may push and read everything: there is neither TLS \
             (server.http_tls_config) nor a check of tenants (auth_enabled) nor of passwords \
             (server.users_file); listen on 127.0.0.1 with --server.http-listen-address, or put a \
             proxy in front that asks who it is",
            config.http_address
        ));
    }
    if config.access.asks_who() && !config.http_address.ip().is_loopback() && !config.tls.is_on() {
        texts.push(
            "passwords and tokens of server.users_file are sent in the clear: set \
             server.http_tls_config, or put a proxy in front that speaks TLS"
                .to_owned(),
        );
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_oversight_is_told_with_its_remedy() {
        let machine = Machine { cores: 2, memory_bytes: Ok(1 << 30), limited_by: None };
        let quiet = || {
            let mut config = Config { cores: 2, ..Config::default() };
            config.http_address = "127.0.0.1:3100".parse().expect("an address");
            config
        };
        let of = |change: &dyn Fn(&mut Config)| {
            let mut config = quiet();
            change(&mut config);
            advice(&config, &machine)
        };
        assert_eq!(of(&|_| ()), [""; 0]);
        type Change<'c> = &'c dyn Fn(&mut Config);
        let changes: [(Change<'_>, &str); 3] = [
            (&|c| c.cores = 3, "--cores"),
            (&|c| c.limits.retention_period_ns = 86_400_000_000_000, "compactor.retention_enabled"),
            (&|c| c.http_address = "0.0.0.0:1".parse().expect("an address"), "auth_enabled"),
        ];
        for (change, remedy) in changes {
            let texts = of(change);
            assert!(texts.len() == 1 && texts[0].contains(remedy), "{texts:?}");
        }
        let open = |c: &mut Config| c.http_address = "[::]:1".parse().expect("an address");
        assert_eq!(
            of(&|c| {
                open(c);
                c.auth_enabled = true
            }),
            [""; 0]
        );
        assert_eq!(
            of(&|c| {
                open(c);
                c.tls.cert_file = "c".into()
            }),
            [""; 0]
        );
    }
}
