//! Writes the table of the web page's files, which `src/front/operate/web_page.rs` includes.
//!
//! `ui/dist/manifest.json` lists the files. Each is there as it is, with brotli (`.br`) and with gzip
//! (`.gz`). The build fails if one of them is missing.

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// See the module.
///
/// # Errors
/// A file is missing, or the manifest is damaged.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let dist = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../ui/dist").canonicalize()?;
    let manifest = dist.join("manifest.json");
    println!("cargo::rerun-if-changed={}", manifest.display());
    let manifest: Value = serde_json::from_str(&fs::read_to_string(manifest)?)?;
    let mut table = "&[\n".to_owned();
    for file in manifest["files"].as_array().ok_or("the manifest lists no files")? {
        let text = |name: &str| file[name].as_str().ok_or(format!("a file has no {name}"));
        let is_immutable = file["immutable"].as_bool().ok_or("a file has no immutable")?;
        let (name, etag) = (text("name")?, text("etag")?);
        let form = |coding: &str, end: &str| {
            let path = dist.join(format!("{name}{end}"));
            let etag = match coding {
                "" => format!("\"{etag}\""),
                coding => format!("\"{etag}-{coding}\""),
            };
            format!(
                "Form {{ coding: {coding:?}, etag: {etag:?}, bytes: include_bytes!({path:?}) }}"
            )
        };
        writeln!(
            table,
            "File {{ name: {name:?}, media_type: {:?}, is_immutable: {is_immutable}, \
             forms: [{}, {}, {}] }},",
            text("type")?,
            form("br", ".br"),
            form("gzip", ".gz"),
            form("", ""),
        )?;
    }
    table.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("web_page.rs"), table)?;
    Ok(())
}
