//! Cipher suites by the names that configuration files use.
//!
//! The names are the names of the IANA registry, as Go's `crypto/tls` prints them. A list restricts
//! TLS 1.2 only: all suites of TLS 1.3 are strong, and Go's servers, whose files this server reads,
//! offer no choice among them either.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite as ring;

/// The suites of TLS 1.2 that are spoken, in order of preference.
const TLS12: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", ring::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", ring::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        ring::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ring::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        ring::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The suites of TLS 1.3, all of which are always spoken.
const TLS13: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", ring::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", ring::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", ring::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Names that files of the reference may have and that stand for suites which are not
/// spoken: without forward secrecy, or with CBC, whose padding is hard to check in
/// constant time.
const KNOWN_ONLY: &[&str] = &[
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
];

/// The suites that a server speaks.
#[derive(Clone, PartialEq, Debug)]
pub struct CipherSuites {
    /// Empty if TLS 1.2 has none left.
    tls12: Vec<SupportedCipherSuite>,
    not_spoken: Vec<String>,
}

impl Default for CipherSuites {
    /// All that there are.
    fn default() -> CipherSuites {
        CipherSuites {
            tls12: TLS12.iter().map(|(_, suite)| *suite).collect(),
            not_spoken: Vec::new(),
        }
    }
}

impl CipherSuites {
    /// The suites with these names, in this order of preference; all suites without names. The
    /// error is the first unknown name.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<CipherSuites, String> {
        let mut suites = CipherSuites { tls12: Vec::new(), not_spoken: Vec::new() };
        let mut any = false;
        for name in names.into_iter().map(str::trim).filter(|name| !name.is_empty()) {
            any = true;
            if let Some((_, suite)) = TLS12.iter().find(|(known, _)| *known == name) {
                if !suites.tls12.contains(suite) {
                    suites.tls12.push(*suite);
                }
            } else if KNOWN_ONLY.contains(&name) {
                suites.not_spoken.push(name.to_owned());
            } else if !TLS13.iter().any(|(known, _)| *known == name) {
                return Err(format!("cipher suite {name:?} not recognized"));
            }
        }
        Ok(if any { suites } else { CipherSuites::default() })
    }

    /// Names that were asked for and stand for suites that are too weak to be spoken.
    pub fn not_spoken(&self) -> &[String] {
        &self.not_spoken
    }

    /// Whether any suite of TLS 1.2 is left.
    pub fn has_tls12(&self) -> bool {
        !self.tls12.is_empty()
    }

    /// All suites, with TLS 1.3 first.
    pub(crate) fn all(&self) -> Vec<SupportedCipherSuite> {
        TLS13.iter().map(|(_, suite)| *suite).chain(self.tls12.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_suites() {
        for (name, suite) in TLS12.iter().chain(TLS13) {
            let shown = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
            assert_eq!(*name, shown);
        }
        let spoken = CipherSuites::default().all();
        let offered = rustls::crypto::ring::DEFAULT_CIPHER_SUITES;
        assert_eq!(spoken.len(), offered.len());
        assert!(offered.iter().all(|suite| spoken.contains(suite)));
    }

    #[test]
    fn lists_restrict_tls_1_2_in_their_order() {
        let names = [TLS12[3].0, " TLS_AES_128_GCM_SHA256", TLS12[0].0, TLS12[3].0, KNOWN_ONLY[0]];
        let suites = CipherSuites::named(names).expect("all are known");
        assert_eq!(suites.tls12, [TLS12[3].1, TLS12[0].1]);
        assert_eq!(suites.not_spoken(), [KNOWN_ONLY[0]]);
        assert_eq!(suites.all().len(), TLS13.len() + 2);
        assert_eq!(CipherSuites::named(["", " "]), Ok(CipherSuites::default()));
        let none = CipherSuites::named([KNOWN_ONLY[3]]).expect("known");
        assert!(!none.has_tls12());
        let error = CipherSuites::named([TLS12[0].0, "TLS_NULL"]).expect_err("unknown");
        assert_eq!(error, "cipher suite \"TLS_NULL\" not recognized");
    }
}
