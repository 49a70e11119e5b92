//! Reading ahead: a thread fetches the next pieces of a stream while the last ones are being used.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes of one piece, and how many pieces wait at most: 4 MiB a stream.
const PIECE: usize = 256 << 10;
const PIECES: usize = 16;

/// A stream whose next pieces are fetched by a thread. Dropping it ends the thread as soon as the read that it is in
/// returns.
#[derive(Debug)]
pub(super) struct ReadAhead {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    used: usize,
    ended: bool,
}

impl ReadAhead {
    /// Starts fetching.
    pub(super) fn new(from: impl Read + Send + 'static) -> io::Result<ReadAhead> {
        let (sender, pieces) = sync_channel(PIECES);
        std::thread::Builder::new().name("read ahead".into()).spawn(move || fetch(from, &sender))?;
        Ok(ReadAhead { pieces, piece: Vec::new(), used: 0, ended: false })
    }
}

fn fetch(mut from: impl Read, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let result = (&mut from).take(PIECE as u64).read_to_end(&mut piece);
        let last = result.is_err() || piece.is_empty();
        // What came before an error is good.
        if !piece.is_empty() && to.send(Ok(piece)).is_err() {
            return;
        }
        if let Err(error) = result {
            // Nobody there to take it is as good an end.
            let _ = to.send(Err(error));
        }
        if last {
            return;
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.piece.len() && !self.ended {
            match self.pieces.recv() {
                Ok(Ok(piece)) => (self.piece, self.used) = (piece, 0),
                Ok(Err(error)) => {
                    self.ended = true;
                    return Err(error);
                }
                Err(_) => self.ended = true,
            }
        }
        let n = into.len().min(self.piece.len() - self.used);
        into[..n].copy_from_slice(&self.piece[self.used..][..n]);
        self.used += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("line is dead"));
            }
            let n = self.0.min(into.len()).min(1000);
            into[..n].fill(7);
            self.0 -= n;
            Ok(n)
        }
    }

    #[test]
    fn everything_arrives_and_then_the_end() {
        let data: Vec<u8> = (0..3 * PIECE + 17).map(|i| (i * 31 % 251) as u8).collect();
        let mut read = Vec::new();
        ReadAhead::new(io::Cursor::new(data.clone())).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == data);
    }

    #[test]
    fn an_error_comes_after_what_was_read_before_it() {
        let mut ahead = ReadAhead::new(Failing(PIECE + 10)).unwrap();
        let mut read = Vec::new();
        let error = ahead.read_to_end(&mut read).unwrap_err();
        assert_eq!((read.len(), error.to_string()), (PIECE + 10, "line is dead".to_string()));
        assert_eq!(ahead.read(&mut [0; 10]).unwrap(), 0);
    }

    #[test]
    fn dropping_it_ends_the_thread() {
        let (alive, ended) = std::sync::mpsc::channel::<()>();
        struct Endless(#[allow(dead_code)] std::sync::mpsc::Sender<()>);
        impl Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                Ok(into.len())
            }
        }
        drop(ReadAhead::new(Endless(alive)).unwrap());
        let gone = ended.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(gone, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
}
