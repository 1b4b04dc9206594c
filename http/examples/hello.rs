//! The smallest service, on one core: `hello [address]`. Answers every request,
//! with its body if it has one.

use std::net::SocketAddr;
use std::rc::Rc;

use http::StatusCode;
use logsvc_http::{Admission, Request, RequestHead, Response, ServerConfig, Service, serve};
use logsvc_runtime::monoio_backend::{MonoioDriver, launch};
use logsvc_runtime::{Budget, Latch, LaunchOptions, Runtime, handle_signals};

struct Hello;

impl Service for Hello {
    fn admit(&self, _head: &RequestHead, _peer: std::net::SocketAddr) -> Admission {
        Admission::Body { max_bytes: 16 << 20, account: None }
    }

    async fn call(&self, request: Request) -> Response {
        let body = match request.body.is_empty() {
            true => b"hello\n".to_vec(),
            false => request.body.into_vec(),
        };
        Response::new(StatusCode::OK).with_content_type("text/plain").with_body(body)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1);
    let address: SocketAddr = argument.as_deref().unwrap_or("127.0.0.1:8080").parse()?;
    let stop = Latch::new();
    handle_signals(stop.clone(), || ())?;
    launch(&LaunchOptions::with_cores(1), MonoioDriver::Auto, move |runtime| {
        let stop = stop.clone();
        async move {
            match runtime.listen(address) {
                Ok(listener) => {
                    let config = ServerConfig::new(Budget::new("bodies", 256 << 20));
                    println!("listening on {address} with {}", runtime.driver_name());
                    serve(runtime, listener, Rc::new(Hello), Rc::new(config), stop).await;
                }
                Err(error) => eprintln!("cannot listen on {address}: {error}"),
            }
        }
    })?;
    Ok(())
}
