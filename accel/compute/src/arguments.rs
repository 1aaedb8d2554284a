//! Arguments as words: their form in a launch.

/// A type with fields that fit into words. [`arguments!`](crate::arguments!) makes them.
pub trait Arguments: Copy {
    /// Words of all fields.
    const WORDS: usize;

    /// Writes the fields to the first [`Self::WORDS`] of `words`.
    fn encode(&self, words: &mut [u32]);

    /// Reads them; `None` if there are too few, or one is beyond the range of its field.
    fn decode(words: &[u32]) -> Option<Self>;
}

/// The type of an argument.
pub trait Argument: Copy {
    /// Words it takes.
    const WORDS: usize;

    /// Writes it to the first words.
    fn encode(self, words: &mut [u32]);

    /// Reads it; `None` if the words have none.
    fn decode(words: &[u32]) -> Option<Self>;
}

macro_rules! one_word {
    ($($word:ty)*) => {$(
        impl Argument for $word {
            const WORDS: usize = 1;

            fn encode(self, words: &mut [u32]) {
                words[0] = u32::from(self);
            }

            fn decode(words: &[u32]) -> Option<Self> {
                (*words.first()?).try_into().ok()
            }
        }
    )*};
}

one_word!(u8 u16 u32);

macro_rules! signed {
    ($($word:ty)*) => {$(
        impl Argument for $word {
            const WORDS: usize = 1;

            fn encode(self, words: &mut [u32]) {
                words[0] = i32::from(self).cast_unsigned();
            }

            fn decode(words: &[u32]) -> Option<Self> {
                words.first()?.cast_signed().try_into().ok()
            }
        }
    )*};
}

signed!(i8 i16 i32);

impl Argument for f32 {
    const WORDS: usize = 1;

    fn encode(self, words: &mut [u32]) {
        words[0] = self.to_bits();
    }

    fn decode(words: &[u32]) -> Option<Self> {
        words.first().map(|word| Self::from_bits(*word))
    }
}

impl Argument for u64 {
    const WORDS: usize = 2;

    fn encode(self, words: &mut [u32]) {
        words[..2].copy_from_slice(&[self as u32, (self >> 32) as u32]);
    }

    fn decode(words: &[u32]) -> Option<Self> {
        let [low, high] = *words.first_chunk()?;
        Some(u64::from(low) | u64::from(high) << 32)
    }
}

/// Declares the type of a kernel: a struct of its arguments, each an integer of up to 64 bits (of 64 bits, `u64` alone) or `f32`.
#[macro_export]
macro_rules! arguments {
    ($(#[$outer:meta])* $vis:vis struct $name:ident {
        $($(#[$inner:meta])* $field_vis:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $vis struct $name {
            $($(#[$inner])* $field_vis $field: $type,)*
        }

        impl $crate::Arguments for $name {
            const WORDS: usize = 0 $(+ <$type as $crate::Argument>::WORDS)*;

            #[allow(unused_variables, reason = "a kernel may have no arguments")]
            fn encode(&self, words: &mut [u32]) {
                $(
                    <$type as $crate::Argument>::encode(self.$field, words);
                    let words = &mut words[<$type as $crate::Argument>::WORDS..];
                )*
            }

            #[allow(unused_variables, reason = "a kernel may have no arguments")]
            fn decode(words: &[u32]) -> ::core::option::Option<Self> {
                $(
                    let $field = <$type as $crate::Argument>::decode(words)?;
                    let words = words.get(<$type as $crate::Argument>::WORDS..)?;
                )*
                ::core::option::Option::Some(Self { $($field),* })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    arguments! {
        struct All {
            byte: u8,
            half: u16,
            word: u32,
            double: u64,
            signed: i16,
            real: f32,
        }
    }

    arguments! {
        struct Nothing {}
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(byte: u8, half: u16, word: u32, double: u64, signed: i16, real: f32) {
            let all = All { byte, half, word, double, signed, real };
            let mut words = [0; 7];
            assert_eq!(All::WORDS, 7);
            all.encode(&mut words);
            prop_assert_eq!(All::decode(&words), Some(all));
            prop_assert_eq!(All::decode(&words[..6]), None);
        }
    }

    #[test]
    fn a_word_beyond_its_field_is_no_argument() {
        assert_eq!(<u8 as Argument>::decode(&[256]), None);
        assert_eq!(<i16 as Argument>::decode(&[0xFFFF_8000]), Some(i16::MIN));
        assert_eq!(<i16 as Argument>::decode(&[0x8000]), None);
        assert_eq!(Nothing::decode(&[]), Some(Nothing {}));
    }
}
