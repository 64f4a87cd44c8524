//! Servers behind sockets: TLS with an authority of its own, the protocols that it chooses, refused
//! connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request as Message, Response as Answer};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::server::get;
use crate::config::{GroupConfig, OriginConfig, OriginKind, Protocol, Trust};
use crate::group::OriginGroup;

async fn answer(message: Message<Incoming>) -> Result<Answer<Full<Bytes>>, Infallible> {
    Ok(Answer::new(Full::from(format!("{:?} {}", message.version(), message.uri().path()))))
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, is_http2: bool) {
    let (io, service) = (TokioIo::new(stream), service_fn(answer));
    let _ = if is_http2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
    } else {
        http1::Builder::new().serve_connection(io, service).await
    };
}

/// A server over TLS with these protocols, and the authority of its certificate in PEM.
async fn secure(names: &[&str], alpn: &[&str]) -> (SocketAddr, Vec<u8>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority of a test");
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::from_params(&params, &authority_key);
    let key = KeyPair::generate().unwrap();
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(socket).await {
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    serve(stream, is_http2).await;
                }
            });
        }
    });
    (address, authority.pem().into_bytes())
}

fn group(url: String, trust: Trust, protocol: Protocol) -> OriginGroup {
    let kind = OriginKind::Http { base: url.parse().unwrap() };
    let config = OriginConfig { trust, protocol, ..OriginConfig::new("a", kind) };
    OriginGroup::new(vec![config], GroupConfig::default()).unwrap()
}

#[tokio::test]
async fn the_server_chooses_the_protocol() {
    for (alpn, protocol, expected) in [
        (&["h2", "http/1.1"][..], Protocol::Auto, "200 HTTP/2.0 /a"),
        (&["http/1.1"], Protocol::Auto, "200 HTTP/1.1 /a"),
        (&[], Protocol::Auto, "200 HTTP/1.1 /a"),
        (&["h2", "http/1.1"], Protocol::Http1, "200 HTTP/1.1 /a"),
        (&["h2", "http/1.1"], Protocol::Http2, "200 HTTP/2.0 /a"),
        (&["http/1.1"], Protocol::Http2, "a:tls"),
    ] {
        let (address, authority) = secure(&["127.0.0.1"], alpn).await;
        let group = group(format!("https://{address}"), Trust::Pem(authority), protocol);
        assert_eq!(get(&group, "/a").await, expected, "{alpn:?} {protocol:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_refused_with_its_reason() {
    let (_, other_authority) = secure(&["127.0.0.1"], &[]).await;
    for (names, trusts_other, expected) in
        [(&["127.0.0.1"], true, "the TLS handshake failed: "), (&["other.example"], false, "other names")]
    {
        let (address, authority) = secure(names, &[]).await;
        let trust = Trust::Pem(if trusts_other { other_authority.clone() } else { authority });
        let group_of = |trust| group(format!("https://{address}"), trust, Protocol::Auto);
        let error = group_of(trust).fetch(&crate::Request::get("/")).await.unwrap_err();
        assert_eq!(error.kind(), crate::FailureKind::Tls);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(get(&group_of(Trust::Insecure), "/").await, "200 HTTP/1.1 /");
    }
}

#[tokio::test]
async fn http2_is_spoken_with_prior_knowledge() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, true));
        }
    });
    let group = group(format!("http://{address}/base"), Trust::System, Protocol::Http2);
    assert_eq!(get(&group, "/a").await, "200 HTTP/2.0 /base/a");
    assert_eq!(get(&group, "/b").await, "200 HTTP/2.0 /base/b");
    assert_eq!(group.statistics()[0].connections_opened, 1);
}

#[tokio::test]
async fn a_port_on_which_nobody_listens_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let group = group(format!("http://{address}"), Trust::System, Protocol::Auto);
    let error = group.fetch(&crate::Request::get("/")).await.unwrap_err();
    assert_eq!(error.kind(), crate::FailureKind::Refused);
    assert!(error.to_string().ends_with(&format!("{address}: connection refused")), "{error}");
}

#[test]
fn settings_that_make_no_origin_are_refused() {
    let http = |url: &str| OriginConfig::new("a", OriginKind::Http { base: url.parse().unwrap() });
    let check = |origins: Vec<OriginConfig>, expected: &str| {
        let error = OriginGroup::new(origins, GroupConfig::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(vec![], "at least one");
    check(vec![http("ftp://a/")], "use http or https");
    check(vec![http("http://a"), http("http://b")], "another origin of the group has this name");
    check(vec![OriginConfig { weight: 0, ..http("http://a") }], "weight is 0");
    check(vec![OriginConfig { host: Some("a b".into()), ..http("http://a") }], "Host field");
    check(vec![OriginConfig { fields: vec![("Host".into(), "x".into())], ..http("http://a") }], "cannot be added");
    check(vec![OriginConfig::new("t", OriginKind::Tree { root: "/nowhere/at/all".into() })], "/nowhere/at/all");
    let nonsense = Trust::Pem(b"nonsense".to_vec());
    check(vec![OriginConfig { trust: nonsense, ..http("https://a") }], "origin a: ");
}
