//! Rows that cannot be read: their jobs are named, and hide no others.

use super::cloud::Cloud;
use serde_json::{Value, json};
use sqlx::AnyConnection;
use sqlx::Connection as _;

const JOBS: &str = "/api/v2/datacenters/local/jobs";

/// Submits a job that waits.
fn submit(cloud: &Cloud, token: &str, name: &str) {
    let program = json!({"path": "/pfs/local/home/wu/program"});
    cloud.call(token, "POST", "/api/v2/files/directories", &program);
    let spec = json!({
        "version": contract::job::JobSpec::VERSION, "name": name, "entry": "true",
        "package": program["path"],
    });
    let body = json!({"request": name, "spec": spec, "package": null});
    cloud.call(token, "POST", JOBS, &body).expect(201);
}

fn damage(cloud: &Cloud, sql: &str) {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}/data/cloud.db", cloud.folder.path().display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let changed = runtime.block_on(async {
        let mut connection = AnyConnection::connect(&url).await.unwrap();
        sqlx::query(sql).execute(&mut connection).await.unwrap().rows_affected()
    });
    assert_eq!(changed, 1);
}

#[test]
fn a_job_that_cannot_be_read_is_named_and_the_others_are_listed() {
    let cloud = Cloud::with("datacenters: [{name: local, capacity: {replicas: 1}}]");
    let token = cloud.user("wu");
    for name in ["one", "two", "three"] {
        submit(&cloud, &token, name);
    }
    damage(&cloud, "UPDATE jobs SET spec = '{', summary = '{' WHERE name = 'two'");
    let names = |page: &Value| -> Vec<Value> {
        page["items"].as_array().unwrap().iter().map(|job| job["name"].clone()).collect()
    };
    let page = cloud.get(&token, JOBS).expect(200);
    assert_eq!(names(&page), ["three", "one"]);
    let notes = page["notes"].as_array().unwrap();
    let note = notes[0].as_str().unwrap();
    assert!(notes.len() == 1 && note.contains("job: two, uid: two-"), "{note}");
    // Page by page, too, where a page has nothing else.
    let mut path = format!("{JOBS}?limit=1");
    let mut all = Vec::new();
    for _ in 0..3 {
        let page = cloud.get(&token, &path).expect(200);
        all.extend(names(&page));
        let next = page["next"].as_str().unwrap_or_default();
        path = format!("{JOBS}?limit=1&after={next}");
    }
    assert_eq!(all, ["three", "one"]);
    // The original's list has no place for notes.
    let legacy = cloud.get(&token, "/api/v1/jobs/").expect(200);
    assert_eq!(legacy["items"].as_array().unwrap().len(), 2);
    let message = cloud.get(&token, &format!("{JOBS}/two")).message(422);
    assert!(message.contains("administrator"), "{message}");
    // The queue goes on: what comes later is taken in, and ended.
    submit(&cloud, &token, "four");
    let killed = cloud.call(&token, "POST", &format!("{JOBS}/four/kill"), &json!({})).expect(200);
    assert_eq!(killed["state"], "killed");
    // A user who is disabled has jobs that end, and this one.
    let change = json!({"is_enabled": false});
    cloud.call(&cloud.admin, "PATCH", "/api/v2/users/wu", &change).expect(200);
    let three = cloud.get(&cloud.admin, &format!("{JOBS}?user=wu&name=three")).expect(200);
    assert_eq!(three["items"][0]["state"], "killed");
}
