//! Certificates for tests: an authority, an intermediate one, and what they issue.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm, date_time_ymd,
};

/// A certificate in PEM, and its key.
pub(crate) struct Issued {
    pub(crate) pem: String,
    pub(crate) key: String,
}

/// An authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// How long a certificate is valid.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Present,
    Past,
    Future,
}

impl Authority {
    /// An authority of this name, signed by itself.
    pub(crate) fn root(name: &str) -> Self {
        let (params, key) = authority_params(name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// An authority that this one has signed.
    pub(crate) fn intermediate(&self, name: &str) -> Self {
        let (params, key) = authority_params(name);
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A server's certificate.
    pub(crate) fn server(&self, names: &[&str]) -> Issued {
        self.issue(names, Validity::Present, &PKCS_ECDSA_P256_SHA256, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A server's certificate with a key of another kind.
    pub(crate) fn server_ed25519(&self, names: &[&str]) -> Issued {
        self.issue(names, Validity::Present, &PKCS_ED25519, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A server's certificate of this validity.
    pub(crate) fn server_valid(&self, names: &[&str], validity: Validity) -> Issued {
        self.issue(names, validity, &PKCS_ECDSA_P256_SHA256, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's certificate of this validity.
    pub(crate) fn client(&self, name: &str, validity: Validity) -> Issued {
        self.issue(&[name], validity, &PKCS_ECDSA_P256_SHA256, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        names: &[&str],
        validity: Validity,
        kind: &'static SignatureAlgorithm,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = match validity {
            Validity::Present => (date_time_ymd(2020, 1, 1), date_time_ymd(2090, 1, 1)),
            Validity::Past => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Validity::Future => (date_time_ymd(2080, 1, 1), date_time_ymd(2090, 1, 1)),
        };
        params.distinguished_name.push(DnType::CommonName, "issued");
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate_for(kind).unwrap();
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Issued { pem, key: key.serialize_pem() }
    }
}

fn authority_params(name: &str) -> (CertificateParams, KeyPair) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params, KeyPair::generate().unwrap())
}
