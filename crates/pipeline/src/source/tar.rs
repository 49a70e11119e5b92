//! Tar archives read from front to back: ustar, GNU and PAX. Names of any length, sizes over 8 GiB, links; anything
//! that contradicts the format is an error with its offset.

use std::collections::BTreeMap;
use std::io::{self, Read};

const BLOCK: usize = 512;
/// Most bytes of a long name or a PAX header: far above what any system allows.
const MOST_NAME: u64 = 1 << 20;

/// One member's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The path, without `./` or `/` in front.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Bytes of content.
    pub(crate) size: u64,
    /// Where its header begins.
    pub(crate) offset: u64,
    /// Where its content begins.
    pub(crate) data: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    /// The same content as the member of this name.
    Hard(String),
    /// The content of the member of this path, seen from the link's folder.
    Symbolic(String),
    /// Devices, pipes and what else has no content.
    Other,
}

/// Why an archive cannot be read on.
#[derive(Debug)]
pub(crate) enum TarError {
    /// What it was read from failed.
    Io(u64, io::Error),
    /// It ends before it should.
    Cut {
        /// Where it ends.
        offset: u64,
        expected: String,
    },
    /// It contradicts the format.
    Malformed { offset: u64, expected: String, found: String },
}

/// The members of an archive, in order.
pub(crate) struct Members<R> {
    from: R,
    at: u64,
    /// Where the next header begins.
    next: u64,
    global: BTreeMap<String, String>,
}

impl<R: Read> Members<R> {
    pub(crate) fn new(from: R) -> Members<R> {
        Members { from, at: 0, next: 0, global: BTreeMap::new() }
    }

