//! Whether the manifests of Kubernetes and the unit fit the server and the image.
//!
//! A manifest that names a port, a path, a user or a setting that the server does not have is a
//! fault that nobody sees before a cluster does.

use super::contents::DEPLOY;
use super::{image, read};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;

/// The table of routes of the server.
const ROUTES: &str = "server/src/front/routes.rs";

/// Checks all files.
pub(super) fn check() -> Result<()> {
    let base = Path::new(DEPLOY).join("kubernetes/base");
    let yaml = |name: &str| -> Result<Value> {
        let text = String::from_utf8(read(&base.join(name))?)?;
        serde_saphyr::from_str(&text).with_context(|| format!("{name} is no YAML"))
    };
    let kustomization = yaml("kustomization.yaml")?;
    let listed = kustomization["resources"].as_array().context("no resources")?;
    let mut resources = Vec::new();
    for name in listed {
        resources.push(yaml(name.as_str().context("a resource is a file")?)?);
    }
    let routes = String::from_utf8(read(Path::new(ROUTES))?)?;
    let mut faults = faults(&resources, &yaml("logsvc.yaml")?, &routes);
    let monitor = read(&Path::new(DEPLOY).join("kubernetes/monitoring/servicemonitor.yaml"))?;
    let monitor: Value = serde_saphyr::from_str(&String::from_utf8(monitor)?)?;
    faults.extend(monitor_faults(&monitor, &resources, &routes));
    let unit = String::from_utf8(read(&Path::new(DEPLOY).join("systemd/logsvc.service"))?)?;
    faults.extend(unit_faults(&unit));
    if !faults.is_empty() {
        bail!("manifests: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: {} manifests fit the server", resources.len() + 1);
    Ok(())
}

/// Faults of the resources of the base. `settings` is the file that the pod gets.
fn faults(resources: &[Value], settings: &Value, routes: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_owned());
        }
    };
    let of_kind = |kind: &'static str| resources.iter().filter(move |r| r["kind"] == kind);
    let name = "app.kubernetes.io/name";
    for resource in resources {
        let label = &resource["metadata"]["labels"][name];
        expect(label == "logsvc", &format!("{} has no label", resource["kind"]));
    }
    let Some(set) = of_kind("StatefulSet").next() else {
        return vec!["there is no StatefulSet".to_owned()];
    };
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let port = &settings["server"]["http_listen_port"];
    expect(&container["ports"][0]["containerPort"] == port, "the pod's port is not the server's");
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    expect(set["spec"]["selector"]["matchLabels"] == *labels, "the set does not select its pods");
    for service in of_kind("Service") {
        expect(service["spec"]["selector"] == *labels, "a service does not select the pods");
        let target = &service["spec"]["ports"][0]["targetPort"];
        expect(target == &container["ports"][0]["name"], "a service leads to no port");
    }
    let headless = of_kind("Service").find(|s| s["metadata"]["name"] == set["spec"]["serviceName"]);
    expect(headless.is_some_and(|s| s["spec"]["clusterIP"] == "None"), "no headless service");
    let budget = of_kind("PodDisruptionBudget").next();
    let budget = budget.map(|budget| &budget["spec"]["selector"]["matchLabels"]);
    expect(budget == Some(labels), "no budget for disruptions selects the pods");
    for (probe, path) in [
        ("startupProbe", "/-/healthy"),
        ("livenessProbe", "/-/healthy"),
        ("readinessProbe", "/ready"),
    ] {
        let get = &container[probe]["httpGet"];
        expect(get["path"] == path, &format!("{probe} does not ask for {path}"));
        expect(get["port"] == container["ports"][0]["name"], &format!("{probe} asks no port"));
        expect(routes.contains(&format!("\"{path}\"")), &format!("there is no route {path}"));
    }
    let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
    let mounted = |path: &Value| mounts.iter().find(|mount| mount["mountPath"] == *path);
    let data = mounted(&settings["data_dir"]).is_some_and(|m| m["readOnly"] != true);
    expect(data, "the data folder is no volume that can be written to");
    let argument = container["args"][0].as_str().unwrap_or("");
    let folder =
        argument.strip_prefix("--config.file=").and_then(|f| f.strip_suffix("/logsvc.yaml"));
    let config = folder.is_some_and(|folder| mounted(&Value::from(folder)).is_some());
    expect(config, "the file of settings is not mounted where the server looks for it");
    let grace_s = pod["terminationGracePeriodSeconds"].as_u64().unwrap_or(0);
    let wait = settings["server"]["graceful_shutdown_timeout"].as_str().unwrap_or("");
    let wait_s: u64 = wait.trim_end_matches('s').parse().unwrap_or(u64::MAX);
    expect(grace_s > wait_s, "a stop may take longer than the pod waits");
    // The restricted profile of Pod Security.
    let user = &pod["securityContext"];
    expect(user["runAsUser"] == image::USER, "the pod's user is not the image's");
    expect(user["runAsNonRoot"] == true, "the pod may run as root");
    expect(user["seccompProfile"]["type"] == "RuntimeDefault", "no seccomp profile");
    let context = &container["securityContext"];
    expect(context["allowPrivilegeEscalation"] == false, "the process may gain privileges");
    expect(context["readOnlyRootFilesystem"] == true, "the root can be written to");
    expect(context["capabilities"]["drop"][0] == "ALL", "capabilities are kept");
    faults
}

