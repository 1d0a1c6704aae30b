//! What a configuration asks for by `cluster_config(...)`. Every argument of the original is honoured,
//! noted, or refused by its name; pure.

use contract::{Error, Kind, Result};
use serde_json::{Map, Value};

/// Where a training's data is, and where its results go. Paths are absolute in their file system.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Wish {
    /// The file system, as in `hdfs://namenode:port`; empty for the users' own files, `/pfs`.
    pub(crate) fs_name: String,
    /// Who asks an HDFS.
    pub(crate) user: Option<String>,
    /// The directory of the training data.
    pub(crate) train: String,
    /// The directory of the test data, and whether it must be there.
    pub(crate) test: (String, bool),
    /// Files or directories about the data; the second one may be missing.
    pub(crate) train_meta: Option<String>,
    pub(crate) test_meta: Option<String>,
    /// The directory of the meta data below `train_data_dir`.
    pub(crate) meta_folder: String,
    /// Where results go.
    pub(crate) output: Output,
    /// A model to begin with.
    pub(crate) init_model: Option<String>,
    /// Where trainer 0 saves, below its workspace.
    pub(crate) save_dir: String,
    /// The first port of servers, how many for dense and for sparse parameters.
    pub(crate) ports: (Option<u16>, Option<u16>, Option<u16>),
    /// A text by which processes are found.
    pub(crate) comment: String,
    /// Whether `.gz` files are unpacked on the nodes.
    pub(crate) decompress: bool,
    /// Whether every node tests its share of the test data.
    pub(crate) distributes_test: bool,
    /// What people should know.
    pub(crate) notes: Vec<String>,
}

/// Where results go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Output {
    /// There, or, if there is something already, beside it with the time in its name.
    Derived(String),
    /// There, where nothing may be.
    New(String),
    /// There, whatever is there.
    Reused(String),
}

impl Default for Output {
    fn default() -> Self {
        Output::Derived(String::new())
    }
}

/// No file system has longer ones.
const PATH_BYTES_MAX: usize = 4096;

/// Arguments that nothing here can honour, with the reason.
const REFUSED: [(&str, &str); 5] = [
    ("pserver_model_dir", "servers do not load models from a directory: use init_model_path"),
    ("pserver_model_pass", "servers do not load models from a directory: use init_model_path"),
    ("loadsave_parameters_in_pserver", "trainer 0 saves the model: leave it out"),
    ("enable_predict_output", "nodes do not write predictions: use `paddle train --job=test`"),
    ("model_path", "it belongs to enable_predict_output: leave it out"),
];

/// Reads the arguments.
///
/// # Errors
/// The first that makes no sense, or cannot be honoured.
pub(crate) fn wish(arguments: &Map<String, Value>) -> Result<Wish> {
    let mut given = Given { arguments: arguments.clone() };
    for (name, why) in REFUSED {
        if given.is_set(name) {
            let message = format!("cluster_config({name}=…) cannot be honoured: {why}");
            return Err(Error::new(Kind::Unsupported, message).with("field", name));
        }
    }
    let mut wish = Wish { fs_name: file_system(&given.text("fs_name")?)?, ..Wish::default() };
    let ugi = given.text("fs_ugi")?;
    if !ugi.is_empty() {
        // What is behind the comma is a password, which no HDFS here asks for and nobody keeps.
        let user = ugi.split(',').next().unwrap_or_default().trim();
        if user.is_empty() || !user.chars().all(is_plain) {
            let message = "cluster_config(fs_ugi=…) is \"user,password\", and the user is letters, \
                           digits, `-`, `_` and `.`";
            return Err(Error::invalid(message).with("field", "fs_ugi"));
        }
        wish.user = Some(user.to_owned());
        if !wish.fs_name.starts_with("hdfs://") {
            wish.notes.push(format!("fs_ugi has no effect: {} is no HDFS", wish.shown()));
        }
    }
    let work_dir = given.path("work_dir")?;
    let below = |name: &str| work_dir.as_ref().map(|dir| format!("{dir}/{name}"));
    let train = given.path("train_data_path")?.or_else(|| below("train"));
    wish.train = train.ok_or_else(|| {
        let message = "cluster_config(...) says nothing of the data: give work_dir, with train/ and \
                       test/ in it, or train_data_path";
        Error::invalid(message).with("field", "work_dir")
    })?;
    let test = given.path("test_data_path")?;
    let must_test = test.is_some();
    wish.test = (test.or_else(|| below("test")).unwrap_or_default(), must_test);
    let has_meta = given.truth("has_meta_data")?;
    let meta = |name: &str| if has_meta { below(name) } else { None };
    wish.train_meta = given.path("train_meta_data_path")?.or_else(|| meta("train_meta"));
    wish.test_meta = given.path("test_meta_data_path")?.or_else(|| meta("test_meta"));
    if has_meta && wish.train_meta.is_none() {
        let message = "cluster_config(has_meta_data=True) needs work_dir, or train_meta_data_path";
        return Err(Error::invalid(message).with("field", "has_meta_data"));
    }
    let above = |path: &str| path.rsplit_once('/').map(|(above, _)| above.to_owned());
    let home = work_dir.clone().or_else(|| above(&wish.train)).unwrap_or_default();
    wish.meta_folder = home.rsplit('/').next().unwrap_or_default().to_owned();
    let reuses = given.truth("force_reuse_output_path")?;
    wish.output = match (given.path("output_path")?, below("output"), reuses) {
        (Some(path), _, true) | (None, Some(path), true) => Output::Reused(path),
        (Some(path), _, false) => Output::New(path),
        (None, Some(path), false) => Output::Derived(path),
        (None, None, _) => {
            let message = "cluster_config(...) says nothing of the results: give work_dir or \
                           output_path";
            return Err(Error::invalid(message).with("field", "output_path"));
        }
    };
    if let Output::New(path) | Output::Reused(path) = &wish.output {
        check_apart(path, &[&wish.train, &wish.test.0])?;
    }
    wish.init_model = given.path("init_model_path")?;
    wish.save_dir = save_dir(&given.text("save_dir")?)?;
    let sparse = given.truth("use_remote_sparse")?;
    wish.ports = (given.number("port")?, given.number("ports_num")?, sparse.then_some(1));
    wish.comment = given.text("comment")?;
    wish.decompress = given.truth("decompress")?;
    if !given.text("mail_address")?.is_empty() {
        wish.notes.push("mail_address has no effect: no mail is sent".to_owned());
    }
    given.finish(arguments)?;
    Ok(wish)
}

