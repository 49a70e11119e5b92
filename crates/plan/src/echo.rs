//! The echo stage: how often each item that reaches it is used.

use serde::{Deserialize, Serialize};

/// Repeat every item that reaches this stage; before `batch` items are examples, after it batches. Written as a factor
/// alone, as "auto", or as a table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct EchoPlan {
    /// How often each item is used.
    pub factor: EchoFactor,
    /// Items of the shuffle buffer after the stage, which spreads repeats; 0 leaves them one after another.
    pub buffer: usize,
}

/// How often each item is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EchoFactor {
    /// On average so often, 1 or more: the whole part for each item, and one more for a keyed choice of them, as many
    /// as the fraction says of each epoch's items.
    Fixed(f64),
    /// So often that the trainer never waits, at most `max` times.
    Auto {
        /// The most uses of one item.
        max: u32,
    },
}

impl EchoFactor {
    /// The most uses of an item with `auto`, unless the plan says otherwise.
    pub const DEFAULT_MAX: u32 = 8;
}

impl EchoPlan {
    /// The factor; none for `auto`.
    pub fn fixed(&self) -> Option<f64> {
        match self.factor {
            EchoFactor::Fixed(factor) => Some(factor),
            EchoFactor::Auto { .. } => None,
        }
    }
}

/// Items that come out of `items` items repeated so often; exact, and the same in every epoch.
pub fn echoed(items: u64, factor: f64) -> u64 {
    let whole = factor.floor();
    items * whole as u64 + ((factor - whole) * items as f64).round() as u64
}

/// The forms that the stage is written in.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Short(WrittenFactor),
    Full(WrittenTable),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenFactor {
    Whole(u32),
    Number(f64),
    Auto(Auto),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Auto {
    Auto,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTable {
    factor: WrittenFactor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
}

impl From<Written> for EchoPlan {
    fn from(written: Written) -> EchoPlan {
        let table = match written {
            Written::Full(table) => table,
            Written::Short(factor) => WrittenTable { factor, buffer: None, max: None },
        };
        let factor = match (table.factor, table.max) {
            (WrittenFactor::Auto(_), max) => EchoFactor::Auto { max: max.unwrap_or(EchoFactor::DEFAULT_MAX) },
            // A most below a fixed factor caps it.
            (WrittenFactor::Whole(n), None) => EchoFactor::Fixed(f64::from(n)),
            (WrittenFactor::Number(n), None) => EchoFactor::Fixed(n),
            (WrittenFactor::Whole(n), Some(max)) => EchoFactor::Fixed(f64::from(n.min(max))),
            (WrittenFactor::Number(n), Some(max)) => EchoFactor::Fixed(n.min(f64::from(max))),
        };
        EchoPlan { factor, buffer: table.buffer.unwrap_or(0) }
    }
}

impl From<EchoPlan> for Written {
    fn from(plan: EchoPlan) -> Written {
        let (factor, max) = match plan.factor {
            EchoFactor::Auto { max } => (WrittenFactor::Auto(Auto::Auto), Some(max)),
            EchoFactor::Fixed(n) if n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&n) => {
                (WrittenFactor::Whole(n as u32), None)
            }
            EchoFactor::Fixed(n) => (WrittenFactor::Number(n), None),
        };
        let buffer = (plan.buffer > 0).then_some(plan.buffer);
        match (buffer, max) {
            (None, None) => Written::Short(factor),
            _ => Written::Full(WrittenTable { factor, buffer, max }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        echo: EchoPlan,
    }

    #[test]
    fn forms() {
        let fixed = |n| EchoFactor::Fixed(n);
        for (text, factor, buffer, written) in [
            ("echo = 4", fixed(4.0), 0, "echo = 4"),
            ("echo = 2.5", fixed(2.5), 0, "echo = 2.5"),
            ("echo = 3.0", fixed(3.0), 0, "echo = 3"),
            ("echo = \"auto\"", EchoFactor::Auto { max: 8 }, 0, "[echo]\nfactor = \"auto\"\nmax = 8"),
            ("echo = { factor = 4, buffer = 100 }", fixed(4.0), 100, "[echo]\nfactor = 4\nbuffer = 100"),
            (
                "echo = { factor = \"auto\", max = 3 }",
                EchoFactor::Auto { max: 3 },
                0,
                "[echo]\nfactor = \"auto\"\nmax = 3",
            ),
        ] {
            let read: Holder = toml::from_str(text).unwrap();
            assert_eq!(read.echo, EchoPlan { factor, buffer }, "{text}");
            assert_eq!(toml::to_string(&read).unwrap().trim(), written);
            assert_eq!(toml::from_str::<Holder>(written).unwrap(), read);
        }
    }

    #[test]
    fn counts_are_exact() {
        assert_eq!((echoed(10, 1.0), echoed(10, 4.0), echoed(10, 2.5), echoed(10, 1.25)), (10, 40, 25, 13));
        assert_eq!((echoed(7, 1.1), echoed(0, 3.0)), (8, 0));
    }
}
