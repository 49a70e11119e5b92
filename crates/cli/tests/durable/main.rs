//! Nothing lost: runs that are killed, interrupted, or find their folder full, gone or damaged, and go on. Everything
//! here works on drawings made by code and takes seconds; `real_durable.rs` does the same to real CIFAR-10.
//!
//! Some tests need a kill at an exact moment. For these the test binary runs itself again as a child (`kill::child`)
//! that trains through the library and sends itself SIGKILL at that moment; the command then goes on with what it left.

mod auto;
mod bench;
mod changes;
mod damage;
mod divergence;
mod init;
mod kill;
mod optimizers;
mod parts;
mod rerun;
mod select;
mod signal;
