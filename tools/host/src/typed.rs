//! Values in a program's memory, by the names that its source gives them.
//!
//! Where a field lies and what a discriminant means is read from the program's own debug information. So nothing here, nor in what
//! uses this, knows an offset: a field that moves is found where it is now, and one that is renamed is an error that names the others.
//!
//! Not here: where the bytes come from (`qemu`), what they mean (`dump`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use gimli::{AttributeValue, DebuggingInformationEntry, Reader as _, UnitOffset, constants};

use crate::decode::{self, Reader};

type Entry = DebuggingInformationEntry<Reader>;

/// The types and variables of one program.
pub struct Types {
    dwarf: gimli::Dwarf<Reader>,
    units: Vec<gimli::Unit<Reader>>,
    layouts: RefCell<HashMap<Type, Rc<Layout>>>,
}

/// Where a type is described: number of the unit, and offset there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Type(usize, usize);

/// A variable that exists once, at a fixed address.
#[derive(Clone, Copy, Debug)]
pub struct Static {
    /// Its address.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
    kind: Type,
}

/// The layout of a type in memory.
#[derive(Debug)]
struct Layout {
    bytes: usize,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// A number, an address, a truth value.
    Scalar,
    /// An enumeration without fields: its values.
    Names(Vec<(u64, String)>),
    Array {
        element: Type,
        count: usize,
    },
    Fields(Vec<Field>),
    /// An enumeration with fields: where its discriminant lies, and its variants. One without a value stands for all other values.
    Variants {
        discriminant: Option<Field>,
        variants: Vec<(Option<u64>, Field)>,
    },
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    offset: usize,
    kind: Type,
}

