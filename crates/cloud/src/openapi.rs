//! The description of `/api/v2` for programs, as OpenAPI: one row per call, beside the table of
//! [`crate::router`]. A test compares the two.

use axum::Json;
use contract::api::cluster::Datacenter;
use contract::api::cluster_train::{
    Accepted, Awaited, ClusterTrain, NodeQuery, PartQuery, ResultQuery, Share,
};
use contract::api::error::ErrorBody;
use contract::api::file::{
    Attributes, Begin, Checksums, ChunkQuery, Completed, ContentQuery, DiskUsage, Entry, Link,
    ListLine, ListQuery, PathQuery, PutQuery, Relocate, RemoveQuery, Upload,
};
use contract::api::job::{Event, Job, JobDetail, JobQuery, Kill, Scale, Submit, Why, Worker};
use contract::api::log::{LogPiece, LogQuery, MetricsLine};
use contract::api::pack::{Fetch, Packed};
use contract::api::package::{Manifest, Missing};
use contract::api::quota::{Limits, Quota};
use contract::api::registry::{Credentials, Registry};
use contract::api::user::{
    AddedUser, AuditEntry, Login, NewToken, NewUser, Session, Token, User, UserChange, Whoami,
};
use contract::api::{Page, path};
use utoipa::openapi::path::{
    Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, InfoBuilder, OpenApi, OpenApiBuilder, PathItem,
    PathsBuilder, Ref, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// The description.
pub(crate) async fn describe() -> Json<OpenApi> {
    Json(description())
}

const SECURITY: &str = "token";

type Schemas = Vec<(String, RefOr<Schema>)>;

/// The rows, while they are written down.
struct Table {
    paths: PathsBuilder,
    schemas: Schemas,
}

/// What a call takes and gives.
struct Row {
    operation: OperationBuilder,
    method: HttpMethod,
    path: &'static str,
    is_open: bool,
}

fn row(method: HttpMethod, path: &'static str, summary: &str) -> Row {
    let operation = OperationBuilder::new().summary(Some(summary));
    let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let operation =
        parts.fold(operation, |operation, part| operation.parameter(text_in_path(part)));
    Row { operation, method, path, is_open: false }
}

fn text_in_path(name: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

impl Row {
    /// For callers who are not logged in.
    fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    fn query<Q: IntoParams>(mut self) -> Self {
        let parameters = Q::into_params(|| Some(ParameterIn::Query));
        self.operation = self.operation.parameters(Some(parameters));
        self
    }

    fn body(mut self, schema: RefOr<Schema>, required: Required) -> Self {
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let body = RequestBodyBuilder::new().content("application/json", content);
        self.operation = self.operation.request_body(Some(body.required(Some(required)).build()));
        self
    }

    fn bytes(mut self) -> Self {
        let schema = ObjectBuilder::new().schema_type(Type::String);
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let body = RequestBodyBuilder::new().content("application/octet-stream", content);
        self.operation =
            self.operation.request_body(Some(body.required(Some(Required::True)).build()));
        self
    }

    fn gives(mut self, status: &str, schema: Option<RefOr<Schema>>) -> Self {
        let mut response = ResponseBuilder::new().description("done");
        if let Some(schema) = schema {
            let content = ContentBuilder::new().schema(Some(schema)).build();
            response = response.content("application/json", content);
        }
        self.operation = self.operation.response(status, response.build());
        self
    }

    /// An answer that may also be a stream of such rows, one per line.
    fn streams(mut self, answer: RefOr<Schema>, line: RefOr<Schema>) -> Self {
        let content = |schema| ContentBuilder::new().schema(Some(schema)).build();
        let response = ResponseBuilder::new()
            .description("all of it, or a stream of lines")
            .content("application/json", content(answer))
            .content("application/x-ndjson", content(line));
        self.operation = self.operation.response("200", response.build());
        self
    }

    fn build(self, error: RefOr<Schema>) -> Operation {
        let content = ContentBuilder::new().schema(Some(error)).build();
        let refusal =
            ResponseBuilder::new().description("refused").content("application/json", content);
        let operation = self.operation.response("default", refusal.build());
        let security = match self.is_open {
            true => SecurityRequirement::default(),
            false => SecurityRequirement::new(SECURITY, Vec::<String>::new()),
        };
        operation.security(security).build()
    }
}

impl Table {
    fn add(&mut self, row: Row) {
        let (method, path) = (row.method.clone(), row.path);
        let error = self.schema::<ErrorBody>();
        let item = PathItem::new(method, row.build(error));
        // Rows of one path are merged into one item.
        let paths = std::mem::take(&mut self.paths);
        self.paths = paths.path(path, item);
    }

    /// A reference to the schema of a type, which is added to the components.
    fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let name = T::name().into_owned();
        if !self.schemas.iter().any(|(known, _)| *known == name) {
            self.schemas.push((name.clone(), T::schema()));
            T::schemas(&mut self.schemas);
        }
        RefOr::Ref(Ref::from_schema_name(name))
    }

    fn list<T: ToSchema>(&mut self) -> RefOr<Schema> {
        RefOr::T(ArrayBuilder::new().items(self.schema::<T>()).build().into())
    }

    fn page<T: ToSchema>(&mut self) -> RefOr<Schema> {
        self.schema::<T>();
        Page::<T>::schema()
    }
}

fn description() -> OpenApi {
    let mut table = Table { paths: PathsBuilder::new(), schemas: Vec::new() };
    users(&mut table);
    packages(&mut table);
    jobs(&mut table);
    limits(&mut table);
    files(&mut table);
    uploads(&mut table);
    cluster_train(&mut table);
    let schemas = std::mem::take(&mut table.schemas);
    let key = ApiKeyValue::with_description("Authorization", "`Token …` or `Bearer …`");
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme(SECURITY, SecurityScheme::ApiKey(ApiKey::Header(key)));
    let info = InfoBuilder::new()
        .title("paddlecloud")
        .description(Some("Users, programs, jobs and logs of a cloud for distributed training."))
        .version(env!("CARGO_PKG_VERSION"));
    OpenApiBuilder::new()
        .info(info.build())
        .paths(table.paths.build())
        .components(Some(components.build()))
        .build()
}

use HttpMethod::{Delete, Get, Patch, Post, Put};
use Required::{False, True};

fn users(table: &mut Table) {
    let (login, session) = (table.schema::<Login>(), table.schema::<Session>());
    let (new_token, token) = (table.schema::<NewToken>(), table.list::<Token>());
    let (whoami, user) = (table.schema::<Whoami>(), table.schema::<User>());
    let (new, added) = (table.schema::<NewUser>(), table.schema::<AddedUser>());
    let (change, users) = (table.schema::<UserChange>(), table.list::<User>());
    let log_in = row(Post, path::LOGIN, "A name and a password for a token").open();
    table.add(log_in.body(login, True).gives("200", Some(session.clone())));
    table.add(row(Post, path::LOGOUT, "Revoke the token of the call").gives("204", None));
    table.add(row(Get, path::WHOAMI, "Whose token it is").gives("200", Some(whoami)));
    let list = row(Get, path::TOKENS, "The caller's tokens");
    table.add(list.gives("200", Some(token)));
    let make = row(Post, path::TOKENS, "Make a token for scripts");
    table.add(make.body(new_token, True).gives("201", Some(session)));
    table.add(row(Delete, path::TOKEN, "Revoke a token").gives("204", None));
    table.add(row(Get, path::USERS, "All users").gives("200", Some(users)));
    let add = row(Post, path::USERS, "Add a user").body(new, True);
    table.add(add.gives("201", Some(added)));
    let patch = row(Patch, path::USER, "Change a user").body(change, False);
    table.add(patch.gives("200", Some(user)));
}

fn packages(table: &mut Table) {
    let (manifest, missing) = (table.schema::<Manifest>(), table.schema::<Missing>());
    let offer = row(Post, path::PACKAGES, "Which contents of a package the server lacks");
    table.add(offer.body(manifest, True).gives("200", Some(missing)));
    table.add(row(Put, path::BLOB, "Send one content").bytes().gives("204", None));
}

fn jobs(table: &mut Table) {
    let (submit, job) = (table.schema::<Submit>(), table.schema::<Job>());
    let (detail, page) = (table.schema::<JobDetail>(), table.page::<Job>());
    let (kill, scale) = (table.schema::<Kill>(), table.schema::<Scale>());
    let (why, events) = (table.schema::<Why>(), table.list::<Event>());
    let (workers, metrics) = (table.list::<Worker>(), table.list::<MetricsLine>());
    let (pieces, piece) = (table.list::<LogPiece>(), table.schema::<LogPiece>());
    let list = row(Get, path::JOBS, "The caller's jobs, newest first").query::<JobQuery>();
    table.add(list.streams(page, job.clone()));
    let accept = row(Post, path::JOBS, "Submit a job").body(submit, True);
    let accept = accept.gives("201", Some(job.clone()));
    table.add(accept.gives("200", Some(job.clone())));
    table.add(row(Get, path::JOB, "All of a job").gives("200", Some(detail)));
    let remove = row(Delete, path::JOB, "Remove a job that has ended from history");
    table.add(remove.gives("204", None));
    let end = row(Post, path::JOB_KILL, "End a job").body(kill, False);
    table.add(end.gives("200", Some(job.clone())));
    let change = row(Post, path::JOB_SCALE, "Change the number of trainers").body(scale, True);
    table.add(change.gives("200", Some(job)));
    let reason = row(Get, path::JOB_WHY, "What a job waits for, or why it ended");
    table.add(reason.gives("200", Some(why)));
    table.add(row(Get, path::JOB_EVENTS, "What the cloud saw").gives("200", Some(events)));
    table.add(row(Get, path::JOB_WORKERS, "The replicas").gives("200", Some(workers)));
    let logs = row(Get, path::JOB_LOGS, "What the replicas printed").query::<LogQuery>();
    table.add(logs.streams(pieces, piece));
    let figures = row(Get, path::JOB_METRICS, "What the replicas measured");
    table.add(figures.gives("200", Some(metrics)));
}

fn limits(table: &mut Table) {
    let (quota, limits) = (table.schema::<Quota>(), table.schema::<Limits>());
    let (credentials, registry) = (table.schema::<Credentials>(), table.schema::<Registry>());
    let (registries, places) = (table.list::<Registry>(), table.list::<Datacenter>());
    let audit = table.page::<AuditEntry>();
    let own = row(Get, path::QUOTA, "The caller's limits and use");
    table.add(own.gives("200", Some(quota.clone())));
    let other = row(Get, path::USER_QUOTA, "Those of another user");
    table.add(other.gives("200", Some(quota.clone())));
    let set = row(Put, path::USER_QUOTA, "Change a user's limits").body(limits, False);
    table.add(set.gives("200", Some(quota.clone())));
    let reset = row(Delete, path::USER_QUOTA, "Give a user the default limits again");
    table.add(reset.gives("200", Some(quota)));
    let list = row(Get, path::REGISTRIES, "The caller's registries");
    table.add(list.gives("200", Some(registries)));
    let put = row(Put, path::REGISTRY, "Keep credentials").body(credentials, True);
    table.add(put.gives("200", Some(registry)));
    table.add(row(Delete, path::REGISTRY, "Remove credentials").gives("204", None));
    let list = row(Get, path::DATACENTERS, "The datacenters and their queues");
    table.add(list.gives("200", Some(places)));
    let list = row(Get, path::AUDIT, "Who did what, newest first");
    table.add(list.query::<crate::audit::AuditQuery>().gives("200", Some(audit)));
}

fn files(table: &mut Table) {
    let (entry, usage) = (table.schema::<Entry>(), table.schema::<DiskUsage>());
    let (place, relocate) = (table.schema::<PathQuery>(), table.schema::<Relocate>());
    let (line, fetch) = (table.schema::<ListLine>(), table.schema::<Fetch>());
    let packed = table.list::<Packed>();
    let list = row(Get, path::FILES, "What is in a directory or matches a pattern");
    table.add(list.query::<ListQuery>().streams(line.clone(), line));
    let remove = row(Delete, path::FILES, "Remove a file or directory");
    table.add(remove.query::<RemoveQuery>().gives("204", None));
    let stat = row(Get, path::FILE_STAT, "What is at a path").query::<PathQuery>();
    table.add(stat.gives("200", Some(entry.clone())));
    let measure = row(Get, path::FILE_USAGE, "How much is below a path").query::<PathQuery>();
    table.add(measure.gives("200", Some(usage)));
    let get = row(Get, path::FILE_CONTENT, "A file's bytes, or a range of them");
    table.add(get.query::<ContentQuery>().gives("200", None));
    let put = row(Put, path::FILE_CONTENT, "Write a file in one piece").query::<PutQuery>();
    table.add(put.bytes().gives("200", Some(entry.clone())));
    let make = row(Post, path::FILE_DIRECTORIES, "Make a directory").body(place.clone(), True);
    table.add(make.gives("200", Some(entry.clone())));
    let attributes = table.schema::<Attributes>();
    let dress = row(Post, path::FILE_ATTRIBUTES, "Change permissions or time");
    table.add(dress.body(attributes, True).gives("200", Some(entry.clone())));
    let rename = row(Post, path::FILE_MOVE, "Give a file or directory another name");
    table.add(rename.body(relocate.clone(), True).gives("200", Some(entry.clone())));
    let copy = row(Post, path::FILE_COPY, "Copy a file").body(relocate, True);
    table.add(copy.gives("200", Some(entry)));
    let pack = row(Post, path::FILE_PACK, "Write many small files").query::<PathQuery>();
    table.add(pack.bytes().gives("200", Some(packed)));
    let fetched = row(Post, path::FILE_FETCH, "Read many small files").query::<PathQuery>();
    table.add(fetched.body(fetch, True).gives("200", None));
    let (link, links) = (table.schema::<Link>(), table.list::<Link>());
    table.add(row(Get, path::LINKS, "The caller's links").gives("200", Some(links)));
    let publish = row(Post, path::LINKS, "Make a link for everybody").body(place, True);
    table.add(publish.gives("200", Some(link)));
    table.add(row(Delete, path::LINK, "Revoke a link").gives("204", None));
}

fn cluster_train(table: &mut Table) {
    let (asked, accepted) = (table.schema::<ClusterTrain>(), table.schema::<Accepted>());
    let train = row(Post, path::CLUSTER_TRAIN, "Submit a V1 training with its data");
    table.add(train.body(asked, True).gives("200", Some(accepted)));
    let results = row(Get, path::JOB_RESULTS, "What a training has sent").query::<PathQuery>();
    table.add(results.gives("200", None));
    let share = table.schema::<Share>();
    let stage = row(Get, path::STAGE, "What a node fetches").query::<NodeQuery>();
    table.add(stage.gives("200", Some(share)));
    let part = row(Get, path::STAGE_FILE, "A part of a file for a node").query::<PartQuery>();
    table.add(part.gives("200", None));
    let (node, awaited) = (table.schema::<NodeQuery>(), table.schema::<Awaited>());
    let ready = row(Post, path::STAGE_READY, "A node is ready").body(node, True);
    table.add(ready.gives("200", Some(awaited)));
    let result = row(Put, path::STAGE_RESULT, "A file of the results").query::<ResultQuery>();
    table.add(result.bytes().gives("204", None));
}

fn uploads(table: &mut Table) {
    let (begin, upload) = (table.schema::<Begin>(), table.schema::<Upload>());
    let (sums, completed) = (table.schema::<Checksums>(), table.schema::<Completed>());
    let start = row(Post, path::UPLOADS, "Begin or continue an upload").body(begin, True);
    table.add(start.gives("200", Some(upload.clone())));
    table.add(row(Get, path::UPLOAD, "What an upload lacks").gives("200", Some(upload.clone())));
    table.add(row(Delete, path::UPLOAD, "Give an upload up").gives("204", None));
    let chunk = row(Put, path::UPLOAD_CHUNK, "Send a chunk").query::<ChunkQuery>();
    table.add(chunk.bytes().gives("204", None));
    let reuse = row(Post, path::UPLOAD_REUSE, "Take what is the same in the file that is there");
    table.add(reuse.body(sums.clone(), True).gives("200", Some(upload)));
    let complete = row(Post, path::UPLOAD_COMPLETE, "End an upload").body(sums, True);
    table.add(complete.gives("200", Some(completed)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_call_of_the_router_is_described() {
        let description = serde_json::to_value(description()).unwrap();
        let paths = description["paths"].as_object().unwrap();
        let router = include_str!("router.rs");
        let source = include_str!("../../contract/src/api/path.rs");
        for line in source.lines() {
            let Some((name, rest)) =
                line.strip_prefix("pub const ").and_then(|line| line.split_once(": &str = \""))
            else {
                continue;
            };
            let path = rest.trim_end_matches("\";");
            let route = router.split_once(&format!(".route(path::{name}, "));
            let (_, route) = route.unwrap_or_else(|| panic!("{name} is not routed"));
            let route = route.lines().next().unwrap();
            let methods = ["get", "post", "put", "patch", "delete"].into_iter();
            let answered: BTreeSet<&str> =
                methods.filter(|method| route.contains(&format!("{method}("))).collect();
            let described = paths.get(path).and_then(|own| own.as_object());
            let described: BTreeSet<&str> =
                described.into_iter().flat_map(|own| own.keys().map(String::as_str)).collect();
            assert!(name == "OPENAPI" || described == answered, "{path}: {described:?}");
        }
        let schemas = description["components"]["schemas"].as_object().unwrap();
        let text = description.to_string();
        for (_, after) in text.match_indices("#/components/schemas/").map(|(at, found)| {
            text[at + found.len()..].split_once('"').map_or(("", ""), |(name, rest)| (rest, name))
        }) {
            assert!(schemas.contains_key(after), "{after}");
        }
    }
}
