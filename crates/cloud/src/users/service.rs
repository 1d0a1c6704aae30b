//! The rules of users and tokens.

use super::password;
use super::store::{self, TokenRow, UserRow};
use crate::Cloud;
use crate::audit::Deed;
use crate::clock::now_ms;
use crate::http::{Caller, Refusal};
use crate::{jobs, random};
use contract::api::user::{AddedUser, NewToken, NewUser, Session, Token, User, UserChange};
use contract::name::check_user;
use contract::{Error, Kind, Result};
use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// The longest life of a token for scripts.
const TOKEN_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;
/// The longest life of a job's token; it is revoked when its job has ended.
const JOB_TOKEN_MS: u64 = TOKEN_SECONDS_MAX * 1000;
const LABEL_BYTES_MAX: usize = 200;
/// A session is renewed when this part of its life is over, so that not every request writes.
const RENEW_PART: u64 = 10;

/// Logs in.
pub(crate) async fn login(
    cloud: &Cloud,
    username: &str,
    password: &str,
    address: IpAddr,
) -> std::result::Result<Session, Refusal> {
    let row = authenticate(cloud, username, password, address).await?;
    let lifetime_ms = cloud.config.session_hours.saturating_mul(3_600_000);
    Ok(grant(cloud, row, "login", lifetime_ms, true).await?)
}

/// Checks a name and a password.
async fn authenticate(
    cloud: &Cloud,
    username: &str,
    password: &str,
    address: IpAddr,
) -> std::result::Result<UserRow, Refusal> {
    let attempt = cloud.throttle.begin(username, address).await;
    let attempt = attempt.map_err(|error| Refusal::too_fast(&error.to_string()))?;
    let looked_at = async {
        let row = store::user(&cloud.database, username).await?;
        let kept = row.as_ref().map(|row| row.password.as_str());
        let is_right = password::verify(password, kept).await?;
        Ok((row, is_right))
    };
    let (row, is_right) = match looked_at.await {
        Ok(looked_at) => looked_at,
        Err(error) => {
            attempt.leave();
            return Err(Error::into(error));
        }
    };
    match row {
        Some(row) if is_right && row.user.is_enabled => {
            attempt.succeed();
            Ok(row)
        }
        // Which of the two it is, is not for somebody who knows neither.
        _ if !is_right => {
            drop(attempt);
            let message = "wrong user name or password";
            Err(Error::new(Kind::Unauthenticated, message).into())
        }
        _ => {
            attempt.leave();
            let message = "this user was disabled: ask an administrator";
            Err(Error::new(Kind::Forbidden, message).with("user", username).into())
        }
    }
}

/// Who a token belongs to. Use renews the token of a login.
pub(crate) async fn caller_of_token(cloud: &Cloud, token: &str, address: IpAddr) -> Result<Caller> {
    let refuse = |message: &str| Err(Error::new(Kind::Unauthenticated, message));
    let now_ms = now_ms();
    let Some((row, owner)) = store::token(&cloud.database, &digest(token)).await? else {
        return refuse("the token is not known: log in again");
    };
    if row.expires_ms <= now_ms {
        return refuse("the token has expired: log in again");
    }
    if !owner.is_enabled && row.job.is_none() {
        return refuse("this user was disabled: ask an administrator");
    }
    let expires_ms = renew(cloud, &row, now_ms).await?;
    Ok(Caller {
        username: row.username,
        is_admin: owner.is_admin,
        token: row.id,
        expires_ms,
        address,
    })
}

/// Who sent a name and a password with a request.
pub(crate) async fn caller_of_password(
    cloud: &Cloud,
    username: &str,
    password: &str,
    address: IpAddr,
) -> std::result::Result<Caller, Refusal> {
    let row = match authenticate(cloud, username, password, address).await {
        Ok(row) => row,
        Err(refusal) => {
            if !refusal.is_too_fast() {
                cloud.audit(Deed::login(username, address), Err::<(), _>(refusal.error())).await;
            }
            return Err(refusal);
        }
    };
    Ok(Caller {
        username: row.user.username,
        is_admin: row.user.is_admin,
        token: String::new(),
        expires_ms: now_ms(),
        address,
    })
}

