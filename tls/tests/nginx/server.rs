//! A real nginx with a generated configuration, files and certificates.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use logsvc_runtime::Runtime;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256,
};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Where Debian has it, beside the folders of `PATH`.
const USUAL_PLACE: &str = "/usr/sbin/nginx";

/// The large file.
pub(crate) fn content() -> Vec<u8> {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        (0..3_500_000_u32).map(|place| (place.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
    });
    CONTENT.clone()
}

/// A running nginx. Dropping it ends it.
pub(crate) struct Nginx {
    pub(crate) folder: PathBuf,
    port: u16,
    secure_port: u16,
    process: Child,
}

impl Nginx {
    /// Starts nginx in a folder of its own. `None`, after saying so, if it is not installed.
    pub(crate) async fn start<R: Runtime>(runtime: &R, name: &str) -> Option<Nginx> {
        let Some(program) = program() else {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "nginx is missing");
            println!("SKIPPED: nginx is not installed");
            return None;
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nginx-{name}"));
        let _ = fs::remove_dir_all(&folder);
        for part in ["files", "chunked", "stored", "small", "temporary"] {
            fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        fs::write(folder.join("files/large"), content()).expect("a file");
        fs::write(folder.join("chunked/text"), "some given text\n".repeat(5000)).expect("a file");
        write_certificates(&folder);
        let (port, secure_port) = free_ports();
        let text = configuration(&folder, port, secure_port);
        fs::write(folder.join("nginx.conf"), text).expect("a file");
        let process = Command::new(program)
            .arg("-p")
            .arg(&folder)
            .arg("-c")
            .arg(folder.join("nginx.conf"))
            .stdin(Stdio::null())
            .stderr(fs::File::create(folder.join("stderr")).expect("a file"))
            .spawn()
            .expect("nginx starts");
        let mut nginx = Nginx { folder, port, secure_port, process };
        let deadline = runtime.now().after(PATIENCE);
        for port in [port, secure_port] {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            while runtime.connect(address, deadline).await.is_err() {
                let ended = nginx.process.try_wait().expect("its state");
                let said = fs::read_to_string(nginx.folder.join("stderr")).unwrap_or_default();
                assert!(ended.is_none() && runtime.now() < deadline, "nginx does not run: {said}");
                runtime.sleep_until(runtime.now().after(Duration::from_millis(10))).await;
            }
        }
        Some(nginx)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn secure_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.secure_port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).map(|folder| folder.join("nginx"));
    places.chain([PathBuf::from(USUAL_PLACE)]).find(|place| place.is_file())
}

/// Two ports that nobody uses at the moment.
fn free_ports() -> (u16, u16) {
    let bind = || TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let (first, second) = (bind(), bind());
    let port = |listener: &TcpListener| listener.local_addr().expect("its address").port();
    (port(&first), port(&second))
}

/// An authority, and certificates of it for nginx and for a client.
fn write_certificates(folder: &Path) {
    let named = |names: &[&str], name: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let mut params = named(&[], "the authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, key()).expect("a certificate");
    fs::write(folder.join("ca.pem"), ca.pem()).expect("a file");
    for (file, params) in
        [("server", named(&["localhost"], "nginx")), ("client", named(&[], "the client"))]
    {
        let key = key();
        let certificate = params.signed_by(&key, &ca).expect("a certificate");
        fs::write(folder.join(format!("{file}.pem")), certificate.pem()).expect("a file");
        fs::write(folder.join(format!("{file}.key")), key.serialize_pem()).expect("a file");
    }
}

fn configuration(folder: &Path, port: u16, secure_port: u16) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
master_process off;
user root;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
    access_log {folder}/requests;
    client_body_temp_path {folder}/temporary/body;
    proxy_temp_path {folder}/temporary/proxy;
    fastcgi_temp_path {folder}/temporary/fastcgi;
    uwsgi_temp_path {folder}/temporary/uwsgi;
    scgi_temp_path {folder}/temporary/scgi;
    client_max_body_size 64m;
    keepalive_requests 1000;
    root {folder};
    server {{
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{secure_port} ssl;
        server_name localhost;
        ssl_certificate {folder}/server.pem;
        ssl_certificate_key {folder}/server.key;
        ssl_client_certificate {folder}/ca.pem;
        ssl_verify_client on;
        location /files/ {{}}
        location /chunked/ {{
            sub_filter_types *;
            sub_filter_once off;
            sub_filter given CHANGED;
        }}
        location /stored/ {{ dav_methods PUT DELETE; }}
        location /small/ {{ dav_methods PUT; client_max_body_size 1k; }}
        location /none {{ return 204; }}
        location /moved {{ return 302 http://elsewhere.example/; }}
        location /three {{ keepalive_requests 3; return 200 \"one of three\\n\"; }}
        location /brief {{ keepalive_timeout 1s; return 200 \"brief\\n\"; }}
        location /who {{ return 200 \"$ssl_client_verify $ssl_client_s_dn $ssl_server_name\\n\"; }}
        location /who-is-asked {{ return 200 \"$host $request_uri\\n\"; }}
        location /passed/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_buffering off; }}
    }}
}}
"
    )
}
