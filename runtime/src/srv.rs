//! SRV records: the instances of a service, by name, from the name servers of the system.
//!
//! The resolver of the system cannot be asked for SRV records in a portable way, so this module
//! speaks DNS by itself: over TCP, which the runtime has, and which cuts no answer off. It reads
//! `/etc/resolv.conf` for each look-up, so that changes count at once.
//!
//! # Guarantees
//!
//! - A look-up ends within [`LOOK_UP_TIMEOUT`]. Each name server gets a fair part of the time.
//! - An answer is taken only if its number and its question are those that were asked.
//! - Targets are names of hosts; others are left out.
//!
//! What must be absent: a cache. Look-ups are rare, and whoever wants fewer asks less often.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

use crate::traits::{Monotonic, Reader, Runtime, Writer};

/// Longest look-up.
pub const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(5);

const RESOLV_CONF: &str = "/etc/resolv.conf";
const RESOLV_CONF_MAX_BYTES: usize = 64 << 10;
/// As in the resolver of the system.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH: usize = 6;
const MAX_NDOTS: usize = 15;
const DNS_PORT: u16 = 53;

/// An instance of a service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SrvRecord {
    /// Instances with lower numbers are to be preferred.
    pub priority: u16,
    /// Among instances of one priority, the share of requests.
    pub weight: u16,
    /// The host, without a dot at its end.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SrvError {
    /// The text cannot be a name.
    #[error("{0:?} is no name of a service")]
    BadName(String),
    /// The name servers say that there is no such name.
    #[error("lookup {0}: no such host")]
    NotFound(String),
    /// A name server answers with an error.
    #[error("lookup {name}: {server} answers {code}")]
    Refused {
        /// The name that was asked for.
        name: String,
        /// Which name server.
        server: SocketAddr,
        /// The error, as DNS names it.
        code: String,
    },
    /// A name server cannot be asked.
    #[error("lookup {name}: {server}: {error}")]
    Server {
        /// The name that was asked for.
        name: String,
        /// Which name server.
        server: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// The configuration of the resolver cannot be read.
    #[error("cannot read {RESOLV_CONF}: {0}")]
    Configuration(io::Error),
}

/// Looks up the instances of a service, such as `_http._tcp.alertmanager.example`, sorted by
/// priority, weight and name. A service that is known and has no instance gives none.
///
/// # Errors
/// See [`SrvError`].
pub async fn look_up_srv<R: Runtime>(runtime: &R, name: &str) -> Result<Vec<SrvRecord>, SrvError> {
    let deadline = runtime.now().after(LOOK_UP_TIMEOUT);
    let configuration = match runtime.read_file(Path::new(RESOLV_CONF), RESOLV_CONF_MAX_BYTES).await
    {
        Ok(text) => ResolvConf::parse(&String::from_utf8_lossy(&text)),
        // Without the file the resolver of the system asks the own host, too.
        Err(error) if error.kind() == io::ErrorKind::NotFound => ResolvConf::parse(""),
        Err(error) => return Err(SrvError::Configuration(error)),
    };
    let names = configuration.names(name);
    if names.is_empty() {
        return Err(SrvError::BadName(name.to_owned()));
    }
    let mut is_known = false;
    for (asked, full) in names.iter().enumerate() {
        let left = u32::try_from(names.len() - asked).unwrap_or(u32::MAX);
        let now = runtime.now();
        let until = now.after(deadline.since(now) / left);
        match ask_all(runtime, &configuration.servers, full, until).await? {
            Answer::Records(records) => return Ok(records),
            Answer::NoRecords => is_known = true,
            Answer::NoName => {}
        }
    }
    if is_known { Ok(Vec::new()) } else { Err(SrvError::NotFound(name.to_owned())) }
}

/// The part of the resolver's configuration that counts here.
#[derive(PartialEq, Debug)]
struct ResolvConf {
    servers: Vec<IpAddr>,
    search: Vec<String>,
    /// A name with fewer dots is looked for below the domains first.
    ndots: usize,
}

impl ResolvConf {
    fn parse(text: &str) -> ResolvConf {
        let mut parsed = ResolvConf { servers: Vec::new(), search: Vec::new(), ndots: 1 };
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    // An address may name its interface, which no connection here can.
                    let address = words.next().and_then(|word| word.split('%').next());
                    parsed.servers.extend(address.and_then(|text| text.parse::<IpAddr>().ok()));
                }
                Some("search" | "domain") => parsed.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    let ndots = words.filter_map(|word| word.strip_prefix("ndots:")).next_back();
                    if let Some(ndots) = ndots.and_then(|digits| digits.parse::<usize>().ok()) {
                        parsed.ndots = ndots.min(MAX_NDOTS);
                    }
                }
                _ => {}
            }
        }
        parsed.servers.truncate(MAX_NAMESERVERS);
        parsed.search.truncate(MAX_SEARCH);
        if parsed.servers.is_empty() {
            parsed.servers = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        }
        parsed
    }

    /// The full names that a name may stand for, in the order in which they are asked for.
    fn names(&self, name: &str) -> Vec<String> {
        let dots = name.bytes().filter(|byte| *byte == b'.').count();
        let mut names = Vec::new();
        if let Some(full) = name.strip_suffix('.') {
            names.push(full.to_owned());
        } else {
            names.extend(self.search.iter().map(|domain| {
                let domain = domain.trim_end_matches('.');
                if domain.is_empty() { name.to_owned() } else { format!("{name}.{domain}") }
            }));
            let place = if dots >= self.ndots { 0 } else { names.len() };
            names.insert(place, name.to_owned());
        }
        names.retain(|name| is_name(name));
        names.dedup();
        names
    }
}