    /// The next member; none at the end-of-archive mark.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, TarError> {
        let mut long_name = None;
        let mut long_link = None;
        let mut local = BTreeMap::new();
        loop {
            self.skip_to(self.next)?;
            let offset = self.at;
            let mut header = [0; BLOCK];
            self.fill(&mut header, || "a member or the end-of-archive mark, 1,024 zero bytes".into())?;
            if header.iter().all(|&byte| byte == 0) {
                return Ok(None);
            }
            check_sum(&header, offset)?;
            let kind = header[156];
            let size = number(&header[124..136], offset + 124)?;
            if matches!(kind, b'L' | b'K' | b'x' | b'g') {
                if size > MOST_NAME {
                    return Err(malformed(offset + 124, "a name of at most 1 MiB", format!("{size} bytes")));
                }
                let mut body = vec![0; size as usize];
                self.fill(&mut body, || format!("{size} bytes of a name"))?;
                self.next = offset + BLOCK as u64 + padded(size);
                match kind {
                    b'L' => long_name = Some(text(&body)),
                    b'K' => long_link = Some(text(&body)),
                    b'x' => local.extend(records(&body, offset + BLOCK as u64)?),
                    _ => self.global.extend(records(&body, offset + BLOCK as u64)?),
                }
                continue;
            }
            let said = |key: &str| local.get(key).or_else(|| self.global.get(key)).cloned();
            if said("GNU.sparse.major").is_some() || said("GNU.sparse.size").is_some() || kind == b'S' {
                let found = "one with holes left out (sparse)".into();
                return Err(malformed(offset, "a member stored whole", found));
            }
            let size = match said("size") {
                None => size,
                Some(said) => said
                    .parse()
                    .map_err(|_| malformed(offset, "a size in the PAX header", format!("\"{said}\"")))?,
            };
            let name = said("path").or(long_name).unwrap_or_else(|| ustar_name(&header));
            let link = || said("linkpath").or(long_link.clone()).unwrap_or_else(|| text(&header[157..257]));
            let kind = match kind {
                // Before ustar, a folder was a file whose name ends in a slash.
                b'0' | 0 | b'7' if name.ends_with('/') => Kind::Folder,
                b'0' | 0 | b'7' => Kind::File,
                b'1' => Kind::Hard(plain(&link()).to_string()),
                b'2' => Kind::Symbolic(link()),
                b'5' => Kind::Folder,
                _ => Kind::Other,
            };
            // A hard link may repeat the size of its target, without the content. What kinds to come mean by their
            // size nobody knows, but POSIX asks to take them for files.
            let stored = match kind {
                Kind::File => size,
                Kind::Other if !matches!(header[156], b'3' | b'4' | b'6') => size,
                _ => 0,
            };
            let data = offset + BLOCK as u64;
            let Some(next) = padded(stored).checked_add(data).filter(|_| stored <= i64::MAX as u64) else {
                return Err(malformed(offset, "a size below 2^63", stored.to_string()));
            };
            self.next = next;
            return Ok(Some(Member { name: plain(&name).to_string(), kind, size: stored, offset, data }));
        }
    }

    /// Reads the content of the member that came last, whole.
    pub(crate) fn content(&mut self, member: &Member, into: &mut Vec<u8>) -> Result<(), TarError> {
        self.skip_to(member.data)?;
        into.clear();
        let read = (&mut self.from).take(member.size).read_to_end(into);
        self.at += into.len() as u64;
        let read = read.map_err(|error| TarError::Io(self.at, error))?;
        if (read as u64) < member.size {
            return Err(self.cut(format!("{} bytes of {}", member.size, member.name)));
        }
        Ok(())
    }

    /// Reads what follows the end-of-archive mark and throws it away: packed data show only at their end whether they
    /// are whole.
    pub(crate) fn finish(&mut self) -> Result<(), TarError> {
        io::copy(&mut self.from, &mut io::sink()).map(|_| ()).map_err(|error| TarError::Io(self.at, error))
    }

    /// Passes over what lies before `to`.
    fn skip_to(&mut self, to: u64) -> Result<(), TarError> {
        let gap = to.saturating_sub(self.at);
        let skipped = io::copy(&mut (&mut self.from).take(gap), &mut io::sink());
        let skipped = skipped.map_err(|error| TarError::Io(self.at, error))?;
        self.at += skipped;
        if skipped < gap {
            return Err(self.cut(format!("content up to byte {to}")));
        }
        Ok(())
    }

    fn fill(&mut self, into: &mut [u8], expected: impl Fn() -> String) -> Result<(), TarError> {
        let mut done = 0;
        while done < into.len() {
            match self.from.read(&mut into[done..]) {
                Ok(0) => return Err(self.cut(expected())),
                Ok(n) => {
                    done += n;
                    self.at += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TarError::Io(self.at, error)),
            }
        }
        Ok(())
    }

    fn cut(&self, expected: String) -> TarError {
        TarError::Cut { offset: self.at, expected }
    }
}

fn malformed(offset: u64, expected: &str, found: String) -> TarError {
    TarError::Malformed { offset, expected: expected.to_string(), found }
}

fn padded(size: u64) -> u64 {
    size.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64)
}

/// The text before the first zero byte. Names in another encoding than UTF-8 keep what can be read.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn plain(name: &str) -> &str {
    let mut name = name;
    while let Some(rest) = name.strip_prefix("./").or(name.strip_prefix('/')) {
        name = rest;
    }
    name
}

fn ustar_name(header: &[u8; BLOCK]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    // GNU's own form ends its magic with spaces, and has other things where ustar has the prefix.
    let ustar = &header[257..263] == b"ustar\0";
    if ustar && !prefix.is_empty() { format!("{prefix}/{name}") } else { name }
}

/// Octal digits, or base 256 where the first bit is set.
fn number(field: &[u8], offset: u64) -> Result<u64, TarError> {
    let wrong = || malformed(offset, "a number", format!("{:?}", String::from_utf8_lossy(field)));
    if field[0] & 0x80 != 0 {
        let (first, rest) = (u64::from(field[0] & 0x7f), &field[1..]);
        let mut digits = std::iter::once(first).chain(rest.iter().map(|&byte| u64::from(byte)));
        let number = digits.try_fold(0u64, |sum, byte| sum.checked_mul(256).map(|sum| sum + byte));
        return number.ok_or_else(wrong);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | 0);
    let digits: Vec<u8> =
        field.iter().copied().skip_while(is_space).take_while(|byte| !is_space(byte)).collect();
    let octal = |sum: Option<u64>, &byte: &u8| match byte {
        b'0'..=b'7' => sum?.checked_mul(8).map(|sum| sum + u64::from(byte - b'0')),
        _ => None,
    };
    digits.iter().fold(Some(0), octal).ok_or_else(wrong)
}

