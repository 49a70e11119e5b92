//! The shell of a page.

/// Text as it may stand in HTML, SVG and their quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are errors in SVG files, whatever they are escaped as.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

const STYLE: &str = "
body { font: 15px/1.5 system-ui, 'DejaVu Sans', sans-serif; color: #1b1f24; background: #fff; margin: 0 auto;
  max-width: 1080px; padding: 24px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 6px; }
p { margin: 6px 0; max-width: 78ch; } .note { color: #57606a; } .warn { color: #9a3412; }
figure { margin: 12px 0; } svg { max-width: 100%; height: auto; } .row { display: flex; flex-wrap: wrap; gap: 8px 12px; }
table { border-collapse: collapse; font-size: 13px; margin: 10px 0; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 10px; border-bottom: 1px solid #e5e7eb; } th { color: #57606a; font-weight: 600; }
th:first-child, td:first-child, .words th:last-child, .words td:last-child { text-align: left; } .scroll { overflow-x: auto; }
";

/// A whole document.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n\
         </html>\n",
        escape(title)
    )
}

/// A number for people: three significant digits, thousands apart, no exponent where it can be helped.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        return "?".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞".into() } else { "−∞".into() };
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:.2e}");
    }
    if size >= 1000.0 {
        let digits = format!("{:.0}", size);
        let mut grouped = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                grouped.push('\u{202f}');
            }
            grouped.push(digit);
        }
        return if value < 0.0 { format!("−{grouped}") } else { grouped };
    }
    let places = if size == 0.0 { 0 } else { (2 - size.log10().floor() as i32).clamp(0, 7) as usize };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out() {
        let escaped = escape("<script>alert(\"x\")</script> & 'y'\u{0}");
        assert!(!escaped.contains(['<', '>', '"', '\'', '\u{0}']), "{escaped}");
        assert!(document("</title><script>", "").contains("<title>&lt;/title&gt;&lt;script&gt;</title>"));
    }

    #[test]
    fn numbers_read_well() {
        let told = [0.0, 0.1, 0.12345, 12.0, 12.345, 999.6, 12345.6, 1e-7, 0.00123].map(number);
        assert_eq!(told, ["0", "0.1", "0.123", "12", "12.3", "1000", "12\u{202f}346", "1.00e-7", "0.00123"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(number), ["?", "∞"]);
    }
}
