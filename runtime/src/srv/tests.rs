//! Look-ups on the simulation, against a small name server.

use std::cell::RefCell;
use std::rc::Rc;

use simple_dns::ResourceRecord;
use simple_dns::rdata::SRV;

use super::*;
use crate::sim::{SimRuntime, Simulation, for_each_seed};
use crate::{Listener, OpenMode};

const SERVICE: &str = "_http._tcp.am.example";

/// How a name server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Answers,
    Refuses,
    Hangs,
    Closes,
    /// Answers another question.
    Confuses,
}

/// The answer to a query, with its length.
fn answer(query: &[u8], manner: Manner) -> Vec<u8> {
    let query = Packet::parse(query).expect("a query");
    assert!(query.has_flags(PacketFlag::RECURSION_DESIRED));
    let name = query.questions[0].qname.to_string();
    let mut reply = Packet::new_reply(query.id());
    reply.questions = query.questions.clone();
    match name.to_ascii_lowercase().as_str() {
        _ if manner == Manner::Refuses => *reply.rcode_mut() = RCODE::ServerFailure,
        _ if manner == Manner::Confuses => {
            reply.questions[0].qname = Name::new("_x._tcp.other").expect("a name");
        }
        SERVICE => {
            for (priority, weight, target) in
                [(10, 5, "b.example"), (10, 1, "c.example"), (1, 9, "a.example"), (1, 1, ".")]
            {
                let target = Name::new(target).expect("a name");
                let srv = SRV { priority, weight, port: 9093, target };
                let name = query.questions[0].qname.clone();
                reply.answers.push(ResourceRecord::new(name, CLASS::IN, 30, RData::SRV(srv)));
            }
        }
        "_none._tcp.am.example" => {}
        _ => *reply.rcode_mut() = RCODE::NameError,
    }
    let message = reply.build_bytes_vec_compressed().expect("fits");
    [&(message.len() as u16).to_be_bytes()[..], &message].concat()
}

async fn serve(
    runtime: SimRuntime,
    server: IpAddr,
    manner: Manner,
    asked: Rc<RefCell<Vec<String>>>,
) {
    let listener = runtime.listen(SocketAddr::new(server, 53)).expect("listens");
    while let Ok((mut reader, mut writer, _)) = listener.accept().await {
        let asked = Rc::clone(&asked);
        drop(runtime.spawn(async move {
            let len = read_exactly(&mut reader, 2, Monotonic::NEVER).await.expect("a length");
            let len_bytes = usize::from(u16::from_be_bytes([len[0], len[1]]));
            let query = read_exactly(&mut reader, len_bytes, Monotonic::NEVER).await;
            let query = query.expect("a query");
            let name = Packet::parse(&query).expect("a query").questions[0].qname.to_string();
            asked.borrow_mut().push(name);
            match manner {
                Manner::Closes => {}
                Manner::Hangs => {
                    let _ = read_exactly(&mut reader, 1, Monotonic::NEVER).await;
                }
                _ => {
                    let reply = answer(&query, manner);
                    let _ = writer.write_all(reply, Monotonic::NEVER).await;
                }
            }
        }));
    }
}

/// Looks `name` up with name servers of these manners, and gives the names that they were asked.
fn look_up(
    simulation: &Simulation,
    manners: &'static [Manner],
    more: &'static str,
    name: &'static str,
) -> (Result<Vec<SrvRecord>, String>, Vec<String>) {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&asked);
    let result = simulation.block_on(move |runtime| async move {
        let mut text = more.to_owned();
        for (number, manner) in manners.iter().enumerate() {
            let server = IpAddr::from([10, 1, 0, number as u8]);
            text.push_str(&format!("nameserver {server}\n"));
            drop(runtime.spawn(serve(runtime.clone(), server, *manner, Rc::clone(&seen))));
        }
        runtime.create_dir_all(Path::new("/etc")).await.expect("a folder");
        let _ = runtime.remove_file(Path::new(RESOLV_CONF)).await;
        let file = runtime.open(Path::new(RESOLV_CONF), OpenMode::CreateNew).await;
        let file = file.expect("a file");
        crate::File::write_all_at(&file, text.into_bytes(), 0).await.0.expect("written");
        let started = runtime.now();
        let result = look_up_srv(&runtime, name).await.map_err(|error| error.to_string());
        let took = runtime.now().since(started);
        assert!(took < LOOK_UP_TIMEOUT + Duration::from_secs(1), "{took:?}");
        result
    });
    let asked = asked.take();
    (result, asked)
}

