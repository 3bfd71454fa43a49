//! Logs of the process node, as the API server requests them from a node.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// File of each pod's log, and whether the pod has ended.
pub(crate) type Logs = Arc<Mutex<BTreeMap<String, (PathBuf, bool)>>>;

/// HTTPS server for `/containerLogs/NAMESPACE/POD/CONTAINER`.
pub(crate) struct LogServer {
    pub(crate) port: u16,
}

impl LogServer {
    /// Starts the server with the certificate of the API server.
    pub(crate) fn start(certificates: &Path, logs: Logs) -> Self {
        let file = |name: &str| certificates.join(name);
        let chain = CertificateDer::pem_file_iter(file("apiserver.crt")).unwrap();
        let chain = chain.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(file("apiserver.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (config, logs) = (Arc::clone(&config), Arc::clone(&logs));
                let socket = socket.unwrap();
                // Fails if the client closes the connection.
                thread::spawn(move || serve(socket, config, &logs).unwrap_or_default());
            }
        });
        Self { port }
    }
}

fn serve(socket: TcpStream, config: Arc<ServerConfig>, logs: &Logs) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, socket));
    let mut request = String::new();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        request.push_str(&line);
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let pod = path.split('/').nth(3).unwrap_or_default();
    let follow = path.contains("follow=true");
    let output = stream.get_mut();
    let Some((file, _)) = logs.lock().unwrap().get(pod).cloned() else {
        return output.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    };
    output
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")?;
    let mut file = fs::File::open(file)?;
    loop {
        // Before the read, so that nothing is written after the last one.
        let has_ended = logs
            .lock()
            .unwrap()
            .get(pod)
            .is_none_or(|(_, ended)| *ended);
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        output.write_all(&text)?;
        output.flush()?;
        if has_ended || !follow {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    output.conn.send_close_notify();
    output.flush()
}
