//! Opening a file, near or far, packed or not, as one stream of bytes. The content decides how it is unpacked, not the
//! name.

use super::ahead::ReadAhead;
use super::http::{Remote, is_address};
use super::rate::Rate;
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes of one read from a file or the network.
const BUFFER: usize = 64 << 10;

/// How a stream's bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// Opens a local file or an address: unpacked, held to the rate (of stored bytes), and, from the network, fetched ahead.
pub(super) fn open(path: &str, rate: Option<Arc<Rate>>) -> io::Result<(Packing, Box<dyn Read + Send>)> {
    let stored: Box<dyn Read + Send> = match is_address(path) {
        true => Box::new(ReadAhead::new(Limited { from: Remote::new(path), rate, ahead: true })?),
        false => Box::new(Limited { from: File::open(path)?, rate, ahead: false }),
    };
    unpack(stored)
}

/// Unpacks a stream as its first bytes ask for.
pub(super) fn unpack(stored: impl Read + Send + 'static) -> io::Result<(Packing, Box<dyn Read + Send>)> {
    let mut stored = BufReader::with_capacity(BUFFER, stored);
    let mut start = Vec::new();
    // Four bytes decide, and the first read may give fewer.
    while start.len() < 4 {
        let mut byte = [0];
        match stored.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => start.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let packing = match start[..] {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Packing::Zstd,
        _ => Packing::Plain,
    };
    let stored = BufReader::with_capacity(BUFFER, io::Cursor::new(start).chain(stored));
    Ok((
        packing,
        match packing {
            Packing::Plain => Box::new(stored),
            Packing::Gzip => Box::new(MultiGzDecoder::new(stored)),
            Packing::Zstd => Box::new(Zstd::Between(stored)),
        },
    ))
}

/// A stream of one or more Zstandard frames, one after the other.
enum Zstd<R: BufRead> {
    Between(R),
    Frame(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    Over,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            *self =
                match std::mem::replace(self, Zstd::Over) {
                    Zstd::Over => return Ok(0),
                    Zstd::Between(mut from) => match from.fill_buf()?.is_empty() {
                        true => return Ok(0),
                        false => Zstd::Frame(Box::new(StreamingDecoder::new(from).map_err(|error| {
                            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                        })?)),
                    },
                    Zstd::Frame(mut frame) => match frame.read(into) {
                        Ok(0) if !into.is_empty() => Zstd::Between(frame.into_inner()),
                        read => {
                            *self = Zstd::Frame(frame);
                            return read.map_err(of_its_cause);
                        }
                    },
                }
        }
    }
}

/// The decoder hides an end that came too early inside an error of its own, and whoever keeps what there is of a file
/// that was cut has to tell that from damage.
fn of_its_cause(error: io::Error) -> io::Error {
    let mut cause = error.get_ref().map(|error| error as &dyn std::error::Error);
    while let Some(inner) = cause {
        let kind = inner.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::UnexpectedEof) {
            return io::Error::new(io::ErrorKind::UnexpectedEof, error);
        }
        cause = inner.source();
    }
    error
}

struct Limited<R> {
    from: R,
    rate: Option<Arc<Rate>>,
    /// Whether a thread reads this ahead of whoever uses it.
    ahead: bool,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(BUFFER);
        let n = self.from.read(&mut into[..most])?;
        match &self.rate {
            Some(rate) if self.ahead => rate.wait_ahead(n as u64),
            Some(rate) => {
                rate.wait(n as u64, &AtomicBool::new(false));
            }
            None => {}
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn check(stored: Vec<u8>, packing: Packing, expect: &[u8]) {
        let (found, mut stream) = unpack(io::Cursor::new(stored)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!((found, &all[..]), (packing, expect));
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(data: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn content_decides() {
        let text = b"text ".repeat(1000);
        check(text.clone(), Packing::Plain, &text);
        check(gzip(&text), Packing::Gzip, &text);
        check(zstd(&text), Packing::Zstd, &text);
        for short in [&b""[..], b"a", b"\x1f", b"abc"] {
            check(short.to_vec(), Packing::Plain, short);
        }
    }

    /// Files put together from several packed pieces are one stream.
    #[test]
    fn several_pieces() {
        check([gzip(b"one "), gzip(b"two")].concat(), Packing::Gzip, b"one two");
        check([zstd(b"one "), zstd(b"two")].concat(), Packing::Zstd, b"one two");
    }

    #[test]
    fn cut_streams_are_errors() {
        let data: Vec<u8> =
            (0..50_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for stored in [gzip(&data), zstd(&data)] {
            let half = stored[..stored.len() / 2].to_vec();
            let (_, mut stream) = unpack(io::Cursor::new(half)).unwrap();
            assert!(stream.read_to_end(&mut Vec::new()).is_err());
        }
    }
}
