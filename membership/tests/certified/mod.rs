//! Nodes that gossip over TLS, with certificates of one authority.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use logsvc_membership::driver::{StartError, start_encrypted};
use logsvc_membership::membership::Membership;
use logsvc_membership::settings::Settings;
use logsvc_membership::vitals::Vitals;
use logsvc_runtime::{Budget, Runtime};
use logsvc_tls::{
    ClientAuth, ClientTls, ClientTlsSettings, TlsAcceptor, TlsDialer, TlsListener, TlsSettings,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ED25519,
};

/// What all nodes are named in their certificates.
const NAME: &str = "node.example";

pub(crate) struct Identity {
    certificate_pem: String,
    key_pem: String,
}

/// An authority, whom it has certified, and whom another one has.
pub(crate) struct Authority {
    ca_pem: String,
    pub(crate) node: Identity,
    pub(crate) stranger: Identity,
}

pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let ca = issuer("the authority");
    let node = issue(&ca);
    Authority { ca_pem: ca.pem(), node, stranger: issue(&issuer("another authority")) }
});

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("a certificate")
}

fn issue(ca: &CertifiedIssuer<'static, KeyPair>) -> Identity {
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let params = CertificateParams::new([NAME.to_owned()]).expect("a good name");
    let certificate = params.signed_by(&key, ca).expect("a certificate");
    Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() }
}

/// Starts a node with files in a folder that shows what it is given, and asks others for a certificate of the authority.
pub(crate) async fn start_as<R: Runtime>(
    runtime: &R,
    folder: &str,
    identity: &Identity,
    settings: Settings,
    vitals: Vitals,
) -> Result<Membership, StartError> {
    let folder = Path::new(folder);
    runtime.create_dir_all(folder).await.expect("a folder");
    let file = async |name: &str, text: &str| -> Option<PathBuf> {
        let path = folder.join(name);
        runtime.replace_file(&path, text.as_bytes().to_vec()).await.expect("it is written");
        Some(path)
    };
    let client = ClientTlsSettings {
        ca_file: file("ca.pem", &AUTHORITY.ca_pem).await,
        cert_file: file("node.pem", &identity.certificate_pem).await,
        key_file: file("node.key", &identity.key_pem).await,
        server_name: NAME.to_owned(),
        insecure_skip_verify: false,
    };
    let client = ClientTls::load(runtime, &client).await.expect("good files");
    let server = TlsSettings {
        certificates_pem: identity.certificate_pem.clone().into_bytes(),
        key_pem: identity.key_pem.clone().into_bytes(),
        client_auth: ClientAuth::RequireAndVerify,
        client_ca_pem: AUTHORITY.ca_pem.clone().into_bytes(),
        ..TlsSettings::default()
    };
    let acceptor = TlsAcceptor::new(&server).expect("good texts");
    let (timeout, budget) = (settings.packet_dial_timeout, Budget::new("handshakes", 1 << 20));
    let encrypted =
        |listener| TlsListener::new(runtime.clone(), listener, &acceptor, timeout, budget.clone());
    let dialer = TlsDialer::sharing(runtime.clone(), &client);
    start_encrypted(runtime, settings, vitals, dialer, encrypted)
}