/// Makes a token for scripts.
pub(crate) async fn add_token(cloud: &Cloud, username: &str, new: &NewToken) -> Result<Session> {
    if new.label.len() > LABEL_BYTES_MAX || new.label.chars().any(char::is_control) {
        let message = format!("the label is at most {LABEL_BYTES_MAX} bytes, on one line");
        return Err(Error::invalid(message));
    }
    if !(1..=TOKEN_SECONDS_MAX).contains(&new.ttl_seconds) {
        let message = format!("ttl_seconds: use 1 to {TOKEN_SECONDS_MAX}");
        return Err(Error::invalid(message).with("ttl_seconds", new.ttl_seconds));
    }
    let owner = store::user(&cloud.database, username).await?.ok_or_else(|| unknown(username))?;
    grant(cloud, owner, &new.label, new.ttl_seconds.saturating_mul(1000), false).await
}

/// Makes a token by which the files of a job are mounted. It is good until the job has ended,
/// whatever becomes of its user's password and right to log in: whether their jobs go on is decided
/// elsewhere.
pub(crate) async fn add_job_token(cloud: &Cloud, username: &str, job: &str) -> Result<String> {
    let (token, mut row) = new_token(username, &format!("files of job {job}"), JOB_TOKEN_MS)?;
    row.job = Some(job.to_owned());
    let mut write = cloud.database.write().await?;
    store::add_token(&mut write, &row, &digest(&token)).await?;
    write.commit().await?;
    Ok(token)
}

/// Revokes the tokens of a job.
pub(crate) async fn revoke_of_job(cloud: &Cloud, job: &str) -> Result<()> {
    let mut write = cloud.database.write().await?;
    store::revoke_of_job(&mut write, job).await?;
    write.commit().await?;
    cloud.revocations.send_modify(|count| *count += 1);
    Ok(())
}

/// A token that nobody has yet.
fn new_token(username: &str, label: &str, lifetime_ms: u64) -> Result<(String, TokenRow)> {
    let now_ms = now_ms();
    let row = TokenRow {
        id: random::word::<12>()?,
        username: username.to_owned(),
        label: label.to_owned(),
        job: None,
        is_session: false,
        created_ms: now_ms,
        expires_ms: now_ms.saturating_add(lifetime_ms),
        lifetime_ms,
    };
    Ok((random::secret()?, row))
}

/// Makes a token for a user as they were when they were let in. A password that was changed since,
/// or a user who was disabled, has revoked all tokens, and this one would have come after that.
async fn grant(
    cloud: &Cloud,
    owner: UserRow,
    label: &str,
    lifetime_ms: u64,
    is_session: bool,
) -> Result<Session> {
    let (token, mut row) = new_token(&owner.user.username, label, lifetime_ms)?;
    row.is_session = is_session;
    let mut write = cloud.database.write().await?;
    let current = store::user_in(&mut write, &row.username).await?;
    let current = current.filter(|user| user.user.is_enabled && user.password == owner.password);
    let Some(UserRow { user, .. }) = current else {
        let message = "the password was changed or the user disabled meanwhile: log in again";
        return Err(Error::new(Kind::Unauthenticated, message));
    };
    store::sweep_tokens(&mut write, row.created_ms).await?;
    store::add_token(&mut write, &row, &digest(&token)).await?;
    write.commit().await?;
    Ok(Session { token, expires_ms: row.expires_ms, user })
}