impl Types {
    /// Reads those of an ELF file.
    pub fn read(path: &Path) -> Result<Types> {
        let dwarf = decode::debug_information(&std::fs::read(path).with_context(|| path.display().to_string())?)?;
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            units.push(dwarf.unit(header)?);
        }
        Ok(Types { dwarf, units, layouts: RefCell::default() })
    }

    /// The static variable of this path, such as `fusee_kernel::trap::STATE`.
    ///
    /// # Errors
    /// There is none; those of the same name are listed.
    pub fn variable(&self, path: &str) -> Result<Static> {
        let (_, last) = path.rsplit_once("::").context("a path has `::`")?;
        let mut others = Vec::new();
        for number in 0..self.units.len() {
            let unit = &self.units[number];
            let mut entries = unit.entries();
            let mut spaces: Vec<(isize, String)> = Vec::new();
            while let Some(entry) = entries.next_dfs()? {
                spaces.retain(|(depth, _)| *depth < entry.depth());
                match entry.tag() {
                    constants::DW_TAG_namespace => {
                        spaces.push((entry.depth(), self.name(number, entry).unwrap_or_default()));
                    }
                    constants::DW_TAG_variable if self.name(number, entry).as_deref() == Some(last) => {
                        let Some(address) = address(unit, entry)? else { continue };
                        let found: Vec<&str> = spaces.iter().map(|(_, name)| name.as_str()).chain([last]).collect();
                        if found.join("::") == path {
                            let kind = self.type_of(number, entry)?;
                            return Ok(Static { address, bytes: self.layout(kind)?.bytes, kind });
                        }
                        others.push(found.join("::"));
                    }
                    _ => {}
                }
            }
        }
        bail!("the program has no variable `{path}`; of that name it has [{}]", others.join(", "))
    }

    /// The value of a variable, whose memory this is.
    pub fn value<'a>(&'a self, of: Static, path: &str, bytes: &'a [u8]) -> Result<Value<'a>> {
        Value { types: self, kind: of.kind, bytes, path: path.to_owned() }.of_right_size()
    }

    fn name(&self, unit: usize, entry: &Entry) -> Option<String> {
        let value = entry.attr_value(constants::DW_AT_name)?;
        let text = self.dwarf.attr_string(&self.units[unit], value).ok()?;
        Some(text.to_string_lossy().ok()?.into_owned())
    }

    fn type_of(&self, unit: usize, entry: &Entry) -> Result<Type> {
        match entry.attr_value(constants::DW_AT_type) {
            Some(AttributeValue::UnitRef(offset)) => Ok(Type(unit, offset.0)),
            Some(AttributeValue::DebugInfoRef(offset)) => {
                let found = self.units.iter().enumerate().find_map(|(number, unit)| {
                    let offset = offset.to_unit_offset(&unit.header)?;
                    Some(Type(number, offset.0))
                });
                found.context("a type lies in no unit")
            }
            _ => bail!("something has no type"),
        }
    }

    fn layout(&self, kind: Type) -> Result<Rc<Layout>> {
        if let Some(known) = self.layouts.borrow().get(&kind) {
            return Ok(Rc::clone(known));
        }
        let layout = Rc::new(self.read_layout(kind)?);
        self.layouts.borrow_mut().insert(kind, Rc::clone(&layout));
        Ok(layout)
    }

    fn read_layout(&self, kind: Type) -> Result<Layout> {
        let unit = &self.units[kind.0];
        let mut tree = unit.entries_tree(Some(UnitOffset(kind.1)))?;
        let root = tree.root()?;
        let entry = root.entry();
        let bytes = number(entry, constants::DW_AT_byte_size).map(|bytes| bytes as usize);
        let tag = entry.tag();
        match tag {
            constants::DW_TAG_base_type | constants::DW_TAG_pointer_type => {
                Ok(Layout { bytes: bytes.unwrap_or(8), shape: Shape::Scalar })
            }
            constants::DW_TAG_enumeration_type => {
                let mut names = Vec::new();
                let mut children = root.children();
                while let Some(child) = children.next()? {
                    let value = number(child.entry(), constants::DW_AT_const_value).context("an enumerator's value")?;
                    names.push((value, self.name(kind.0, child.entry()).context("an enumerator's name")?));
                }
                Ok(Layout { bytes: bytes.context("the size of an enumeration")?, shape: Shape::Names(names) })
            }
            constants::DW_TAG_array_type => {
                let element = self.type_of(kind.0, entry)?;
                let mut children = root.children();
                let range = children.next()?.context("an array's range")?;
                let count = number(range.entry(), constants::DW_AT_count).context("an array's length")? as usize;
                let bytes = count * self.layout(element)?.bytes;
                Ok(Layout { bytes, shape: Shape::Array { element, count } })
            }
            constants::DW_TAG_structure_type | constants::DW_TAG_union_type => {
                let bytes = bytes.context("the size of a structure")?;
                let mut fields = Vec::new();
                let mut children = root.children();
                while let Some(child) = children.next()? {
                    match child.entry().tag() {
                        constants::DW_TAG_member => fields.push(self.field(kind.0, child.entry())?),
                        constants::DW_TAG_variant_part => {
                            return Ok(Layout { bytes, shape: self.variants(kind.0, child)? });
                        }
                        _ => {}
                    }
                }
                Ok(Layout { bytes, shape: Shape::Fields(fields) })
            }
            _ => bail!("{tag} is a type that is not known here"),
        }
    }

    fn variants(&self, unit: usize, part: gimli::EntriesTreeNode<'_, '_, Reader>) -> Result<Shape> {
        let mut discriminant = None;
        let mut variants = Vec::new();
        let mut children = part.children();
        while let Some(child) = children.next()? {
            match child.entry().tag() {
                constants::DW_TAG_member => discriminant = Some(self.field(unit, child.entry())?),
                constants::DW_TAG_variant => {
                    let value = number(child.entry(), constants::DW_AT_discr_value);
                    let mut inner = child.children();
                    let member = inner.next()?.context("a variant's fields")?;
                    variants.push((value, self.field(unit, member.entry())?));
                }
                _ => {}
            }
        }
        Ok(Shape::Variants { discriminant, variants })
    }

    fn field(&self, unit: usize, entry: &Entry) -> Result<Field> {
        let name = self.name(unit, entry).unwrap_or_default();
        let offset = number(entry, constants::DW_AT_data_member_location).unwrap_or(0) as usize;
        Ok(Field { name, offset, kind: self.type_of(unit, entry)? })
    }
}

fn number(entry: &Entry, name: constants::DwAt) -> Option<u64> {
    let value = entry.attr_value(name)?;
    value.udata_value().or_else(|| value.sdata_value().map(i64::cast_unsigned))
}

/// The fixed address of a variable, if it has one.
fn address(unit: &gimli::Unit<Reader>, entry: &Entry) -> Result<Option<u64>> {
    let Some(place) = entry.attr_value(constants::DW_AT_location).and_then(|value| value.exprloc_value()) else {
        return Ok(None);
    };
    let mut operations = place.operations(unit.encoding());
    Ok(match operations.next()? {
        Some(gimli::Operation::Address { address }) => Some(address),
        _ => None,
    })
}

/// A value in memory.
#[derive(Clone)]
pub struct Value<'a> {
    types: &'a Types,
    kind: Type,
    bytes: &'a [u8],
    /// How one comes to it, for errors.
    path: String,
}

