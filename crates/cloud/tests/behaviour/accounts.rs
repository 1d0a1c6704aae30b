//! Users, and what only administrators may do.

use super::cloud::Cloud;
use serde_json::{Value, json};

#[test]
fn users_are_added_disabled_and_enabled_again() {
    let cloud = Cloud::start();
    let body = json!({"username": "wu@example.com"});
    let added = cloud.call(&cloud.admin, "POST", "/api/v2/users", &body).expect(201);
    let password = added["password"].as_str().unwrap();
    let token = cloud.login("wu@example.com", password);
    let whoami = cloud.get(&token, "/api/v2/whoami").expect(200);
    assert_eq!(whoami["username"], "wu@example.com");
    assert_eq!((&whoami["is_admin"], &whoami["is_enabled"]), (&json!(false), &json!(true)));
    let again = cloud.call(&cloud.admin, "POST", "/api/v2/users", &body);
    assert_eq!(again.message(409), "there is a user of this name already");
    let path = "/api/v2/users/wu%40example.com";
    cloud.call(&cloud.admin, "PATCH", path, &json!({"is_enabled": false})).expect(200);
    cloud.get(&token, "/api/v2/whoami").expect(401);
    let login = json!({"username": "wu@example.com", "password": password});
    assert!(cloud.call("", "POST", "/api/v2/login", &login).message(403).contains("disabled"));
    cloud.call(&cloud.admin, "PATCH", path, &json!({"is_enabled": true})).expect(200);
    cloud.login("wu@example.com", password);
    let list = cloud.get(&cloud.admin, "/api/v2/users").expect(200);
    let names: Vec<&Value> =
        list.as_array().unwrap().iter().map(|user| &user["username"]).collect();
    assert_eq!(names, ["admin", "wu@example.com"]);
}

#[test]
fn the_last_administrator_stays() {
    let cloud = Cloud::start();
    for change in [json!({"is_admin": false}), json!({"is_enabled": false})] {
        let answer = cloud.call(&cloud.admin, "PATCH", "/api/v2/users/admin", &change);
        assert!(answer.message(409).contains("the last administrator"));
    }
    cloud.user("wu");
    cloud.call(&cloud.admin, "PATCH", "/api/v2/users/wu", &json!({"is_admin": true})).expect(200);
    let change = json!({"is_admin": false});
    cloud.call(&cloud.admin, "PATCH", "/api/v2/users/admin", &change).expect(200);
    cloud.get(&cloud.admin, "/api/v2/users").expect(403);
}

#[test]
fn a_user_changes_nothing_but_their_own_password() {
    let cloud = Cloud::start();
    let (token, _) = (cloud.user("wu"), cloud.user("eve"));
    let own = "/api/v2/users/wu";
    for change in [json!({"is_admin": true}), json!({"is_enabled": true})] {
        cloud.call(&token, "PATCH", own, &change).expect(403);
    }
    let change = json!({"password": "another password"});
    cloud.call(&token, "PATCH", "/api/v2/users/eve", &change).expect(403);
    assert!(cloud.call(&token, "PATCH", own, &change).message(400).contains("old_password"));
    let change = json!({"password": "short", "old_password": "a password"});
    assert!(cloud.call(&token, "PATCH", own, &change).message(400).contains("at least 8"));
    cloud.call(&cloud.admin, "PATCH", own, &json!({"password": "set by the admin"})).expect(200);
    cloud.login("wu", "set by the admin");
    cloud.get(&token, "/api/v2/whoami").expect(401);
}

#[test]
fn names_that_could_leave_their_place_are_refused() {
    let cloud = Cloud::start();
    for name in ["", "..", "../x", "a/b", "a:b", ".hidden", "-x", "a b", "a\nb", &"x".repeat(300)] {
        let answer = cloud.call(&cloud.admin, "POST", "/api/v2/users", &json!({"username": name}));
        assert_eq!(answer.status, 400, "{name:?} {answer:?}");
    }
}

#[test]
fn limits_are_set_by_administrators_and_shown_to_their_user() {
    let cloud = Cloud::with("quota: {cpu: 4, jobs: 2}");
    let token = cloud.user("wu");
    let own = "/api/v2/datacenters/local/quota";
    let limits = |quota: Value| (quota["limits"]["cpu"].clone(), quota["limits"]["jobs"].clone());
    assert_eq!(limits(cloud.get(&token, own).expect(200)), (json!("4"), json!(2)));
    let path = "/api/v2/datacenters/local/quota/wu";
    cloud.call(&token, "PUT", path, &json!({"cpu": 100})).expect(403);
    cloud.call(&cloud.admin, "PUT", path, &json!({"cpu": "many"})).expect(400);
    cloud.call(&cloud.admin, "PUT", path, &json!({"colour": 1})).expect(400);
    cloud.call(&cloud.admin, "PUT", path, &json!({"cpu": 1.5})).expect(400);
    cloud.call(&cloud.admin, "PUT", path, &json!({"cpu": "1500m"})).expect(200);
    assert_eq!(limits(cloud.get(&token, own).expect(200)), (json!("1500m"), Value::Null));
    cloud.call(&cloud.admin, "DELETE", path, &Value::Null).expect(200);
    assert_eq!(limits(cloud.get(&token, own).expect(200)), (json!("4"), json!(2)));
    let nobody = "/api/v2/datacenters/local/quota/nobody";
    cloud.call(&cloud.admin, "PUT", nobody, &json!({})).expect(404);
}
