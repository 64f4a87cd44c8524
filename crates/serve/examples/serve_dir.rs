//! Serves a folder: `serve_dir DIR ADDRESS [uring|epoll] [CPU,…]`.

use thalweg_serve::{Server, ServerConfig};
use thalweg_sys::DriverChoice;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, address, options @ ..] = arguments.as_slice() else {
        return Err("usage: serve_dir DIR ADDRESS [uring|epoll] [CPU,...]".into());
    };
    let mut config = ServerConfig::new(root, vec![address.parse()?]);
    config.driver = match options.first().map(String::as_str) {
        Some("uring") => DriverChoice::Uring,
        Some("epoll") => DriverChoice::Epoll,
        _ => DriverChoice::Auto,
    };
    if let Some(cores) = options.get(1) {
        config.cores = cores.split(',').map(str::parse).collect::<Result<_, _>>()?;
    }
    Server::start(config)?.join()?;
    Ok(())
}
