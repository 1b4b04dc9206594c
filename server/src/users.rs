//! Who may use the server: names, passwords and tokens of a file, as `htpasswd` writes it.
//!
//! # The file
//! One account a line, `name:hash` or `name:hash:tenant`; empty lines and lines that begin with `#`
//! are left out. The hash is one of
//!
//! | begins with | |
//! |---|---|
//! | `$2a$`, `$2b$`, `$2y$` | bcrypt (`htpasswd -B`) |
//! | `$argon2id$`, `$argon2i$`, `$argon2d$` | Argon2, in the form of its reference program |
//! | `$sha256$` | SHA-256 in 64 hexadecimal digits: for long random tokens alone |
//!
//! The password of an account is sent with HTTP Basic. A token is sent with HTTP Basic, too, or
//! alone as a bearer token. An account with a tenant acts for this tenant alone.
//!
//! Guarantees: no password, token or hash is in an error or in debug output. A hash that takes
//! longer or needs more memory than [`MAX_BCRYPT_COST`] and [`MAX_ARGON2_KIB`] allow is refused when
//! the file is read, so that a check has a bound. What can go wrong: the file cannot be read, or a
//! line is no account; then it is refused as a whole, with the number of the line.

use std::collections::BTreeMap;
use std::fmt;

use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params};
use logsvc_proto::TenantId;
use sha2::{Digest, Sha256};

/// The largest cost of bcrypt: about two seconds.
const MAX_BCRYPT_COST: u32 = 15;

/// The most memory of Argon2, in KiB.
const MAX_ARGON2_KIB: u32 = 256 << 10;

/// The most passes of Argon2.
const MAX_ARGON2_PASSES: u32 = 64;

/// Longer files hold no accounts.
pub(crate) const FILE_MAX_BYTES: u64 = 4 << 20;

/// All accounts.
#[derive(Debug, Default)]
pub(crate) struct Users {
    by_name: BTreeMap<String, Account>,
    /// Names of accounts by the SHA-256 of their tokens.
    by_token: BTreeMap<[u8; 32], String>,
}

/// What the file says of a name.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    hash: Hash,
    /// The tenant that it acts for; any if `None`.
    pub(crate) tenant: Option<TenantId>,
}

#[derive(Clone)]
enum Hash {
    Bcrypt(String),
    Argon2(String),
    Sha256([u8; 32]),
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hash::Bcrypt(_) => "bcrypt",
            Hash::Argon2(_) => "argon2",
            Hash::Sha256(_) => "sha256",
        })
    }
}

impl Users {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// See the module.
    pub(crate) fn parse(text: &str) -> Result<Users, String> {
        let mut users = Users::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            users.add(line).map_err(|fault| format!("line {}: {fault}", number + 1))?;
        }
        if users.by_name.is_empty() {
            return Err("there is no account".to_owned());
        }
        Ok(users)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let mut parts = line.split(':');
        let (Some(name), Some(hash)) = (parts.next(), parts.next()) else {
            return Err("an account is name:hash or name:hash:tenant".to_owned());
        };
        if name.is_empty() {
            return Err("the name is empty".to_owned());
        }
        let tenant = match parts.next().filter(|tenant| !tenant.is_empty()) {
            Some(id) => Some(TenantId::new(id).map_err(|error| error.to_string())?),
            None => None,
        };
        if parts.next().is_some() {
            return Err("there are more than three parts".to_owned());
        }
        let hash = Hash::parse(hash)?;
        if let Hash::Sha256(token) = hash
            && self.by_token.insert(token, name.to_owned()).is_some()
        {
            return Err("another account has the same token".to_owned());
        }
        if self.by_name.insert(name.to_owned(), Account { hash, tenant }).is_some() {
            return Err(format!("the name {name:?} is there twice"));
        }
        Ok(())
    }

    /// The account of a name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Account> {
        self.by_name.get(name)
    }

    /// The account with this token, and its name. It needs no further check.
    pub(crate) fn by_token(&self, token: &[u8]) -> Option<&Account> {
        let name = self.by_token.get(&<[u8; 32]>::from(Sha256::digest(token)))?;
        self.by_name.get(name)
    }

    /// Takes as long as the check of a password, so that nobody learns which names there are.
    pub(crate) fn pretend_to_check(&self, password: &[u8]) {
        let slow = |account: &&Account| !matches!(account.hash, Hash::Sha256(_));
        if let Some(account) = self.by_name.values().find(slow) {
            let _is_never_right = account.has_password(password);
        }
    }

    /// Whether an account acts for one tenant.
    pub(crate) fn name_tenants(&self) -> bool {
        self.by_name.values().any(|account| account.tenant.is_some())
    }

    /// The number of accounts.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }
}