fn hosts(result: Result<Vec<SrvRecord>, String>) -> Vec<String> {
    let records = result.expect("records");
    records.into_iter().map(|record| format!("{}:{}", record.host, record.port)).collect()
}

#[test]
fn instances_are_sorted_by_priority() {
    for_each_seed(0..10, |simulation| {
        let (found, _) = look_up(simulation, &[Manner::Answers], "", SERVICE);
        assert_eq!(hosts(found), ["a.example:9093", "c.example:9093", "b.example:9093"]);
    });
}

#[test]
fn the_next_name_server_is_asked_if_one_fails() {
    for_each_seed(0..10, |simulation| {
        for manners in [
            &[Manner::Refuses, Manner::Answers][..],
            &[Manner::Hangs, Manner::Closes, Manner::Answers],
            &[Manner::Confuses, Manner::Answers],
        ] {
            let (found, asked) = look_up(simulation, manners, "", SERVICE);
            assert_eq!(hosts(found).len(), 3);
            assert_eq!(asked.len(), manners.len());
        }
    });
}

#[test]
fn errors_say_who_failed() {
    for_each_seed(0..4, |simulation| {
        for (manner, message) in [
            (&[Manner::Refuses][..], "10.1.0.0:53 answers ServerFailure"),
            (&[Manner::Hangs], "10.1.0.0:53: "),
            (&[Manner::Closes], "10.1.0.0:53: "),
            (&[Manner::Confuses], "10.1.0.0:53: the answer is not for the question"),
        ] {
            let (found, _) = look_up(simulation, manner, "", SERVICE);
            let error = found.expect_err("nobody answers");
            assert!(error.starts_with(&format!("lookup {SERVICE}: {message}")), "{error}");
        }
        let (found, _) = look_up(simulation, &[Manner::Answers], "", "_no._tcp.am.example");
        assert_eq!(found, Err("lookup _no._tcp.am.example: no such host".to_owned()));
        let (found, _) = look_up(simulation, &[Manner::Answers], "", "_none._tcp.am.example");
        assert_eq!(found, Ok(Vec::new()));
        let (found, asked) = look_up(simulation, &[Manner::Answers], "", "a b");
        assert_eq!(found, Err("\"a b\" is no name of a service".to_owned()));
        assert_eq!(asked, [""; 0]);
    });
}

#[test]
fn names_are_looked_for_below_the_domains() {
    for_each_seed(0..4, |simulation| {
        let more = "# a comment\nsearch example. other\noptions timeout:1 ndots:5\n";
        let (found, asked) = look_up(simulation, &[Manner::Answers], more, "_http._tcp.am");
        assert_eq!((hosts(found).len(), asked), (3, vec![SERVICE.to_owned()]));
        let (found, asked) = look_up(simulation, &[Manner::Answers], "search x\n", "_a._tcp.b");
        assert!(found.is_err());
        assert_eq!(asked, ["_a._tcp.b", "_a._tcp.b.x"]);
        let (_, asked) = look_up(simulation, &[Manner::Answers], "search x\n", "_a._tcp.b.");
        assert_eq!(asked, ["_a._tcp.b"]);
    });
}

#[test]
fn configurations_of_all_kinds_are_read() {
    let parsed = ResolvConf::parse("nameserver fe80::1%eth0\nnameserver\n;x\noptions ndots:99\n");
    assert_eq!(parsed.servers, ["fe80::1".parse::<IpAddr>().expect("an address")]);
    assert_eq!((parsed.ndots, parsed.search.len()), (MAX_NDOTS, 0));
    assert_eq!(ResolvConf::parse("").servers.len(), 2);
}

#[test]
fn arbitrary_answers_do_no_harm() {
    let query = encode_query(7, SERVICE).expect("a name");
    let good = answer(&query[2..], Manner::Answers);
    let good = &good[2..];
    fuzz_answer(good);
    for at in 0..good.len() {
        fuzz_answer(&good[..at]);
        for byte in [0, 1, 0x3f, 0xc0, 0xff] {
            let mut changed = good.to_vec();
            changed[at] = byte;
            fuzz_answer(&changed);
        }
    }
}
