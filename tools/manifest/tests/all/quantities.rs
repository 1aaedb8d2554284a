#![allow(missing_docs)]
//! Times and lengths with their units.

use fusee_manifest::{Bytes, Time};
use serde::Deserialize;

#[test]
fn times_and_lengths_have_units() {
    assert_eq!(Time::parse("33_333us"), Some(Time(33_333_000)));
    assert_eq!(Time::parse("2 ms"), Some(Time(2_000_000)));
    assert_eq!(Bytes::parse("16KiB"), Some(Bytes(16_384)));
    for wrong in ["", "10", "ms", "10 minutes", "-1ms", "99999999999999999999s", "18446744073709551615s"] {
        assert_eq!(Time::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_quantity_is_shown_in_the_largest_unit_that_leaves_a_whole_number() {
    for (span, text) in [(0, "0 ns"), (3_000_000, "3 ms"), (39_000, "39 us"), (1_500_000, "1500 us"), (1, "1 ns")] {
        assert_eq!(Time(span).to_string(), text);
        assert_eq!(Time::parse(text), Some(Time(span)));
    }
    assert_eq!(Bytes(1 << 30).to_string(), "1 GiB");
    assert_eq!(Bytes(8_392_704).to_string(), "8196 KiB");
    assert_eq!(Bytes(5_000).to_string(), "5000 B");
}

#[test]
fn a_decimal_point_is_answered_with_a_smaller_unit() {
    fn refused<T: for<'a> Deserialize<'a>>(text: &str) -> String {
        let table: Result<std::collections::BTreeMap<String, T>, _> = toml::from_str(&format!("value = \"{text}\""));
        table.err().unwrap().to_string()
    }
    for (text, better) in [("1.5ms", "1500us"), ("0.25 s", "250ms"), ("1.0us", "1us")] {
        assert!(refused::<Time>(text).contains(&format!("write \"{better}\"")), "{text}");
    }
    for text in ["0.5ns", "1.5h"] {
        let message = refused::<Time>(text);
        assert!(message.contains("expected a time with its unit") && !message.contains("write"), "{message}");
    }
    assert!(refused::<Bytes>("1.5KiB").contains("write \"1536B\""));
}
