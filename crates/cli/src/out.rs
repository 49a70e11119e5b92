//! Printing. Whoever reads may close the pipe early (`| head -1`), or the disk behind it may be full: that is no reason
//! to panic, and a run's exit code still says how it ended.

/// Like the standard macro of this name, which it takes the place of in this crate, but for the panic.
macro_rules! println {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}

/// Like the standard macro of this name, which it takes the place of in this crate, but for the panic.
macro_rules! print {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($words)*);
    }};
}

/// Like the standard macro of this name, which it takes the place of in this crate, but for the panic.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
