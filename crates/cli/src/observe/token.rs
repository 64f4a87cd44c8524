//! The token of an observer, from a file or the environment.

use std::env;
use std::path::Path;

use thalweg_observe::remote::Token;

use crate::exit::Failure;
use crate::secret_file;

/// The variable that holds a token; unlike an option, other users do not see it.
const VARIABLE: &str = "THALWEG_TOKEN";

/// The token in `file`, or else in the environment; `None` if there is neither.
///
/// # Errors
/// The file cannot be read, or what it holds is no token.
pub(super) fn token(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    match (file, env::var(VARIABLE)) {
        (Some(file), _) => {
            secret_file::warn(file);
            Token::read(file).map(Some).map_err(Failure::usage)
        }
        (None, Ok(text)) => Token::new(&text, VARIABLE).map(Some).map_err(Failure::usage),
        (None, Err(_)) => Ok(None),
    }
}
