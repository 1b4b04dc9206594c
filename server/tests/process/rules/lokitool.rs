//! The requests of lokitool's commands, and the answers that it was made for.

use super::SUCCESS;
use crate::support::{DataDir, Server};

const SHOP: &str = r#"name: shop
interval: 30s
rules:
    - alert: HighErrors
      expr: sum by (app) (count_over_time({app="x"} |= "error" [5m])) > 0
      for: 1m
      labels:
        severity: page
      annotations:
        summary: '{{ $labels.app }} has {{ $value }} errors'
    - record: app:lines:rate5m
      expr: sum by (app) (rate({app="x"}[5m]))
"#;

const OTHER: &str = r#"name: other
rules:
    - record: app:bytes:rate5m
      expr: sum by (app) (bytes_rate({app="x"}[5m]))
"#;

const LIST: &str = r#"team-a:
    - name: other
      rules:
        - record: app:bytes:rate5m
          expr: sum by (app) (bytes_rate({app="x"}[5m]))
    - name: shop
      interval: 30s
      rules:
        - alert: HighErrors
          expr: sum by (app) (count_over_time({app="x"} |= "error" [5m])) > 0
          for: 1m
          labels:
            severity: page
          annotations:
            summary: '{{ $labels.app }} has {{ $value }} errors'
        - record: app:lines:rate5m
          expr: sum by (app) (rate({app="x"}[5m]))
"#;

const TEXT: &str = "text/plain; charset=utf-8";
const YAML: &str = "application/yaml";
const JSON: &str = "application/json";
const GONE: &str = "group does not exist\n";

#[test]
fn lokitool_lists_loads_compares_syncs_and_deletes() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let changed = SHOP.replace("for: 1m", "for: 2m");
    // Command, method, path below the rules, body; status, media type, body.
    let exchanges: [(&str, &str, &str, &str, u16, &str, &str); 14] = [
        ("list", "GET", "", "", 404, TEXT, "no rule groups found\n"),
        ("load", "GET", "/team-a/shop", "", 404, TEXT, GONE),
        ("load", "POST", "/team-a", SHOP, 202, JSON, SUCCESS),
        ("load", "GET", "/team-a/other", "", 404, TEXT, GONE),
        ("load", "POST", "/team-a", OTHER, 202, JSON, SUCCESS),
        ("list", "GET", "", "", 200, YAML, LIST),
        ("print", "GET", "", "", 200, YAML, LIST),
        ("get", "GET", "/team-a/shop", "", 200, YAML, SHOP),
        ("diff", "GET", "", "", 200, YAML, LIST),
        ("sync", "GET", "", "", 200, YAML, LIST),
        ("sync", "POST", "/team-a", &changed, 202, JSON, SUCCESS),
        ("sync", "DELETE", "/team-a/other", "", 202, JSON, SUCCESS),
        ("delete", "DELETE", "/team-a/shop", "", 202, JSON, SUCCESS),
        ("get", "GET", "/team-a/shop", "", 404, TEXT, GONE),
    ];
    let headers = [
        ("User-Agent", "Go-http-client/1.1"),
        ("X-Scope-Orgid", "fake"),
        ("Accept-Encoding", "gzip"),
    ];
    for prefix in
        ["/loki/api/v1/rules", "/logsvc/api/v1/rules", "/api/prom/rules", "/api/mtx/rules"]
    {
        for (command, method, path, body, status, media_type, expected) in exchanges {
            let body = (method == "POST").then_some(body.as_bytes());
            let reply = client.request(method, &format!("{prefix}{path}"), &headers, body);
            let place = format!("lokitool rules {command}: {method} {prefix}{path}");
            assert_eq!(reply.header("content-type"), Some(media_type), "{place}");
            assert_eq!((reply.status, reply.text().as_str()), (status, expected), "{place}");
        }
    }
}
