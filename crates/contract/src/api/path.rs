//! Where each call is. Parts in braces are for the router; [`fill`] puts values in.
//!
//! A call that the server does not know is refused with its `path`, which begins with `/api/`, or
//! its `method` in the context: by that a client knows a server that is older than itself.

/// Log in with a name and a password: [`super::user::Login`] for [`super::user::Session`].
pub const LOGIN: &str = "/api/v2/login";
/// Revoke the token that makes the call; 204.
pub const LOGOUT: &str = "/api/v2/logout";
/// Whose token this is, and which datacenters there are: [`super::user::Whoami`].
pub const WHOAMI: &str = "/api/v2/whoami";
/// Tokens for scripts: POST a [`super::user::NewToken`] for a [`super::user::Session`], GET a list
/// of [`super::user::Token`].
pub const TOKENS: &str = "/api/v2/tokens";
/// One of them: DELETE revokes it; 204.
pub const TOKEN: &str = "/api/v2/tokens/{token}";
/// Users, for administrators: POST a [`super::user::NewUser`] for an [`super::user::AddedUser`],
/// GET a list of [`super::user::User`].
pub const USERS: &str = "/api/v2/users";
/// One user: PATCH a [`super::user::UserChange`] for the [`super::user::User`].
pub const USER: &str = "/api/v2/users/{user}";
/// The datacenters and queues: [`super::cluster::Datacenter`].
pub const DATACENTERS: &str = "/api/v2/datacenters";
/// Which files of a package the server lacks: [`super::package::Manifest`] for
/// [`super::package::Missing`].
pub const PACKAGES: &str = "/api/v2/packages";
/// The content of one file, by its SHA-256: PUT; 204. Sending what is there already is no error.
pub const BLOB: &str = "/api/v2/blobs/{sha256}";
/// POST a [`super::job::Submit`] for the [`super::job::Job`] (201, or 200 if the request is known);
/// GET by [`super::job::JobQuery`] a [`super::Page`] of [`super::job::Job`].
pub const JOBS: &str = "/api/v2/datacenters/{datacenter}/jobs";
/// One job, by name (the newest of that name) or uid: GET a [`super::job::JobDetail`]; DELETE
/// removes one that has ended from history, 204.
pub const JOB: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}";
/// End it: POST a [`super::job::Kill`] for the [`super::job::Job`].
pub const JOB_KILL: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/kill";
/// Change the number of its trainers: POST a [`super::job::Scale`] for the [`super::job::Job`].
pub const JOB_SCALE: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/scale";
/// What it waits for, or why it ended: [`super::job::Why`].
pub const JOB_WHY: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/why";
/// What the cloud saw of it: a list of [`super::job::Event`].
pub const JOB_EVENTS: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/events";
/// Its replicas: a list of [`super::job::Worker`].
pub const JOB_WORKERS: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/workers";
/// What they printed: by [`super::log::LogQuery`] pieces as [`super::log::LogPiece`] says.
pub const JOB_LOGS: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/logs";
/// What they measured: a list of [`super::log::MetricsLine`].
pub const JOB_METRICS: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/metrics";
/// What a job of [`CLUSTER_TRAIN`] has sent so far: GET by [`super::file::PathQuery`], the path below
/// its results, a list of [`super::file::Entry`], or of a file its bytes.
pub const JOB_RESULTS: &str = "/api/v2/datacenters/{datacenter}/jobs/{job}/results";
/// Hand in a V1 training with its data: POST a [`super::cluster_train::ClusterTrain`] for what was
/// [`super::cluster_train::Accepted`].
pub const CLUSTER_TRAIN: &str = "/api/v2/cluster_train";
/// For the nodes of such a job, with the job's own token: what one fetches, by
/// [`super::cluster_train::NodeQuery`], as a [`super::cluster_train::Share`].
pub const STAGE: &str = "/api/v2/stages/{job}";
/// A part of a file, by [`super::cluster_train::PartQuery`].
pub const STAGE_FILE: &str = "/api/v2/stages/{job}/files/{number}";
/// Its workspace is ready: POST a [`super::cluster_train::NodeQuery`] for who is
/// [`super::cluster_train::Awaited`].
pub const STAGE_READY: &str = "/api/v2/stages/{job}/ready";
/// A file of its results: PUT by [`super::cluster_train::ResultQuery`]; 204.
pub const STAGE_RESULT: &str = "/api/v2/stages/{job}/results";
/// The caller's limits and use: [`super::quota::Quota`].
pub const QUOTA: &str = "/api/v2/datacenters/{datacenter}/quota";
/// Those of another user, for administrators; PUT [`super::quota::Limits`] for the
/// [`super::quota::Quota`], DELETE goes back to the defaults.
pub const USER_QUOTA: &str = "/api/v2/datacenters/{datacenter}/quota/{user}";
/// The caller's registries: a list of [`super::registry::Registry`].
pub const REGISTRIES: &str = "/api/v2/datacenters/{datacenter}/registries";
/// One of them: PUT [`super::registry::Credentials`] for the [`super::registry::Registry`], DELETE;
/// 204.
pub const REGISTRY: &str = "/api/v2/datacenters/{datacenter}/registries/{registry}";
/// Files: GET by [`super::file::ListQuery`] lines of [`super::file::ListLine`]; DELETE by
/// [`super::file::RemoveQuery`], 204.
pub const FILES: &str = "/api/v2/files";
/// What is at a path, by [`super::file::PathQuery`]: [`super::file::Entry`].
pub const FILE_STAT: &str = "/api/v2/files/stat";
/// How much is below a path, by [`super::file::PathQuery`]: [`super::file::DiskUsage`].
pub const FILE_USAGE: &str = "/api/v2/files/usage";
/// A file's bytes: GET by [`super::file::ContentQuery`], with `Range`, `If-Match`, `If-None-Match`
/// and `If-Range`; PUT by [`super::file::PutQuery`], with `If-Match` and `If-None-Match: *`, for the
/// [`super::file::Entry`].
pub const FILE_CONTENT: &str = "/api/v2/files/content";
/// Make a directory and those above it: POST a [`super::file::PathQuery`] for the
/// [`super::file::Entry`].
pub const FILE_DIRECTORIES: &str = "/api/v2/files/directories";
/// Change permissions or time of a file or directory: POST [`super::file::Attributes`] for the
/// [`super::file::Entry`].
pub const FILE_ATTRIBUTES: &str = "/api/v2/files/attributes";
/// Give a file or directory another name: POST a [`super::file::Relocate`] for the
/// [`super::file::Entry`].
pub const FILE_MOVE: &str = "/api/v2/files/move";
/// Copy a file: POST a [`super::file::Relocate`] for the [`super::file::Entry`].
pub const FILE_COPY: &str = "/api/v2/files/copy";
/// Write many small files: POST a [`super::pack`] for a list of [`super::pack::Packed`].
pub const FILE_PACK: &str = "/api/v2/files/pack";
/// Read many small files: POST a [`super::pack::Fetch`] for a [`super::pack`].
pub const FILE_FETCH: &str = "/api/v2/files/fetch";
/// Uploads: POST a [`super::file::Begin`] for the [`super::file::Upload`].
pub const UPLOADS: &str = "/api/v2/files/uploads";
/// One upload: GET the [`super::file::Upload`]; DELETE gives it up, 204.
pub const UPLOAD: &str = "/api/v2/files/uploads/{upload}";
/// A chunk, counted from 0: PUT its bytes, with their `checksum` in the query; 204.
pub const UPLOAD_CHUNK: &str = "/api/v2/files/uploads/{upload}/chunks/{chunk}";
/// Take what is the same in the file that is there: POST [`super::file::Checksums`] for the
/// [`super::file::Upload`].
pub const UPLOAD_REUSE: &str = "/api/v2/files/uploads/{upload}/reuse";
/// End it: POST [`super::file::Checksums`] for [`super::file::Completed`].
pub const UPLOAD_COMPLETE: &str = "/api/v2/files/uploads/{upload}/complete";
/// Links for everybody: POST a [`super::file::PathQuery`] for the [`super::file::Link`], GET a list
/// of them.
pub const LINKS: &str = "/api/v2/links";
/// One of them: DELETE revokes it; 204.
pub const LINK: &str = "/api/v2/links/{link}";
/// Who did what, for administrators: a [`super::Page`] of [`super::user::AuditEntry`], newest
/// first, by `limit` and `after`.
pub const AUDIT: &str = "/api/v2/audit";
/// The description of all this, as OpenAPI.
pub const OPENAPI: &str = "/api/v2/openapi.json";

/// Puts values, in order, where a path has braces, with every byte encoded that could end a
/// component.
pub fn fill(path: &str, values: &[&str]) -> String {
    let mut values = values.iter();
    let parts = path.split('/').map(|part| match part.starts_with('{') {
        true => encode(values.next().unwrap_or(&"")),
        false => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// A text as one component of a path, or one value of a query.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            // Never `.` or `..` alone, which proxies resolve.
            b'.' if !text.bytes().all(|byte| byte == b'.') => encoded.push('.'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_component() {
        assert_eq!(fill(JOB, &["dc1", "../x"]), "/api/v2/datacenters/dc1/jobs/..%2Fx");
        assert_eq!(fill(JOB, &["dc1", ".."]), "/api/v2/datacenters/dc1/jobs/%2E%2E");
        assert_eq!(fill(USER, &["wu@example.com"]), "/api/v2/users/wu%40example.com");
    }
}