impl Hash {
    fn parse(text: &str) -> Result<Hash, String> {
        if let Some(digits) = text.strip_prefix("$sha256$") {
            return sha256_of_hex(digits)
                .map(Hash::Sha256)
                .ok_or_else(|| "$sha256$ needs 64 hexadecimal digits".to_owned());
        }
        if ["$2a$", "$2b$", "$2y$"].iter().any(|prefix| text.starts_with(prefix)) {
            let cost: Option<u32> = text.get(4..6).and_then(|digits| digits.parse().ok());
            let is_whole = text.len() == 60 && text.as_bytes()[6] == b'$';
            let cost = cost.filter(|_| is_whole).ok_or("the hash of bcrypt is damaged")?;
            if cost > MAX_BCRYPT_COST {
                return Err(format!("the cost of bcrypt is {cost}, at most {MAX_BCRYPT_COST}"));
            }
            return Ok(Hash::Bcrypt(text.to_owned()));
        }
        if text.starts_with("$argon2") {
            let damaged = |_| "the hash of Argon2 is damaged".to_owned();
            let hash = PasswordHash::new(text).map_err(damaged)?;
            if hash.salt.is_none() || hash.hash.is_none() {
                return Err("the hash of Argon2 is damaged".to_owned());
            }
            let params = Params::try_from(&hash)
                .map_err(|_| "the hash of Argon2 has bad parameters".to_owned())?;
            if params.m_cost() > MAX_ARGON2_KIB || params.t_cost() > MAX_ARGON2_PASSES {
                return Err(format!(
                    "Argon2 may take {MAX_ARGON2_KIB} KiB and {MAX_ARGON2_PASSES} passes at most"
                ));
            }
            return Ok(Hash::Argon2(text.to_owned()));
        }
        Err("the hash is none of bcrypt ($2y$), Argon2 ($argon2id$) and SHA-256 ($sha256$); \
             htpasswd -B makes one of bcrypt"
            .to_owned())
    }
}

impl Account {
    /// Whether this is its password. Takes up to seconds, on purpose: not for a core.
    pub(crate) fn has_password(&self, password: &[u8]) -> bool {
        match &self.hash {
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::Argon2(hash) => PasswordHash::new(hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            // The texts are long and random, so that what the time tells is of no use.
            Hash::Sha256(hash) => *hash == <[u8; 32]>::from(Sha256::digest(password)),
        }
    }
}

fn sha256_of_hex(digits: &str) -> Option<[u8; 32]> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; 32] = pairs.try_into().ok()?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(pairs) {
        let text = std::str::from_utf8(pair).ok().filter(|text| !text.starts_with('+'))?;
        *byte = u8::from_str_radix(text, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordHasher;

    use super::*;

    #[test]
    fn accounts_have_their_passwords_and_tenants() {
        let bcrypt = bcrypt::hash_with_salt("secret", 4, [7; 16])
            .expect("a hash")
            .format_for_version(bcrypt::Version::TwoY);
        let params = Params::new(64, 1, 1, None).expect("parameters");
        let argon2: argon2::PasswordHash =
            Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
                .hash_password_with_salt(b"secret", b"somesalt")
                .expect("a hash");
        let token: String =
            Sha256::digest(b"token").iter().map(|byte| format!("{byte:02x}")).collect();
        let text =
            format!("# who\n\nann:{bcrypt}\nbob:{argon2}:shop\r\nbot:$sha256${token}:shop\n");
        let users = Users::parse(&text).expect("three accounts");
        assert_eq!((users.len(), users.name_tenants()), (3, true));
        let tenant = |account: &Account| account.tenant.as_ref().map(|t| t.as_str().to_owned());
        for (name, password, of_tenant) in [
            ("ann", "secret", None),
            ("bob", "secret", Some("shop")),
            ("bot", "token", Some("shop")),
        ] {
            let account = users.by_name(name).expect("an account");
            assert!(account.has_password(password.as_bytes()), "{name}");
            assert!(!account.has_password(b"Secret") && !account.has_password(b""), "{name}");
            assert_eq!(tenant(account).as_deref(), of_tenant);
        }
        assert!(users.by_name("eve").is_none());
        assert!(users.by_token(b"token").is_some() && users.by_token(b"secret").is_none());
        let shown = format!("{users:?}");
        assert!(!shown.contains("$2y$") && !shown.contains("$argon2"), "{shown}");
    }

    #[test]
    fn lines_that_are_no_accounts_are_named() {
        let good = "$2y$05$BHWz4oRZ7Hs7YoUwVJ6WsetCBKGBZ6Ti8gMVV3wLzGUe.Rr6bXxOC";
        let dear = good.replace("$05$", "$31$");
        let cases = [
            (String::new(), "there is no account"),
            ("# nobody\n".to_owned(), "there is no account"),
            ("ann\n".to_owned(), "line 1: an account is"),
            (format!(":{good}"), "line 1: the name is empty"),
            (format!("ann:{good}\n\nann:{good}"), "line 3: the name \"ann\" is there twice"),
            (format!("ann:{good}:a:b"), "line 1: there are more"),
            (format!("ann:{good}:a/b"), "line 1: tenant ID"),
            ("ann:secret".to_owned(), "line 1: the hash is none of"),
            ("ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=".to_owned(), "line 1: the hash is none of"),
            ("ann:$apr1$x$y".to_owned(), "line 1: the hash is none of"),
            (format!("ann:{}", &good[..50]), "line 1: the hash of bcrypt is damaged"),
            (format!("ann:{dear}"), "line 1: the cost of bcrypt is 31, at most 15"),
            ("ann:$argon2id$v=19$m=99".to_owned(), "line 1: the hash of Argon2"),
            (
                "ann:$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHQ$".to_owned() + &"A".repeat(43),
                "line 1: Argon2 may take",
            ),
            ("ann:$sha256$12".to_owned(), "line 1: $sha256$ needs"),
            (format!("ann:$sha256${}", "+1".repeat(32)), "line 1: $sha256$ needs"),
            (
                format!("a:$sha256${0}\nb:$sha256${0}", "00".repeat(32)),
                "line 2: another account has the same token",
            ),
        ];
        for (text, fault) in cases {
            let error = Users::parse(&text).expect_err(&text);
            assert!(error.starts_with(fault), "{text:?}: {error}");
            assert!(!error.contains("BHWz4oRZ7H"), "{error}");
        }
    }
}