/// What a name server knows about a name.
#[derive(PartialEq, Debug)]
enum Answer {
    Records(Vec<SrvRecord>),
    /// The name is there and has no such records.
    NoRecords,
    NoName,
}

/// Asks one name server after the other, until one answers.
async fn ask_all<R: Runtime>(
    runtime: &R,
    servers: &[IpAddr],
    name: &str,
    deadline: Monotonic,
) -> Result<Answer, SrvError> {
    let mut last = None;
    for (asked, server) in servers.iter().enumerate() {
        let left = u32::try_from(servers.len() - asked).unwrap_or(u32::MAX);
        let now = runtime.now();
        let until = now.after(deadline.since(now) / left);
        let server = SocketAddr::new(*server, DNS_PORT);
        let failed = match ask(runtime, server, name, until).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(code)) => SrvError::Refused { name: name.to_owned(), server, code },
            Err(error) => SrvError::Server { name: name.to_owned(), server, error },
        };
        last = Some(failed);
    }
    Err(last.unwrap_or_else(|| SrvError::NotFound(name.to_owned())))
}

/// Asks one name server. The inner error is one that the server names.
async fn ask<R: Runtime>(
    runtime: &R,
    server: SocketAddr,
    name: &str,
    deadline: Monotonic,
) -> io::Result<Result<Answer, String>> {
    let id = runtime.random_u64() as u16;
    let query = encode_query(id, name)?;
    let (mut reader, mut writer) = runtime.connect(server, deadline).await?;
    writer.write_all(query, deadline).await.0?;
    let len = read_exactly(&mut reader, 2, deadline).await?;
    let len_bytes = usize::from(u16::from_be_bytes([len[0], len[1]]));
    let message = read_exactly(&mut reader, len_bytes, deadline).await?;
    decode_answer(&message, id, name)
}

async fn read_exactly(
    reader: &mut impl Reader,
    len_bytes: usize,
    deadline: Monotonic,
) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    while buffer.len() < len_bytes {
        // Reads fill all the capacity there is.
        let mut piece = Vec::with_capacity(len_bytes - buffer.len());
        let (result, returned) = reader.read(piece, deadline).await;
        piece = returned;
        if result? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.append(&mut piece);
    }
    if buffer.len() > len_bytes {
        return Err(malformed("there are bytes behind the answer"));
    }
    Ok(buffer)
}

fn malformed(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// A query for SRV records with the length before it, as DNS over TCP wants it.
fn encode_query(id: u16, name: &str) -> io::Result<Vec<u8>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("{error}"));
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(invalid)?;
    let (kind, class) = (QTYPE::TYPE(TYPE::SRV), QCLASS::CLASS(CLASS::IN));
    packet.questions.push(Question::new(name, kind, class, false));
    let message = packet.build_bytes_vec().map_err(invalid)?;
    let mut query = Vec::with_capacity(message.len() + 2);
    // A name has at most 255 bytes, so the length fits.
    query.extend_from_slice(&(message.len() as u16).to_be_bytes());
    query.extend_from_slice(&message);
    Ok(query)
}

/// Reads the answer to a query.
fn decode_answer(message: &[u8], id: u16, name: &str) -> io::Result<Result<Answer, String>> {
    let packet = Packet::parse(message)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}")))?;
    let is_asked = |question: &Question<'_>| {
        question.qtype == QTYPE::TYPE(TYPE::SRV)
            && question.qname.to_string().eq_ignore_ascii_case(name)
    };
    if packet.id() != id
        || !packet.has_flags(PacketFlag::RESPONSE)
        || packet.questions.len() > 1
        || !packet.questions.iter().all(is_asked)
    {
        return Err(malformed("the answer is not for the question"));
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Ok(Answer::NoName)),
        code => return Ok(Err(format!("{code:?}"))),
    }
    let mut records = Vec::new();
    for answer in &packet.answers {
        // Records of other kinds are on the way from an alias to its target.
        let RData::SRV(srv) = &answer.rdata else { continue };
        let host = srv.target.to_string();
        if is_name(&host) {
            let (priority, weight, port) = (srv.priority, srv.weight, srv.port);
            records.push(SrvRecord { priority, weight, host, port });
        }
    }
    records.sort_unstable();
    records.dedup();
    Ok(Ok(if records.is_empty() { Answer::NoRecords } else { Answer::Records(records) }))
}

/// Whether a text is a name of letters, digits, `-` and `_`.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Feeds arbitrary bytes to the decoder of answers.
pub(crate) fn fuzz_answer(bytes: &[u8]) {
    let name = "_http._tcp.am.example";
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    if let Ok(Ok(Answer::Records(records))) = decode_answer(bytes, id, name) {
        assert!(records.is_sorted() && records.iter().all(|record| is_name(&record.host)));
    }
}

#[cfg(test)]
mod tests;