impl<'a> Value<'a> {
    fn of_right_size(mut self) -> Result<Self> {
        let bytes = self.types.layout(self.kind)?.bytes;
        ensure!(self.bytes.len() >= bytes, "{}: {bytes} bytes are wanted, {} are there", self.path, self.bytes.len());
        self.bytes = &self.bytes[..bytes];
        Ok(self)
    }

    fn part(&self, kind: Type, offset: usize, path: String) -> Result<Value<'a>> {
        let bytes = self.bytes.get(offset..).with_context(|| format!("{path} lies outside"))?;
        Value { types: self.types, kind, bytes, path }.of_right_size()
    }

    fn member(&self, field: &Field) -> Result<Value<'a>> {
        self.part(field.kind, field.offset, format!("{}.{}", self.path, field.name))
    }

    /// What is inside a wrapper, which is as large as this: cells, and places that may hold nothing yet, differ from one compiler to
    /// the next. `None`: there is no such one thing.
    fn wrapped(&self) -> Result<Option<Value<'a>>> {
        let layout = self.types.layout(self.kind)?;
        let Shape::Fields(fields) = &layout.shape else { return Ok(None) };
        let mut whole = Vec::new();
        for field in fields {
            if self.types.layout(field.kind)?.bytes == layout.bytes {
                whole.push(field);
            }
        }
        let [field] = whole[..] else { return Ok(None) };
        Ok(Some(self.member(field)?))
    }

    /// The field of this name, or the field of the field, as in `lock.state`; of what is wrapped, if the wrapper has none.
    ///
    /// # Errors
    /// There is none; those that there are.
    pub fn field(&self, path: &str) -> Result<Value<'a>> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let layout = self.types.layout(self.kind)?;
        let names = match &layout.shape {
            Shape::Fields(fields) => {
                if let Some(field) = fields.iter().find(|field| field.name == name) {
                    let value = self.member(field)?;
                    return rest.map_or(Ok(value.clone()), |rest| value.field(rest));
                }
                fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
            }
            _ => "none".to_owned(),
        };
        match self.wrapped()? {
            Some(inner) => inner.field(path),
            None => bail!("{} has no field `{name}`; it has {names}", self.path),
        }
    }

    /// The value as a variable of its own, if `whole` is the memory of the variable that it is part of.
    #[must_use]
    pub fn static_in(&self, of: Static, whole: &[u8]) -> Static {
        let offset = self.bytes.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        Static { address: of.address + offset as u64, bytes: self.bytes.len(), kind: self.kind }
    }

    /// The element of an array.
    pub fn element(&self, index: usize) -> Result<Value<'a>> {
        let layout = self.types.layout(self.kind)?;
        let Shape::Array { element, count } = layout.shape else {
            return self.wrapped()?.with_context(|| format!("{} is no array", self.path))?.element(index);
        };
        ensure!(index < count, "{} has {count} elements, and no element {index}", self.path);
        let size = self.types.layout(element)?.bytes;
        self.part(element, index * size, format!("{}[{index}]", self.path))
    }

    /// The number of elements of an array.
    pub fn length(&self) -> Result<usize> {
        match self.types.layout(self.kind)?.shape {
            Shape::Array { count, .. } => Ok(count),
            _ => self.wrapped()?.with_context(|| format!("{} is no array", self.path))?.length(),
        }
    }

    /// The number of a value that is one number in all, however often it is wrapped.
    pub fn number(&self) -> Result<u64> {
        match &self.types.layout(self.kind)?.shape {
            Shape::Scalar | Shape::Names(_) => self.scalar(),
            Shape::Array { count: 1, .. } => self.element(0)?.number(),
            _ => self.wrapped()?.with_context(|| format!("{} is not one number", self.path))?.number(),
        }
    }

    fn scalar(&self) -> Result<u64> {
        ensure!(self.bytes.len() <= 8, "{} has {} bytes, too many for a number", self.path, self.bytes.len());
        let mut bytes = [0; 8];
        bytes[..self.bytes.len()].copy_from_slice(self.bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    /// The same as a truth value.
    pub fn flag(&self) -> Result<bool> {
        Ok(self.number()? != 0)
    }

    /// Which variant of an enumeration it is, and its fields.
    pub fn variant(&self) -> Result<(String, Value<'a>)> {
        let layout = self.types.layout(self.kind)?;
        match &layout.shape {
            Shape::Names(names) => {
                let value = self.scalar()?;
                let (_, name) = names
                    .iter()
                    .find(|(known, _)| *known == value)
                    .with_context(|| format!("{} is {value}, which stands for no variant", self.path))?;
                Ok((name.clone(), self.clone()))
            }
            Shape::Variants { discriminant, variants } => {
                let value = discriminant.as_ref().map(|field| self.member(field)?.scalar()).transpose()?;
                let exact = variants.iter().find(|(known, _)| known.is_some() && *known == value);
                let (_, field) =
                    exact.or_else(|| variants.iter().find(|(known, _)| known.is_none())).with_context(|| {
                        format!("{} has the discriminant {value:?}, which stands for no variant", self.path)
                    })?;
                Ok((field.name.clone(), self.member(field)?))
            }
            _ => self.wrapped()?.with_context(|| format!("{} is no enumeration", self.path))?.variant(),
        }
    }

    /// The value inside an `Option`.
    pub fn option(&self) -> Result<Option<Value<'a>>> {
        let (name, fields) = self.variant()?;
        match name.as_str() {
            "None" => Ok(None),
            "Some" => Ok(Some(fields.field("__0")?)),
            _ => bail!("{} is no `Option`: it is `{name}`", self.path),
        }
    }

    /// The elements of a `heapless::Vec`.
    pub fn elements(&self) -> Result<Vec<Value<'a>>> {
        let (count, buffer) = (self.field("len")?.number()? as usize, self.field("buffer")?);
        (0..count.min(buffer.length()?)).map(|index| buffer.element(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSection};
    use std::process::Command;

    /// A program with a value of each kind. It is compiled by the test, so that this crate itself needs no description of its types, which every program with
    /// it would hold.
    const SAMPLE: &str = "
use std::num::NonZeroU16;
#[derive(Clone, Copy)]
enum Plain { First, Second }
enum Rich { Nothing, Pair(u16, NonZeroU16), Named { length: u64 } }
struct Wrapper(u32);
struct Sample {
    plain: [Plain; 2],
    rich: [Rich; 3],
    empty: Option<NonZeroU16>,
    full: Option<NonZeroU16>,
    wrapped: Wrapper,
    flag: bool,
}
const SEVEN: NonZeroU16 = NonZeroU16::new(7).unwrap();
#[used]
static SAMPLE: Sample = Sample {
    plain: [Plain::Second; 2],
    rich: [Rich::Nothing, Rich::Pair(3, SEVEN), Rich::Named { length: 1 << 40 }],
    empty: None,
    full: Some(SEVEN),
    wrapped: Wrapper(0x1234_5678),
    flag: true,
};
fn main() {}
";

    /// The compiler has laid out the value, and written it into the program's file.
    #[test]
    fn values_are_found_where_the_compiler_has_put_them_and_others_are_errors() {
        let folder = std::env::temp_dir().join(format!("fusee-typed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, path) = (folder.join("sample.rs"), folder.join("sample"));
        std::fs::write(&source, SAMPLE).unwrap();
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(compiler);
        command.args(["--edition", "2024", "-A", "warnings", "-C", "debuginfo=2", "-o"]).arg(&path).arg(&source);
        assert!(command.status().unwrap().success());
        let types = Types::read(&path).unwrap();
        let place = types.variable("sample::SAMPLE").unwrap();
        let elf = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*elf).unwrap();
        let bytes = file.sections().find_map(|section| section.data_range(place.address, place.bytes as u64).ok()?);
        std::fs::remove_dir_all(&folder).unwrap();
        let sample = types.value(place, "SAMPLE", bytes.unwrap()).unwrap();
        let rich = |index: usize| sample.field("rich").unwrap().element(index).unwrap().variant().unwrap();

        assert_eq!(sample.field("plain").unwrap().element(1).unwrap().variant().unwrap().0, "Second");
        assert_eq!(rich(0).0, "Nothing");
        let (name, fields) = rich(1);
        assert_eq!((name.as_str(), fields.field("__1").unwrap().number().unwrap()), ("Pair", 7));
        assert_eq!(rich(2).1.field("length").unwrap().number().unwrap(), 1 << 40);
        assert!(sample.field("empty").unwrap().option().unwrap().is_none());
        assert_eq!(sample.field("full").unwrap().option().unwrap().unwrap().number().unwrap(), 7);
        assert_eq!(sample.field("wrapped").unwrap().number().unwrap(), 0x1234_5678);
        assert!(sample.field("flag").unwrap().flag().unwrap());

        let error = |result: Result<Value<'_>>| result.err().unwrap().to_string();
        assert!(error(sample.field("colour")).starts_with("SAMPLE has no field `colour`; it has "));
        assert_eq!(error(sample.field("rich").unwrap().element(3)), "SAMPLE.rich has 3 elements, and no element 3");
        assert!(types.variable("sample::OTHER").is_err());
    }
}
