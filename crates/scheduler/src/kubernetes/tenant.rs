//! The namespace of one user: what they may use and see in it, and who may reach its pods. Pure.

use super::plan::name;
use super::view::kind;
use crate::submission::Tenant;
use kube::api::ApiResource;
use serde_json::{Value, json};

/// On a namespace: the user it was made for.
pub(super) const USER_LABEL: &str = "paddlecloud/user";
/// The name of everything in it that comes with it.
const NAME: &str = "paddlecloud";

/// The Namespace itself.
pub(super) fn namespace(namespace: &str, tenant: &Tenant) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "paddlecloud",
                USER_LABEL: label(tenant),
            },
            "annotations": { USER_LABEL: tenant.user },
        },
    })
}

/// Whether a namespace that is there already is this user's.
pub(super) fn is_own(there: &Value, tenant: &Tenant) -> bool {
    there["metadata"]["labels"][USER_LABEL] == label(tenant)
}

/// A user's name may have characters that labels have not.
fn label(tenant: &Tenant) -> String {
    name(&tenant.user).as_str().to_owned()
}

/// What is in it before any job.
pub(super) fn furniture(tenant: &Tenant) -> Vec<(ApiResource, Value)> {
    let mut all = vec![(
        kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": NAME},
            // Pods of the same namespace may reach each other, and nobody else may.
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": {}}]}],
            },
        }),
    )];
    all.push((
        kind("", "v1", "ResourceQuota", "resourcequotas"),
        json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": NAME},
            "spec": {"hard": tenant.quota},
        }),
    ));
    if !tenant.role.is_empty() {
        all.push((
            kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": NAME},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": tenant.role,
                },
                "subjects": [{
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "User",
                    "name": tenant.user,
                }],
            }),
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_namespace_is_made_for_one_user() {
        let tenant = Tenant {
            user: "wuyi@example.com".into(),
            role: "view".into(),
            quota: BTreeMap::from([("pods".into(), "10".into())]),
        };
        let own = namespace("paddle-wuyi", &tenant);
        assert!(is_own(&own, &tenant));
        let other = Tenant { user: "wuyi-example.com".into(), ..tenant.clone() };
        assert!(!is_own(&own, &other));
        assert!(!is_own(&json!({"metadata": {"name": "kube-system"}}), &tenant));
        let all = furniture(&tenant);
        let kinds: Vec<&str> = all.iter().map(|(kind, _)| kind.kind.as_str()).collect();
        assert_eq!(kinds, ["NetworkPolicy", "ResourceQuota", "RoleBinding"]);
        let manifests = [own].into_iter().chain(all.into_iter().map(|(_, manifest)| manifest));
        let text: String = manifests.map(|one| serde_yaml_ng::to_string(&one).unwrap()).collect();
        insta::assert_snapshot!(text);
        let none = Tenant { role: String::new(), ..tenant };
        assert_eq!(furniture(&none).len(), 2);
    }
}
