//! What the binary is told when it is built: its version, and the files of the web page.
#![allow(clippy::disallowed_methods, reason = "a program that runs once, when the server is built")]

mod version;
mod web_page;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build");
    version::tell();
    web_page::write()
}
