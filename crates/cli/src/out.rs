//! Printing. Whoever reads may close the pipe early (`| head -1`): that is no reason to panic, and no error. Whatever else
//! keeps a result from arriving, such as a full disk behind stdout, is kept in mind and makes the command fail at its end.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

/// The first reason for which something that was printed did not arrive.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// Notes whether something that was printed has arrived.
pub(crate) fn note(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Why not all that was printed has arrived; none if it has, or if whoever read it wanted no more.
pub(crate) fn lost() -> Option<io::Error> {
    note(io::stdout().flush());
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Like the standard macro of this name, which it takes the place of in this crate, but for the panic.
macro_rules! println {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        $crate::out::note(writeln!(std::io::stdout(), $($words)*));
    }};
}

/// Like the standard macro of this name, which it takes the place of in this crate, but for the panic.
macro_rules! print {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        $crate::out::note(write!(std::io::stdout(), $($words)*));
    }};
}

/// Like the standard macro of this name, which it takes the place of in this crate, but for the panic. What people are told
/// on the way is no result: where it cannot be shown, the command goes on.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
