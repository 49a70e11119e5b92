//! Files at http and https addresses, read from front to back. A connection that breaks is taken up again where it
//! broke, as long as the file is the same.

use std::io::{self, Read};
use std::time::Duration;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};

/// Attempts without a byte between them, before the error is given on.
const ATTEMPTS: u32 = 5;
/// The wait before the second attempt; doubled for each one after.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// A server that is silent for so long counts as a broken connection.
const SILENCE: Duration = Duration::from_secs(20);

/// Whether a path is an address.
pub(crate) fn is_address(path: &str) -> bool {
    path.starts_with("http://") || path.starts_with("https://")
}

/// A file at an address.
pub(super) struct Remote {
    agent: Agent,
    address: String,
    at: u64,
    /// The file's length and version, once known.
    total: Option<u64>,
    tag: Option<String>,
    body: Option<Box<dyn Read + Send + Sync>>,
    failures: u32,
}

impl Remote {
    /// The file; connected to with the first read.
    pub(super) fn new(address: &str) -> Remote {
        Remote::trusting(address, RootCerts::WebPki)
    }

    /// The same with a server that may be vouched for by others than the public authorities.
    fn trusting(address: &str, roots: RootCerts) -> Remote {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Remote {
            agent: Agent::new_with_config(config),
            address: address.to_string(),
            at: 0,
            total: None,
            tag: None,
            body: None,
            failures: 0,
        }
    }