/// What is kept of a token: it has 256 random bits, so nothing slower is needed.
fn digest(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The tokens of a user.
pub(crate) async fn tokens(cloud: &Cloud, username: &str) -> Result<Vec<Token>> {
    let rows = store::tokens(&cloud.database, username, now_ms()).await?;
    Ok(rows.into_iter().map(Token::from).collect())
}

/// Revokes a token of a user.
pub(crate) async fn revoke(cloud: &Cloud, username: &str, id: &str) -> Result<()> {
    let mut write = cloud.database.write().await?;
    let was_there = store::revoke(&mut write, username, id).await?;
    write.commit().await?;
    cloud.revocations.send_modify(|count| *count += 1);
    match was_there {
        true => Ok(()),
        false => Err(Error::new(Kind::NotFound, "there is no such token").with("token", id)),
    }
}

/// One user.
pub(crate) async fn user(cloud: &Cloud, username: &str) -> Result<User> {
    store::user(&cloud.database, username)
        .await?
        .map(|row| row.user)
        .ok_or_else(|| unknown(username))
}

/// All users.
pub(crate) async fn users(cloud: &Cloud) -> Result<Vec<User>> {
    Ok(store::users(&cloud.database).await?.into_iter().map(|row| row.user).collect())
}

fn unknown(username: &str) -> Error {
    Error::new(Kind::NotFound, "there is no such user").with("user", username)
}

/// Adds a user, with a user id for their jobs.
pub(crate) async fn add_user(cloud: &Cloud, new: &NewUser) -> Result<AddedUser> {
    check_user(&new.username)?;
    let (chosen, made) = match &new.password {
        Some(chosen) => (chosen.clone(), None),
        None => {
            let made = random::word::<20>()?;
            (made.clone(), Some(made))
        }
    };
    password::check(&chosen)?;
    let password = password::hash(&chosen).await?;
    let mut write = cloud.database.write().await?;
    if store::user_in(&mut write, &new.username).await?.is_some() {
        let message = "there is a user of this name already";
        return Err(Error::new(Kind::AlreadyExists, message).with("user", &new.username));
    }
    let uids = cloud.config.uids;
    let largest = store::largest_uid(&mut write).await?;
    let next = largest.map_or(uids.first.into(), |largest| (largest + 1).max(uids.first.into()));
    let posix_uid = u32::try_from(next).ok().filter(|uid| uid - uids.first < uids.count);
    let posix_uid = posix_uid.ok_or_else(|| {
        let message = "all user ids are given out: raise `uids.count` in the configuration";
        Error::new(Kind::LimitExceeded, message).with("count", uids.count)
    })?;
    let user = User {
        username: new.username.clone(),
        is_admin: new.is_admin,
        is_enabled: true,
        created_ms: now_ms(),
    };
    let row = UserRow { user: user.clone(), password, posix_uid };
    store::put_user(&mut write, &row).await?;
    write.commit().await?;
    Ok(AddedUser { user, password: made })
}

/// Changes a user. A new password, and disabling, revoke all tokens, and what is followed with them
/// ends. Disabling asks to end the user's jobs, too, unless they are to be kept.
pub(crate) async fn change_user(
    cloud: &Cloud,
    caller: &Caller,
    username: &str,
    change: &UserChange,
) -> std::result::Result<User, Refusal> {
    let disables = change.is_enabled == Some(false);
    if change.keeps_jobs && !disables {
        let message = "keeps_jobs: only with is_enabled: false, which would end them";
        return Err(Error::invalid(message).into());
    }
    let is_own = caller.username == username;
    if !is_own || change.is_enabled.is_some() || change.is_admin.is_some() {
        caller.check_admin()?;
    }
    if is_own && change.password.is_some() {
        let old = change.old_password.as_deref().ok_or_else(|| {
            Error::invalid("to change your own password, send the old one as old_password")
        })?;
        authenticate(cloud, username, old, caller.address).await.map_err(|refusal| {
            match refusal.error().kind() {
                // The token is fine, so nobody should log in again for this.
                Kind::Unauthenticated => {
                    Refusal::from(Error::new(Kind::Forbidden, "the old password is wrong"))
                }
                _ => refusal,
            }
        })?;
    }
    let hashed = match &change.password {
        None => None,
        Some(chosen) => {
            password::check(chosen)?;
            Some(password::hash(chosen).await?)
        }
    };
    let mut write = cloud.database.write().await?;
    let mut row = store::user_in(&mut write, username).await?.ok_or_else(|| unknown(username))?;
    let was_admin = row.user.is_admin && row.user.is_enabled;
    let revokes = hashed.is_some() || disables;
    row.password = hashed.unwrap_or(row.password);
    row.user.is_enabled = change.is_enabled.unwrap_or(row.user.is_enabled);
    row.user.is_admin = change.is_admin.unwrap_or(row.user.is_admin);
    store::put_user(&mut write, &row).await?;
    if was_admin && store::admins(&mut write).await? == 0 {
        let message = "this is the last administrator: make another one first";
        return Err(Error::new(Kind::Conflict, message).with("user", username).into());
    }
    if revokes {
        store::revoke_all(&mut write, username).await?;
    }
    let ends_jobs = disables && !change.keeps_jobs;
    if ends_jobs {
        let why = format!("{} disabled its user", caller.username);
        jobs::service::kill_all(cloud, &mut write, username, &why).await?;
    }
    write.commit().await?;
    if revokes {
        cloud.revocations.send_modify(|count| *count += 1);
    }
    if ends_jobs {
        cloud.datacenters.values().for_each(|datacenter| datacenter.wake.notify_one());
    }
    Ok(row.user)
}

/// Whether a caller who was let in may still be answered: their user is enabled, and their token
/// was not revoked. A login that is used by following a log is renewed like by any other call.
pub(crate) async fn is_still_let_in(cloud: &Cloud, caller: &Caller) -> Result<bool> {
    let owner = store::user(&cloud.database, &caller.username).await?;
    let is_enabled = owner.is_some_and(|owner| owner.user.is_enabled);
    if caller.token.is_empty() {
        return Ok(is_enabled);
    }
    let now_ms = now_ms();
    match store::token_of_id(&cloud.database, &caller.token).await? {
        Some(row) if row.expires_ms <= now_ms || !(is_enabled || row.job.is_some()) => Ok(false),
        Some(row) => renew(cloud, &row, now_ms).await.map(|_| true),
        None => Ok(false),
    }
}

/// Moves the end of a login's token, now and then. Returns when it ends.
async fn renew(cloud: &Cloud, row: &TokenRow, now_ms: u64) -> Result<u64> {
    let renewed_ms = now_ms.saturating_add(row.lifetime_ms);
    let is_due = renewed_ms.saturating_sub(row.expires_ms) > row.lifetime_ms / RENEW_PART;
    if !row.is_session || !is_due {
        return Ok(row.expires_ms);
    }
    let mut write = cloud.database.write().await?;
    store::renew(&mut write, &row.id, renewed_ms).await?;
    write.commit().await?;
    Ok(renewed_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A server with the user `wu`.
    async fn cloud(folder: &tempfile::TempDir) -> Arc<Cloud> {
        let cloud = crate::server::empty_cloud(folder.path()).await;
        let password = Some("a password".to_owned());
        let new = NewUser { username: "wu".to_owned(), password, is_admin: false };
        add_user(&cloud, &new).await.unwrap();
        cloud
    }

    #[tokio::test]
    async fn many_guesses_at_once_are_not_more_than_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = cloud(&folder).await;
        let guesses = (0..40).map(|_| authenticate(&cloud, "wu", "a guess", HERE));
        let refusals = futures_util::future::join_all(guesses).await;
        let looked_at = refusals.iter().filter(|refusal| {
            refusal.as_ref().unwrap_err().error().kind() == Kind::Unauthenticated
        });
        assert_eq!(looked_at.count(), 5);
    }

    #[tokio::test]
    async fn who_is_right_many_times_at_once_is_let_in_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = cloud(&folder).await;
        let logins = (0..12).map(|_| authenticate(&cloud, "wu", "a password", HERE));
        assert!(futures_util::future::join_all(logins).await.iter().all(|login| login.is_ok()));
    }

    #[tokio::test]
    async fn a_login_under_way_gets_no_token_when_the_password_changes_or_the_user_is_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = cloud(&folder).await;
        let admin = Caller {
            username: "admin".to_owned(),
            is_admin: true,
            token: String::new(),
            expires_ms: 0,
            address: HERE,
        };
        let changes = [r#"{"password": "another password"}"#, r#"{"is_enabled": false}"#];
        for (password, change) in ["a password", "another password"].into_iter().zip(changes) {
            let Ok(row) = authenticate(&cloud, "wu", password, HERE).await else {
                panic!("{password} is right");
            };
            grant(&cloud, row.clone(), "before", 60_000, true).await.unwrap();
            let change: UserChange = serde_json::from_str(change).unwrap();
            assert!(change_user(&cloud, &admin, "wu", &change).await.is_ok());
            let error = grant(&cloud, row, "after", 60_000, true).await.err().unwrap();
            assert_eq!(error.kind(), Kind::Unauthenticated);
            assert!(tokens(&cloud, "wu").await.unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn the_token_of_a_job_is_good_until_the_job_ends_whatever_becomes_of_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = cloud(&folder).await;
        let token = add_job_token(&cloud, "wu", "job-1").await.unwrap();
        let caller = caller_of_token(&cloud, &token, HERE).await.unwrap();
        assert!(tokens(&cloud, "wu").await.unwrap().is_empty());
        assert!(revoke(&cloud, "wu", &caller.token).await.is_err());
        let admin = Caller { username: "admin".to_owned(), is_admin: true, ..caller.clone() };
        for change in
            [r#"{"password": "another password"}"#, r#"{"is_enabled": false, "keeps_jobs": true}"#]
        {
            let change: UserChange = serde_json::from_str(change).unwrap();
            assert!(change_user(&cloud, &admin, "wu", &change).await.is_ok());
            let caller = caller_of_token(&cloud, &token, HERE).await.unwrap();
            assert!(is_still_let_in(&cloud, &caller).await.unwrap());
        }
        // A job that waited is started after that.
        add_job_token(&cloud, "wu", "job-2").await.unwrap();
        revoke_of_job(&cloud, "job-1").await.unwrap();
        assert!(!is_still_let_in(&cloud, &caller).await.unwrap());
        let error = caller_of_token(&cloud, &token, HERE).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unauthenticated);
    }
}
