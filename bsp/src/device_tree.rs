//! A property of the root of a flattened device tree, or of a node below it: all the kernel wants to know of it.
//!
//! `dtoolkit` does this and far more, for 23 KiB of code; a third of the whole kernel. Firmware gives us
//! the bytes, so nothing in them is trusted: every access is checked, and each step moves forward.
//!
//! Source: Devicetree Specification 0.4, chapter 5.

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;

/// Bytes of the header.
pub const HEADER: usize = 40;

/// The length a device tree claims to have, from its header; `None` if it is not one.
#[must_use]
pub fn length(header: &[u8]) -> Option<usize> {
    if word(header, 0)? != MAGIC {
        return None;
    }
    Some(word(header, 4)? as usize)
}

/// The value of property `name` of node `node`, which is right below the root, or of the root, which has no name.
#[must_use]
pub fn property<'a>(tree: &'a [u8], node: &[u8], name: &[u8]) -> Option<&'a [u8]> {
    length(tree)?;
    let structure = tree.get(word(tree, 8)? as usize..)?;
    let strings = tree.get(word(tree, 12)? as usize..)?;
    let wanted = if node.is_empty() { 1 } else { 2 };
    let (mut at, mut depth, mut inside) = (0_usize, 0_u32, false);
    loop {
        let token = word(structure, at)?;
        at += 4;
        match token {
            BEGIN_NODE => {
                let found = text(structure.get(at..)?)?;
                at += (found.len() + 1).next_multiple_of(4);
                depth += 1;
                if depth == wanted {
                    inside = found == node;
                }
            }
            END_NODE => depth = depth.checked_sub(1)?,
            PROPERTY => {
                let length = word(structure, at)? as usize;
                let found = text(strings.get(word(structure, at + 4)? as usize..)?)?;
                at += 8;
                let value = structure.get(at..at.checked_add(length)?)?;
                if depth == wanted && inside && found == name {
                    return Some(value);
                }
                at += length.next_multiple_of(4);
            }
            NOTHING => {}
            // The end, or nonsense.
            _ => return None,
        }
    }
}

/// The big-endian word at offset `at`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// The text at the start of `bytes`, without the zero that ends it.
fn text(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.iter().position(|byte| *byte == 0)?;
    bytes.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    /// A tree with the property `x` in the root, in `a`, in `a/psci`, and in `psci`.
    fn tree() -> Vec<u8> {
        let mut structure = Vec::new();
        let word = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_be_bytes());
        let begin = |out: &mut Vec<u8>, name: &[u8]| {
            word(out, BEGIN_NODE);
            out.extend_from_slice(name);
            out.push(0);
            out.resize(out.len().next_multiple_of(4), 0);
        };
        let x = |out: &mut Vec<u8>, value: &[u8]| {
            word(out, PROPERTY);
            word(out, value.len() as u32);
            word(out, 2);
            out.extend_from_slice(value);
            out.resize(out.len().next_multiple_of(4), 0);
        };
        begin(&mut structure, b"");
        x(&mut structure, b"root");
        begin(&mut structure, b"a");
        word(&mut structure, NOTHING);
        x(&mut structure, b"in a");
        begin(&mut structure, b"psci");
        x(&mut structure, b"too deep");
        word(&mut structure, END_NODE);
        word(&mut structure, END_NODE);
        begin(&mut structure, b"psci");
        x(&mut structure, b"hvc\0");
        word(&mut structure, END_NODE);
        word(&mut structure, END_NODE);
        word(&mut structure, 9);
        let mut tree = Vec::new();
        for value in [MAGIC, 0, HEADER as u32, (HEADER + structure.len()) as u32, 0, 17, 16, 0, 0, 0] {
            word(&mut tree, value);
        }
        tree.extend_from_slice(&structure);
        tree.extend_from_slice(b"w\0x\0");
        let length = tree.len() as u32;
        tree[4..8].copy_from_slice(&length.to_be_bytes());
        tree
    }

    #[test]
    fn a_property_is_found_in_its_own_node_only() {
        let tree = tree();
        assert_eq!(length(&tree), Some(tree.len()));
        assert_eq!(property(&tree, b"psci", b"x"), Some(&b"hvc\0"[..]));
        assert_eq!(property(&tree, b"a", b"x"), Some(&b"in a"[..]));
        assert_eq!(property(&tree, b"", b"x"), Some(&b"root"[..]));
        assert_eq!(property(&tree, b"psci", b"w"), None);
        assert_eq!(property(&tree, b"b", b"x"), None);
    }

    #[test]
    fn broken_trees_are_refused_not_followed() {
        let good = tree();
        for cut in 0..good.len() {
            let _ = property(&good[..cut], b"psci", b"x");
        }
        for index in 0..good.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[index] = value;
                let _ = property(&bad, b"psci", b"x");
            }
        }
        assert_eq!(property(b"", b"psci", b"x"), None);
    }
}
