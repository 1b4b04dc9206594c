//! A server that follows a script, one list of steps for each connection.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::{Listener, Monotonic, Reader, Runtime, Writer};

use crate::support::{loopback, target};

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Reads a head, up to its empty line, and notes it.
    Head,
    /// Reads so many bytes, and notes how many they were if they are fewer.
    Read(usize),
    /// Reads until the client closes.
    Rest,
    Send(Vec<u8>),
    Wait(Duration),
    /// Ends the own side and reads on.
    Shutdown,
    /// Does nothing until the client has gone.
    Hang,
}

pub(crate) fn send(text: impl AsRef<[u8]>) -> Step {
    Step::Send(text.as_ref().to_vec())
}

/// A running script.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The heads that were read, of all connections.
    pub(crate) heads: Rc<RefCell<Vec<String>>>,
    /// Connections that have followed their steps to the end.
    pub(crate) done: Rc<RefCell<usize>>,
}

impl Peer {
    /// Accepts as many connections as there are lists, and then none.
    pub(crate) fn start<R: Runtime>(runtime: &R, scripts: Vec<Vec<Step>>) -> Peer {
        let listener = runtime.listen(loopback()).expect("a listener");
        let address = listener.local_address().expect("its address");
        let (heads, done) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(0)));
        let (noted, ended) = (Rc::clone(&heads), Rc::clone(&done));
        let spawner = runtime.clone();
        drop(runtime.spawn(async move {
            for steps in scripts {
                let Ok((reader, writer, _)) = listener.accept().await else { return };
                let (noted, ended) = (Rc::clone(&noted), Rc::clone(&ended));
                let connection = follow(spawner.clone(), reader, writer, steps, noted);
                drop(spawner.spawn(async move {
                    connection.await;
                    *ended.borrow_mut() += 1;
                }));
            }
        }));
        Peer { address, heads, done }
    }

    pub(crate) fn target(&self, path: &str) -> logsvc_http::client::Target {
        target(self.address, path)
    }

    /// The first lines of all heads.
    pub(crate) fn lines(&self) -> Vec<String> {
        let heads = self.heads.borrow();
        heads.iter().map(|head| head.lines().next().unwrap_or_default().to_owned()).collect()
    }
}

async fn follow<R: Runtime>(
    runtime: R,
    mut reader: impl Reader,
    mut writer: impl Writer,
    steps: Vec<Step>,
    heads: Rc<RefCell<Vec<String>>>,
) {
    let mut unread: Vec<u8> = Vec::new();
    for step in steps {
        match step {
            Step::Head => loop {
                let end = unread.windows(4).position(|four| four == b"\r\n\r\n");
                if let Some(end) = end {
                    let head: Vec<u8> = unread.drain(..end + 4).collect();
                    heads.borrow_mut().push(String::from_utf8(head).expect("heads are ASCII"));
                    break;
                }
                if !more(&mut reader, &mut unread).await {
                    return;
                }
            },
            Step::Read(count) => {
                while unread.len() < count {
                    if !more(&mut reader, &mut unread).await {
                        heads.borrow_mut().push(format!("only {} bytes", unread.len()));
                        return;
                    }
                }
                unread.drain(..count);
            }
            Step::Rest => while more(&mut reader, &mut unread).await {},
            Step::Send(bytes) => {
                if writer.write_all(bytes, Monotonic::NEVER).await.0.is_err() {
                    return;
                }
            }
            Step::Wait(pause) => runtime.sleep_until(runtime.now().after(pause)).await,
            Step::Shutdown => {
                let _ = writer.shutdown().await;
            }
            Step::Hang => {
                let _ = more(&mut reader, &mut unread).await;
            }
        }
    }
}

async fn more(reader: &mut impl Reader, unread: &mut Vec<u8>) -> bool {
    let (result, buffer) = reader.read(Vec::with_capacity(4096), Monotonic::NEVER).await;
    unread.extend_from_slice(&buffer);
    result.is_ok_and(|count| count > 0)
}