/// Refuses results among the data: the next training would find them there.
fn check_apart(output: &str, data: &[&str]) -> Result<()> {
    let is_within =
        |top: &&&str| !top.is_empty() && output.strip_prefix(**top).is_some_and(is_end_or_below);
    match data.iter().find(is_within) {
        None => Ok(()),
        Some(top) => {
            let message = "cluster_config(output_path=…) is among the data: use another directory";
            Err(Error::invalid(message).with("output_path", output).with("data", top))
        }
    }
}

fn is_end_or_below(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// The directory for models, below the workspace.
pub(super) fn save_dir(text: &str) -> Result<String> {
    let text = text.trim_end_matches('/');
    let text = text.strip_prefix("./").unwrap_or(text);
    if text.is_empty() {
        return Ok("output".to_owned());
    }
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    if text.starts_with('/') || text.split('/').any(is_odd) {
        let message = "save_dir is a directory of the workspace, as output: only what is there is \
                       uploaded";
        return Err(Error::invalid(message).with("save_dir", text));
    }
    Ok(text.to_owned())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

fn file_system(text: &str) -> Result<String> {
    let text = text.trim_end_matches('/').to_owned();
    if text.contains('@') {
        // Without the value: it may have a password.
        let message = "cluster_config(fs_name=…) has no user in it: use fs_ugi";
        return Err(Error::invalid(message).with("field", "fs_name"));
    }
    // `file:///` is all of a machine's files.
    Ok(if text == "file:" { "file://".to_owned() } else { text })
}

/// Arguments that have not been looked at.
struct Given {
    arguments: Map<String, Value>,
}

impl Given {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.arguments.remove(name).filter(|value| !value.is_null())
    }

    /// Whether it has a value that is not what it would be without it.
    fn is_set(&mut self, name: &str) -> bool {
        let value = self.take(name).unwrap_or(Value::Null);
        !matches!(value, Value::Null | Value::Bool(false)) && value != Value::String(String::new())
    }

    fn text(&mut self, name: &str) -> Result<String> {
        match self.take(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(wrong(name, "is a text")),
        }
    }

    fn truth(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(truth)) => Ok(truth),
            Some(Value::Number(number)) if number.as_u64().is_some_and(|number| number < 2) => {
                Ok(number.as_u64() == Some(1))
            }
            Some(_) => Err(wrong(name, "is True or False")),
        }
    }

    fn number(&mut self, name: &str) -> Result<Option<u16>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
        number.filter(|number| *number > 0).map(Some).ok_or_else(|| wrong(name, "is 1 to 65535"))
    }

    /// An absolute path without a slash at its end; `None` if nobody gives one.
    fn path(&mut self, name: &str) -> Result<Option<String>> {
        let text = self.text(name)?;
        if text.is_empty() {
            return Ok(None);
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
        let is_odd = parts.iter().any(|part| matches!(*part, "." | ".."));
        if text.len() > PATH_BYTES_MAX {
            return Err(wrong(name, &format!("has at most {PATH_BYTES_MAX} bytes")));
        }
        if !text.starts_with('/') || parts.is_empty() || is_odd {
            return Err(wrong(name, "is an absolute path without dots, as in /app/demo")
                .with("value", text.escape_debug()));
        }
        Ok(Some(format!("/{}", parts.join("/"))))
    }

    fn finish(&self, all: &Map<String, Value>) -> Result<()> {
        match self.arguments.keys().find(|name| all.contains_key(*name)) {
            None => Ok(()),
            Some(name) => {
                let message = format!("cluster_config has no argument {name}: leave it out");
                Err(Error::invalid(message).with("field", name))
            }
        }
    }
}

