//! TLS of the servers of a node: the settings, and the configuration that follows from them at the
//! start. Texts for operators name the server: `http`, `grpc` for other nodes, or `memberlist`.
//!
//! TLS is on if a certificate or a key is named. What can go wrong: unknown words, which
//! [`TlsConfig::check`] finds without reading a file; and files that are not readable or do not
//! fit together, which [`TlsConfig::load`] finds.

/// Settings of TLS. An empty text is a setting that is not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TlsConfig {
    /// File with the server's certificate and the certificates up to its issuer.
    pub(crate) cert_file: String,
    /// File with the private key.
    pub(crate) key_file: String,
    /// The certificate that clients must show, by the names of Go.
    pub(crate) client_auth_type: String,
    /// File with the certificates of the issuers of clients.
    pub(crate) client_ca_file: String,
    /// Oldest version, by the names of Go.
    pub(crate) min_version: String,
    /// Suites of TLS 1.2, by their names; all if empty.
    pub(crate) cipher_suites: Vec<String>,
}

impl TlsConfig {
    /// Whether the server speaks TLS.
    pub(crate) fn is_on(&self) -> bool {
        !self.cert_file.is_empty() || !self.key_file.is_empty()
    }
}

#[cfg(feature = "tls")]
pub(crate) use spoken::TlsAcceptor;
#[cfg(not(feature = "tls"))]
pub(crate) use unspoken::TlsAcceptor;

#[cfg(feature = "tls")]
mod spoken {
    use std::io::{self, Read};

    pub(crate) use logsvc_tls::TlsAcceptor;
    use logsvc_tls::{CipherSuites, ClientAuth, MinVersion, SettingsError, TlsSettings};

    use super::TlsConfig;

    /// Longer files are no certificates.
    const FILE_MAX_BYTES: u64 = 1 << 20;

    impl TlsConfig {
        /// Appends a text for each fault that can be seen without the files.
        pub(in super::super) fn check(&self, server: &str, errors: &mut Vec<String>) {
            let faults = [
                self.min_version.parse::<MinVersion>().map(drop).err(),
                self.suites().map(drop).err(),
            ];
            errors.extend(faults.into_iter().flatten().map(|error| generating(server, &error)));
            self.check_files(server, errors);
        }

        /// The same, but for versions and suites, which all servers of a node have in common.
        pub(in super::super) fn check_files(&self, server: &str, errors: &mut Vec<String>) {
            let mut need = |outcome: Result<(), String>| {
                if let Err(error) = outcome {
                    errors.push(generating(server, &error));
                }
            };
            need(self.check_client_auth());
            if self.is_on() && (self.cert_file.is_empty() || self.key_file.is_empty()) {
                need(Err("cert_file and key_file go together".to_owned()));
            }
        }

        fn check_client_auth(&self) -> Result<(), String> {
            let auth: ClientAuth = self.client_auth_type.parse()?;
            if auth != ClientAuth::None && !self.is_on() {
                // The reference serves all clients in this case.
                return Err("client_auth_type needs cert_file and key_file".to_owned());
            }
            if auth.verifies() && self.client_ca_file.is_empty() {
                return Err(format!("{} needs client_ca_file", self.client_auth_type));
            }
            if auth == ClientAuth::None && !self.client_ca_file.is_empty() {
                return Err("client_ca_file needs a client_auth_type".to_owned());
            }
            Ok(())
        }

        fn suites(&self) -> Result<CipherSuites, String> {
            CipherSuites::named(self.cipher_suites.iter().map(String::as_str))
        }

        /// Reads the files; `None` if TLS is off.
        pub(crate) fn load(&self, server: &str) -> Result<Option<TlsAcceptor>, String> {
            if !self.is_on() {
                return Ok(None);
            }
            let certificate_error = |reason: &str| {
                let (cert, key) = (&self.cert_file, &self.key_file);
                format!("failed to load TLS certificate {cert},{key}: {reason}")
            };
            let ca_error =
                |reason: &str| format!("error loading ca cert: {}: {reason}", self.client_ca_file);
            let client_auth: ClientAuth = self
                .client_auth_type
                .parse()
                .map_err(|error: String| generating(server, &error))?;
            let settings = TlsSettings {
                certificates_pem: read(&self.cert_file).map_err(|e| certificate_error(&e))?,
                key_pem: read(&self.key_file).map_err(|e| certificate_error(&e))?,
                client_auth,
                client_ca_pem: match client_auth.verifies() {
                    true => read(&self.client_ca_file).map_err(|e| ca_error(&e))?,
                    false => Vec::new(),
                },
                min_version: self
                    .min_version
                    .parse()
                    .map_err(|e: String| generating(server, &e))?,
                cipher_suites: self.suites().map_err(|error| generating(server, &error))?,
            };
            self.warn_of_what_is_not_spoken(&settings);
            let acceptor = TlsAcceptor::new(&settings).map_err(|error| match &error {
                SettingsError::Certificate(reason) => certificate_error(reason),
                SettingsError::ClientCa(reason) => ca_error(reason),
                SettingsError::Other(reason) => generating(server, reason),
            })?;
            Ok(Some(acceptor))
        }

