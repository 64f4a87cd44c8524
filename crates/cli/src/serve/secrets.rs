//! The files with secrets that a server reads: tokens, credentials and private keys.

use std::collections::BTreeSet;
use std::path::PathBuf;

use thalweg_acme::Client;

use super::{acme, purging};
use crate::configuration::Configuration;
use crate::secret_file;

/// The warnings about those of them that all users of this host can read.
pub(super) fn warnings(configuration: &Configuration) -> Vec<String> {
    files(configuration).iter().filter_map(|path| secret_file::warning(path)).collect()
}

fn files(configuration: &Configuration) -> BTreeSet<PathBuf> {
    let config = &configuration.server;
    let credentials = config.origins.iter().filter_map(|origin| origin.s3.as_ref()?.credentials.clone());
    let fields = config.origins.iter().flat_map(|origin| &origin.request_headers.files);
    let fields = fields.map(|(_, path)| path.clone());
    let tokens = [purging::token_file(config), purging::read_token_file(config)].into_iter().flatten();
    let tokens = tokens.map(Into::into).chain(configuration.cluster.as_ref().map(|cluster| cluster.token.clone()));
    let keys = config.tls.iter().flat_map(|tls| &tls.certificates).map(|files| files.key.clone());
    let acme = acme::settings(configuration).into_iter().flat_map(|settings| Client::secret_files(&settings.state));
    credentials.chain(fields).chain(tokens).chain(keys).chain(acme).collect()
}

#[cfg(test)]
mod tests {
    use thalweg_serve::{CertificateFiles, ServerConfig, StatusConfig, TlsConfig};

    use super::*;
    use crate::configuration::ClusterConfig;

    #[test]
    fn all_files_with_secrets_are_looked_at() {
        let mut server = ServerConfig::new("/srv", Vec::<std::net::SocketAddr>::new());
        let [purge_token, read_token] = ["/purge", "/read"].map(|path| Some(path.into()));
        server.status =
            Some(StatusConfig { purge_token, read_token, ..StatusConfig::new(([127, 0, 0, 1], 9180).into()) });
        let certificate = CertificateFiles { chain: "/chain".into(), key: "/key".into() };
        server.tls = Some(TlsConfig { certificates: vec![certificate], auto: true, ..TlsConfig::default() });
        server.tls.as_mut().unwrap().acme.state = Some("/acme".into());
        let cluster = Some(ClusterConfig { token: "/cluster".into(), ..ClusterConfig::default() });
        let configuration = Configuration { server, cluster, ..Configuration::default() };
        let found: Vec<String> = files(&configuration).iter().map(|path| path.display().to_string()).collect();
        let of_acme = ["/acme/account.json", "/acme/certificate.pem", "/acme/order.json"];
        assert_eq!(found, [&of_acme[..], &["/cluster", "/key", "/purge", "/read"]].concat());
    }
}
