//! Static shapes of dense row-major tensors.

use std::fmt;
use std::ops::Index;

/// The extents of a dense row-major tensor; empty for a scalar.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// A shape of these extents.
    pub fn new(extents: impl Into<Vec<usize>>) -> Shape {
        Shape(extents.into())
    }

    /// The shape of a single number.
    pub fn scalar() -> Shape {
        Shape(Vec::new())
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements: the product of the extents, 1 for a scalar.
    pub fn len(&self) -> usize {
        self.0.iter().product()
    }

    /// Whether some extent is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The innermost extent; 1 for a scalar.
    pub fn last(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }
}

impl Index<usize> for Shape {
    type Output = usize;
    fn index(&self, dim: usize) -> &usize {
        &self.0[dim]
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Shape {
        Shape(extents.to_vec())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (i, extent) in self.0.iter().enumerate() {
            write!(f, "{}{extent}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, "]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(Shape::scalar().len(), 1);
        assert_eq!(Shape::from([2, 0, 3]).len(), 0);
        assert_eq!(Shape::from([2, 3, 5]).to_string(), "[2, 3, 5]");
        assert_eq!(Shape::from([2, 3, 5]).last(), 5);
    }
}