        fn warn_of_what_is_not_spoken(&self, settings: &TlsSettings) {
            if matches!(&*self.min_version, "VersionTLS10" | "VersionTLS11") {
                tracing::warn!("versions before TLS 1.2 are not spoken");
            }
            let weak = settings.cipher_suites.not_spoken();
            if !weak.is_empty() {
                tracing::warn!(suites = weak.join(", "), "weak cipher suites are not spoken");
            }
            if !settings.cipher_suites.has_tls12() && settings.min_version == MinVersion::Tls12 {
                tracing::warn!("no cipher suite of TLS 1.2 is left, so only TLS 1.3 is spoken");
            }
        }
    }

    fn generating(server: &str, error: &str) -> String {
        format!("error generating {server} tls config: {error}")
    }

    fn read(path: &str) -> Result<Vec<u8>, String> {
        let whole = || -> io::Result<Vec<u8>> {
            #[expect(clippy::disallowed_methods, reason = "at the start, before any core")]
            let file = std::fs::File::open(path)?;
            let mut bytes = Vec::new();
            file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > FILE_MAX_BYTES {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(bytes)
        };
        whole().map_err(|error| format!("cannot read {path}: {error}"))
    }
}

#[cfg(not(feature = "tls"))]
mod unspoken {
    use super::TlsConfig;

    /// Has no value: a server without TLS has no acceptor.
    #[derive(Clone, Debug)]
    pub(crate) enum TlsAcceptor {}

    impl TlsConfig {
        /// Appends a text if TLS is wanted, because this build has none.
        pub(in super::super) fn check(&self, server: &str, errors: &mut Vec<String>) {
            if *self != TlsConfig::default() {
                errors.push(format!("server.{server}_tls_config: this build has no TLS"));
            }
        }

        /// The same.
        pub(in super::super) fn check_files(&self, server: &str, errors: &mut Vec<String>) {
            self.check(server, errors);
        }

        /// TLS is off.
        pub(crate) fn load(&self, _server: &str) -> Result<Option<TlsAcceptor>, String> {
            Ok(None)
        }
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;

    fn faults(config: &TlsConfig) -> Vec<String> {
        let mut errors = Vec::new();
        config.check("http", &mut errors);
        errors
    }

    fn on() -> TlsConfig {
        TlsConfig { cert_file: "c".into(), key_file: "k".into(), ..TlsConfig::default() }
    }

    #[test]
    fn words_are_checked_without_files() {
        assert_eq!(faults(&TlsConfig::default()), [""; 0]);
        assert_eq!(faults(&on()), [""; 0]);
        for version in ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"] {
            assert_eq!(faults(&TlsConfig { min_version: version.into(), ..on() }), [""; 0]);
        }
        let verified = |auth: &str, ca: &str| TlsConfig {
            client_auth_type: auth.into(),
            client_ca_file: ca.into(),
            ..on()
        };
        for (auth, ca) in [
            ("NoClientCert", ""),
            ("RequestClientCert", ""),
            ("RequireAnyClientCert", ""),
            ("VerifyClientCertIfGiven", "ca"),
            ("RequireAndVerifyClientCert", "ca"),
        ] {
            assert_eq!(faults(&verified(auth, ca)), [""; 0], "{auth}");
        }
        let prefix = "error generating http tls config: ";
        for (config, reason) in [
            (
                TlsConfig { min_version: "TLS12".into(), ..TlsConfig::default() },
                "TLS version \"TLS12\" not recognized",
            ),
            (
                TlsConfig { cipher_suites: vec!["X".into()], ..on() },
                "cipher suite \"X\" not recognized",
            ),
            (verified("Always", ""), "invalid client auth type \"Always\""),
            (
                verified("RequireAndVerifyClientCert", ""),
                "RequireAndVerifyClientCert needs client_ca_file",
            ),
            (verified("", "ca"), "client_ca_file needs a client_auth_type"),
            (
                TlsConfig { cert_file: "c".into(), ..TlsConfig::default() },
                "cert_file and key_file go together",
            ),
            (
                TlsConfig { client_auth_type: "RequestClientCert".into(), ..TlsConfig::default() },
                "client_auth_type needs cert_file and key_file",
            ),
        ] {
            assert_eq!(faults(&config), [format!("{prefix}{reason}")]);
        }
    }

    #[test]
    fn files_that_are_not_there_are_named() {
        let error = on().load("http").expect_err("no such file");
        assert!(
            error.starts_with("failed to load TLS certificate c,k: cannot read c: "),
            "{error}"
        );
        assert!(TlsConfig::default().load("http").expect("TLS is off").is_none());
    }
}