fn check_sum(header: &[u8; BLOCK], offset: u64) -> Result<(), TarError> {
    let said = number(&header[148..156], offset + 148);
    let field = 148..156;
    let bytes = || header.iter().enumerate().map(|(i, &byte)| if field.contains(&i) { b' ' } else { byte });
    let unsigned: u64 = bytes().map(u64::from).sum();
    // Some old programs summed signed bytes.
    let signed: i64 = bytes().map(|byte| i64::from(byte as i8)).sum();
    match said {
        Ok(said) if said == unsigned || i64::try_from(said) == Ok(signed) => Ok(()),
        _ => Err(malformed(offset, "a tar header with the sum of its bytes", "other bytes".into())),
    }
}

/// The records of a PAX header: `LENGTH KEY=VALUE\n`, the length counting itself.
fn records(body: &[u8], offset: u64) -> Result<BTreeMap<String, String>, TarError> {
    let mut map = BTreeMap::new();
    let mut rest = body;
    // Some writers pad with zero bytes.
    while !rest.is_empty() && rest[0] != 0 {
        let at = offset + (body.len() - rest.len()) as u64;
        let record = (|| {
            let space = rest.iter().position(|&byte| byte == b' ')?;
            let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
            let record = rest.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|&byte| byte == b'=')?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            map.insert(text(&record[..equals]), text(&record[equals + 1..]));
            Some(length)
        })();
        let Some(length) = record else {
            return Err(malformed(at, "a PAX record", "other bytes".into()));
        };
        rest = &rest[length..];
    }
    Ok(map)
}

/// Writes one member and its padding; a name that does not fit the header goes into a PAX record before it. The
/// archive has no owners and no times, so that equal content is equal bytes.
pub(crate) fn write_member(into: &mut impl io::Write, name: &str, content: &[u8]) -> io::Result<()> {
    let size = content.len() as u64;
    if name.len() > 100 || size >= 1 << 33 {
        let mut body = record("path", name);
        if size >= 1 << 33 {
            body += &record("size", &size.to_string());
        }
        write_block(into, "PaxHeader", b'x', body.as_bytes())?;
    }
    let mut short = name;
    while short.len() > 100 || !short.is_char_boundary(short.len()) {
        short = &short[..short.char_indices().last().map_or(0, |(at, _)| at)];
    }
    write_block(into, short, b'0', content)
}

/// Writes the end-of-archive mark.
pub(crate) fn write_end(into: &mut impl io::Write) -> io::Result<()> {
    into.write_all(&[0; 2 * BLOCK])
}

fn record(key: &str, value: &str) -> String {
    let body = key.len() + value.len() + 3;
    let mut length = body + 1;
    while length != body + length.to_string().len() {
        length = body + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

fn write_block(into: &mut impl io::Write, name: &str, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    let mut put = |at: usize, text: String| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(100, "0000644\0".into());
    put(108, "0000000\0".into());
    put(116, "0000000\0".into());
    put(124, format!("{:011o}\0", (content.len() as u64).min((1 << 33) - 1)));
    put(136, format!("{:011o}\0", 0));
    put(148, " ".repeat(8));
    put(257, "ustar\x0000".into());
    header[156] = kind;
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    into.write_all(&header)?;
    into.write_all(content)?;
    let padding = padded(content.len() as u64) as usize - content.len();
    into.write_all(&[0; BLOCK][..padding])
}

#[cfg(test)]
#[path = "tar_tests.rs"]
mod tests;
