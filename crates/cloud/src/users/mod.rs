//! Users, logins and tokens: the calls. Rules are in [`service`], rows in [`store`].

pub(crate) mod admin;
pub(crate) mod password;
pub(crate) mod service;
pub(crate) mod store;
pub(crate) mod throttle;

use crate::Cloud;
use crate::audit::Deed;
use crate::http::{Address, Admin, Answer, Body, Caller, Parts, Refusal};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use contract::api::user::{
    AddedUser, Login, NewToken, NewUser, Session, Token, User, UserChange, Whoami,
};
use std::sync::Arc;

/// A name and a password for a token.
pub(crate) async fn login(
    State(cloud): State<Arc<Cloud>>,
    Address(address): Address,
    Body(login): Body<Login>,
) -> Answer<Json<Session>> {
    let session = service::login(&cloud, &login.username, &login.password, address).await;
    let outcome = session.as_ref().map_err(|refusal| refusal.error());
    // Nobody looked at the password of one that came too early, and who sends thousands of them
    // must neither hold up other changes nor push other entries out of the log.
    if !session.as_ref().is_err_and(Refusal::is_too_fast) {
        cloud.audit(Deed::login(&login.username, address), outcome).await;
    }
    session.map(Json)
}

/// Revokes the token of the caller.
pub(crate) async fn logout(State(cloud): State<Arc<Cloud>>, caller: Caller) -> Answer<StatusCode> {
    let revoked = service::revoke(&cloud, &caller.username, &caller.token).await;
    cloud.audit(Deed::of(&caller, "logout", ""), revoked.as_ref()).await;
    revoked?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whose token it is.
pub(crate) async fn whoami(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
) -> Answer<Json<Whoami>> {
    let user = service::user(&cloud, &caller.username).await?;
    Ok(Json(Whoami {
        user,
        expires_ms: caller.expires_ms,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
    }))
}

/// Makes a token for scripts.
pub(crate) async fn add_token(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(new): Body<NewToken>,
) -> Answer<(StatusCode, Json<Session>)> {
    let session = service::add_token(&cloud, &caller.username, &new).await;
    cloud.audit(Deed::of(&caller, "token.add", &new.label), session.as_ref()).await;
    Ok((StatusCode::CREATED, Json(session?)))
}

/// The caller's tokens.
pub(crate) async fn list_tokens(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
) -> Answer<Json<Vec<Token>>> {
    Ok(Json(service::tokens(&cloud, &caller.username).await?))
}

/// Revokes one of the caller's tokens.
pub(crate) async fn revoke_token(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(token): Parts<String>,
) -> Answer<StatusCode> {
    let revoked = service::revoke(&cloud, &caller.username, &token).await;
    cloud.audit(Deed::of(&caller, "token.revoke", &token), revoked.as_ref()).await;
    revoked?;
    Ok(StatusCode::NO_CONTENT)
}

/// Adds a user.
pub(crate) async fn add_user(
    State(cloud): State<Arc<Cloud>>,
    Admin(caller): Admin,
    Body(new): Body<NewUser>,
) -> Answer<(StatusCode, Json<AddedUser>)> {
    let added = service::add_user(&cloud, &new).await;
    cloud.audit(Deed::of(&caller, "user.add", &new.username), added.as_ref()).await;
    Ok((StatusCode::CREATED, Json(added?)))
}

/// All users.
pub(crate) async fn list_users(
    State(cloud): State<Arc<Cloud>>,
    Admin(_): Admin,
) -> Answer<Json<Vec<User>>> {
    Ok(Json(service::users(&cloud).await?))
}

/// Changes a user: an administrator everybody, others their own password.
pub(crate) async fn change_user(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(username): Parts<String>,
    Body(change): Body<UserChange>,
) -> Answer<Json<User>> {
    let changed = service::change_user(&cloud, &caller, &username, &change).await;
    let outcome = changed.as_ref().map_err(|refusal| refusal.error());
    cloud.audit(Deed::of(&caller, "user.change", &username), outcome).await;
    changed.map(Json)
}