fn monitor_faults(monitor: &Value, resources: &[Value], routes: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let endpoint = &monitor["spec"]["endpoints"][0];
    let wanted = &monitor["spec"]["selector"]["matchLabels"];
    let meets = |service: &&Value| {
        service["kind"] == "Service"
            && service["metadata"]["labels"] == *wanted
            && service["spec"]["ports"][0]["name"] == endpoint["port"]
    };
    if !resources.iter().any(|service| meets(&service)) {
        faults.push("the ServiceMonitor selects no service".to_owned());
    }
    let path = endpoint["path"].as_str().unwrap_or("");
    if path.is_empty() || !routes.contains(&format!("\"{path}\"")) {
        faults.push(format!("there is no route {path:?} for the ServiceMonitor"));
    }
    faults
}

/// What the unit must say, since nothing else of the packages says it.
fn unit_faults(unit: &str) -> Vec<String> {
    let lines = [
        "Type=notify",
        "ExecStart=/usr/bin/logsvc --config.file=/etc/logsvc/logsvc.yaml $LOGSVC_FLAGS",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "User=logsvc",
        "StateDirectory=logsvc",
        "TimeoutStartSec=infinity",
        "SystemCallFilter=@system-service io_uring_setup io_uring_enter io_uring_register",
    ];
    let missing = lines.iter().filter(|wanted| !unit.lines().any(|line| line == **wanted));
    missing.map(|wanted| format!("the unit lacks {wanted}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_fit_is_a_fault() {
        assert_eq!(faults(&[], &json!({}), ""), ["there is no StatefulSet"]);
        let set = json!({
            "kind": "StatefulSet", "metadata": {"labels": {"app.kubernetes.io/name": "logsvc"}},
            "spec": {"template": {"spec": {"containers": [{
                "ports": [{"name": "http", "containerPort": 80}],
                "livenessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            }]}}},
        });
        let found = faults(&[set], &json!({"server": {"http_listen_port": 3100}}), "");
        for wanted in [
            "the pod's port is not the server's",
            "livenessProbe does not ask for /-/healthy",
            "there is no route /ready",
            "no headless service",
            "the root can be written to",
        ] {
            assert!(found.iter().any(|fault| fault == wanted), "{wanted}: {found:?}");
        }
        assert!(unit_faults("Type=simple\n").iter().any(|fault| fault.ends_with("Type=notify")));
    }
}
