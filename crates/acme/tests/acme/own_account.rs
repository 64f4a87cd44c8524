//! Requests of the tests' own, with the client's account.

use std::fs;
use std::pin::Pin;

use bytes::Bytes;
use http_body_util::BodyExt;
use instant_acme::{Account, BodyWrapper, BytesResponse, Error, HttpClient, Problem};
use ureq::http::Request;

use crate::scene::Scene;

/// The account of a state directory.
pub(crate) fn own_account(scene: &Scene) -> Account {
    let stored = fs::read(scene.state().join("account.json")).expect("there is an account");
    let mut stored: serde_json::Value = serde_json::from_slice(&stored).expect("it is in JSON");
    let credentials = serde_json::from_value(stored["credentials"].take()).expect("it has credentials");
    let builder = Account::builder_with_http(Box::new(Agent(scene.agent())));
    pollster::block_on(builder.from_credentials(credentials)).expect("the authority answers")
}

/// The kind of an error: the last part of its URN.
pub(crate) fn kind(problem: &Problem) -> &str {
    problem.r#type.as_deref().and_then(|urn| urn.rsplit(':').next()).unwrap_or_default()
}

struct Agent(ureq::Agent);

impl HttpClient for Agent {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let agent = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let body = body.to_bytes().to_vec();
            let request = Request::from_parts(parts, ());
            let answer = if body.is_empty() { agent.run(request) } else { agent.run(request.map(|()| body)) };
            let (parts, mut body) = answer.expect("the authority answers").into_parts();
            let body = body.read_to_vec().expect("the authority answers");
            Ok(BytesResponse { parts, body: Box::new(Bytes::from(body)) })
        })
    }
}
