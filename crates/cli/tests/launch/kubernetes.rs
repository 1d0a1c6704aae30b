//! `paddle launch --backend kubernetes` where there is no cluster: which namespace is meant, and how an
//! API server is reached.

use super::job::{Ended, Job};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;

/// Two contexts, of which the first is the current one.
fn kubeconfig(server: &str, proxy: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: a\n\
         clusters:\n\
         - {{name: c, cluster: {{server: 'https://{server}', proxy-url: '{proxy}'}}}}\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts:\n\
         - {{name: a, context: {{cluster: c, user: u, namespace: team}}}}\n\
         - {{name: b, context: {{cluster: c, user: u}}}}\n"
    )
}

#[test]
fn a_job_is_in_the_namespace_that_kubectl_uses() {
    let job = Job::new();
    job.write("kubeconfig", &kubeconfig("127.0.0.1:1", ""));
    let check = |flags: &[&str], namespace: &str| {
        let place = ["launch", "--backend=kubernetes", "--image=i", "--kubeconfig=kubeconfig"];
        let rest = ["--dry-run", "-o", "yaml", "--", "true"];
        let shown = job.run(job.paddle(&[&place[..], flags, &rest[..]].concat()));
        let line = format!("\n  namespace: {namespace}\n");
        assert_eq!(shown.stdout.matches(&line).count(), 2, "{flags:?}: {shown:?}");
    };
    check(&[], "team");
    check(&["--context=b"], "default");
    check(&["--namespace=own"], "own");
}

/// Launches a job with a kubeconfig, beside a proxy that ends every connection. Returns what the proxy
/// was asked first.
fn asked(server: &str, is_in_kubeconfig: bool, no_proxy: &str) -> (Option<String>, Ended) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let job = Job::new();
    let own = if is_in_kubeconfig { address.as_str() } else { "" };
    job.write("kubeconfig", &kubeconfig(server, own));
    let place = ["launch", "--backend=kubernetes", "--image=i", "--kubeconfig=kubeconfig"];
    let mut command = job.paddle(&[&place[..], &["--", "true"]].concat());
    command.env("HTTPS_PROXY", &address).env("NO_PROXY", no_proxy).env_remove("no_proxy");
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            let _ = sender.send(line);
        }
    });
    let ended = job.run(command);
    assert_eq!(ended.code, 1, "{ended:?}");
    (lines.try_recv().ok(), ended)
}

/// As by `kubectl`: behind a company's proxy, beside it, and with one of the cluster's own.
#[test]
fn an_api_server_is_reached_by_the_proxy_that_is_meant() {
    let through = |server: &str| Some(format!("CONNECT {server} HTTP/1.1\r\n"));
    let there = "cluster.example:6443";
    assert_eq!(asked(there, false, "other.example").0, through(there));
    assert_eq!(asked(there, true, ".example").0, through(there));
    // An address of this machine that is not known as one; nobody listens there.
    for (server, no_proxy) in [("0.0.0.0:1", "10.0.0.0/8,0.0.0.0/8"), ("127.0.0.1:1", "")] {
        let (line, ended) = asked(server, false, no_proxy);
        assert_eq!(line, None, "{ended:?}");
        assert!(ended.stderr.contains("Connection refused"), "{ended:?}");
    }
}