fn wrong(name: &str, what: &str) -> Error {
    Error::invalid(format!("cluster_config({name}=…) {what}")).with("field", name)
}

impl Wish {
    /// The file system in words.
    pub(crate) fn shown(&self) -> &str {
        if self.fs_name.is_empty() { "/pfs" } else { &self.fs_name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(arguments: &Value) -> Result<Wish> {
        wish(arguments.as_object().unwrap())
    }

    fn error(arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("not an object") };
        wish(&arguments).unwrap_err().to_string()
    }

    #[test]
    fn the_demos_of_the_guide_say_where_everything_is() {
        let wish = read(&json!({
            "fs_name": "hdfs://nmg01-mulan-hdfs.dmop.baidu.com:54310",
            "fs_ugi": "someone,secret",
            "work_dir": "/app/ecom/fcr-opt/daiwenkai/paddle/demos/image_classification/",
            "has_meta_data": true,
        }))
        .unwrap();
        let demo = "/app/ecom/fcr-opt/daiwenkai/paddle/demos/image_classification";
        assert_eq!(wish.fs_name, "hdfs://nmg01-mulan-hdfs.dmop.baidu.com:54310");
        assert_eq!(wish.user.as_deref(), Some("someone"));
        assert_eq!(wish.train, format!("{demo}/train"));
        assert_eq!(wish.test, (format!("{demo}/test"), false));
        assert_eq!(wish.train_meta, Some(format!("{demo}/train_meta")));
        assert_eq!(wish.meta_folder, "image_classification");
        assert_eq!(wish.output, Output::Derived(format!("{demo}/output")));
        assert_eq!(wish.save_dir, "output");
        assert!(!format!("{wish:?}").contains("secret"));
    }

    #[test]
    fn nothing_is_dropped() {
        insta::assert_snapshot!(error(json!({})), @"cluster_config(...) says nothing of the data: give work_dir, with train/ and test/ in it, or train_data_path (field: work_dir)");
        insta::assert_snapshot!(error(json!({"work_dir": "/a", "colour": 1})), @"cluster_config has no argument colour: leave it out (field: colour)");
        insta::assert_snapshot!(error(json!({"work_dir": "a"})), @"cluster_config(work_dir=…) is an absolute path without dots, as in /app/demo (field: work_dir, value: a)");
        insta::assert_snapshot!(error(json!({"work_dir": "/a/../b"})), @"cluster_config(work_dir=…) is an absolute path without dots, as in /app/demo (field: work_dir, value: /a/../b)");
        insta::assert_snapshot!(error(json!({"work_dir": "/a", "pserver_model_dir": "/b"})), @"cluster_config(pserver_model_dir=…) cannot be honoured: servers do not load models from a directory: use init_model_path (field: pserver_model_dir)");
        insta::assert_snapshot!(error(json!({"work_dir": "/a", "has_meta_data": "yes"})), @"cluster_config(has_meta_data=…) is True or False (field: has_meta_data)");
        insta::assert_snapshot!(error(json!({"work_dir": "/a", "fs_ugi": "a b,c"})), @r#"cluster_config(fs_ugi=…) is "user,password", and the user is letters, digits, `-`, `_` and `.` (field: fs_ugi)"#);
        insta::assert_snapshot!(error(json!({"work_dir": "/a", "save_dir": "/tmp"})), @"save_dir is a directory of the workspace, as output: only what is there is uploaded (save_dir: /tmp)");
        insta::assert_snapshot!(error(json!({"train_data_path": "/a"})), @"cluster_config(...) says nothing of the results: give work_dir or output_path (field: output_path)");
        insta::assert_snapshot!(error(json!({"work_dir": "/a", "output_path": "/a/train/x", "force_reuse_output_path": true})), @"cluster_config(output_path=…) is among the data: use another directory (output_path: /a/train/x, data: /a/train)");
        insta::assert_snapshot!(error(json!({"work_dir": "/a".repeat(4000)})), @"cluster_config(work_dir=…) has at most 4096 bytes (field: work_dir)");
        let beside = json!({"work_dir": "/a", "output_path": "/a/trained"});
        assert_eq!(read(&beside).unwrap().output, Output::New("/a/trained".to_owned()));
        let noted = read(
            &json!({"work_dir": "/a", "mail_address": "me@x", "loadsave_parameters_in_pserver": false}),
        );
        assert_eq!(noted.unwrap().notes, ["mail_address has no effect: no mail is sent"]);
    }
}