    /// Connects where reading has to go on.
    fn connect(&mut self) -> Result<Box<dyn Read + Send + Sync>, Failure> {
        let mut request = self.agent.get(&self.address);
        if self.at > 0 {
            request = request.header("Range", format!("bytes={}-", self.at));
            if let Some(tag) = &self.tag {
                request = request.header("If-Range", tag);
            }
        }
        let response = request.call().map_err(|error| match distrust(&error) {
            Some(why) => Failure::Never(io::Error::new(io::ErrorKind::InvalidData, why)),
            None => Failure::Later(io::Error::other(error)),
        })?;
        let status = response.status().as_u16();
        let skip = match status {
            206 => 0,
            200 => self.at,
            404 | 410 => {
                return Err(Failure::Never(io::Error::new(io::ErrorKind::NotFound, "no such file (404)")));
            }
            408 | 425 | 429 | 500..=599 => {
                return Err(Failure::Later(io::Error::other(format!("the server answered {status}"))));
            }
            _ => return Err(Failure::Never(io::Error::other(format!("the server answered {status}")))),
        };
        let total = total_of(&response, status);
        let tag = header(&response, "etag").filter(|tag| !tag.starts_with("W/"));
        let same_length = self.total.is_none() || total.is_none() || self.total == total;
        let same_tag = self.tag.is_none() || tag.is_none() || self.tag == tag;
        if !(same_length && same_tag) {
            return Err(Failure::Never(io::Error::other("the file was replaced while it was read")));
        }
        (self.total, self.tag) = (self.total.or(total), self.tag.take().or(tag));
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        // A server that knows no ranges sends everything again.
        let skipped = io::copy(&mut (&mut body).take(skip), &mut io::sink()).map_err(Failure::Later)?;
        match skipped == skip {
            true => Ok(Box::new(body)),
            false => Err(Failure::Later(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Counts a failure, and waits before the next attempt if there is one left.
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        self.body = None;
        self.failures += 1;
        if self.failures >= ATTEMPTS {
            let text = format!("{error}, {ATTEMPTS} times in a row at byte {}", self.at);
            return Err(io::Error::new(error.kind(), text));
        }
        std::thread::sleep(FIRST_WAIT * (1 << (self.failures - 1)));
        Ok(())
    }
}

/// What is wrong with a server's certificate, where that is why there is no connection: asking again would not help.
fn distrust(error: &ureq::Error) -> Option<String> {
    let text = error.to_string();
    text.contains("certificate").then(|| {
        format!(
            "{text}: https is for servers that a public authority vouches for; serve the files by http, or behind a \
             certificate of such an authority"
        )
    })
}

/// Whether another attempt may help.
enum Failure {
    Later(io::Error),
    Never(io::Error),
}

fn header<T>(response: &Response<T>, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_string())
}

/// The length of the whole file, if the server says it.
fn total_of<T>(response: &Response<T>, status: u16) -> Option<u64> {
    match status {
        206 => header(response, "content-range")?.rsplit_once('/')?.1.parse().ok(),
        _ => header(response, "content-length")?.parse().ok(),
    }
}

impl Read for Remote {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.total == Some(self.at) || into.is_empty() {
                return Ok(0);
            }
            let body = match &mut self.body {
                Some(body) => body,
                None => match self.connect() {
                    Ok(body) => self.body.insert(body),
                    Err(Failure::Never(error)) => return Err(error),
                    Err(Failure::Later(error)) => {
                        self.fail(error)?;
                        continue;
                    }
                },
            };
            match body.read(into) {
                Ok(0) if self.total.is_none() => return Ok(0),
                Ok(0) => self.fail(io::ErrorKind::UnexpectedEof.into())?,
                Ok(n) => {
                    self.failures = 0;
                    self.at += n as u64;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fail(error)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::{CERTIFICATE, Server, serve, serve_tls};
    use super::*;
    use ureq::tls::Certificate;

    fn data() -> Vec<u8> {
        (0..100_000usize).map(|i| (i * 31 % 251) as u8).collect()
    }

    fn read(server: &Server, name: &str) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        let result = Remote::new(&server.address(name)).read_to_end(&mut all);
        result.map(|_| all).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_arrives_whole() {
        let server = serve([("a", data())], |_| ());
        assert!(read(&server, "a").unwrap() == data());
        assert_eq!(read(&server, "b").unwrap_err(), "no such file (404)");
        assert_eq!(server.requests(), 2);
    }

    #[test]
    fn broken_connections_are_taken_up_where_they_broke() {
        for ranges in [true, false] {
            let server = serve([("a", data())], |server| {
                server.break_after = 30_000;
                server.ranges = ranges;
            });
            let result = read(&server, "a");
            match ranges {
                true => assert!(result.unwrap() == data()),
                // Without ranges every connection breaks at the same place.
                false => assert!(result.unwrap_err().contains("5 times in a row at byte 30000")),
            }
            assert!(server.requests() > 3);
        }
    }

    #[test]
    fn busy_servers_are_asked_again() {
        let server = serve([("a", data())], |server| server.busy = 3);
        assert!(read(&server, "a").unwrap() == data());
        assert_eq!(server.requests(), 4);
        let server = serve([("a", data())], |server| server.busy = 100);
        let error = read(&server, "a").unwrap_err();
        assert!(error.contains("503") && error.contains("5 times"), "{error}");
    }

    #[test]
    fn https_with_a_certificate_that_is_trusted() {
        let server = serve_tls([("a", data())], |server| server.break_after = 40_000);
        let roots = RootCerts::new_with_certs(&[Certificate::from_der(CERTIFICATE)]);
        let mut all = Vec::new();
        Remote::trusting(&server.address("a"), roots).read_to_end(&mut all).unwrap();
        assert!(all == data() && server.requests() == 3, "{} requests", server.requests());
    }

    #[test]
    fn a_self_signed_certificate_is_an_error_at_once() {
        let server = serve_tls([("a", data())], |_| ());
        let error = read(&server, "a").unwrap_err();
        assert!(error.contains("certificate: UnknownIssuer") && error.contains("by http"), "{error}");
        assert_eq!((server.requests(), error.contains("5 times")), (0, false));
    }

    #[test]
    fn nobody_there() {
        let mut remote = Remote::new("http://127.0.0.1:9/a");
        assert!(remote.read(&mut [0; 9]).unwrap_err().to_string().contains("5 times in a row at byte 0"));
    }
}
