//! The first sectors: where a volume lies on its disk, and its parts in it.
//!
//! Source of fields and rules: "Microsoft Extensible Firmware Initiative FAT32 File System Specification", 1.03.

use crate::disk::{Fault, SECTOR, Sectors};
use crate::mount::Unsound;

/// The first cluster: numbers below it are of no cluster.
pub const FIRST: u32 = 2;
/// Volumes with fewer clusters have links of 12 bits, and with fewer than the second number links of 16 bits.
const FAT16: u32 = 4_085;
const FAT32: u32 = 65_525;
/// Bytes of an entry of a directory.
pub const ENTRY: usize = 32;
/// The place of the partition table, of which each entry has 16 bytes; and of the two bytes that end it, and a boot sector, too.
const PARTITIONS: usize = 446;
const SIGNATURE: usize = 510;
/// Types of partitions with FAT16 and FAT32.
const TYPES: [u8; 5] = [0x04, 0x06, 0x0e, 0x0b, 0x0c];
/// Sectors that are read or written at once, where there are many.
pub const READ: usize = 7;
/// The place of the count of free clusters in a volume's information sector.
const FREE_COUNT: usize = 488;

/// The place of the root directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Root {
    /// So many sectors.
    Fixed { first: u64, sectors: u32 },
    /// A chain of clusters.
    Chain(u32),
}

/// The parts of a volume, by sectors of the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    pub is_fat32: bool,
    /// Sectors of a cluster.
    pub cluster: u32,
    /// The first table, and the sectors of one.
    pub table: u64,
    pub table_sectors: u32,
    /// How many tables there are.
    pub tables: u32,
    pub root: Root,
    /// The first sector of the first cluster.
    pub data: u64,
    /// The number behind the last cluster.
    pub end: u32,
    /// The sector with the count of free clusters.
    pub information: Option<u64>,
}

fn half(bytes: &[u8; SECTOR], at: usize) -> u32 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|byte| bytes[at + byte]))
}

impl Shape {
    /// The volume in this partition of the disk, from 1 to 4, or on the whole disk if it is zero.
    pub fn read(disk: &mut impl Sectors, partition: u8) -> Result<Shape, Unsound> {
        let mut bytes = [0; SECTOR];
        let (mut first, mut sectors) = (0, disk.sectors());
        if let Some(index) = partition.checked_sub(1) {
            disk.read(0, &mut bytes)?;
            if half(&bytes, SIGNATURE) != 0xaa55 {
                return Err(Unsound::NoVolume("the disk has no partition table"));
            }
            let entry = PARTITIONS + 16 * usize::from(index.min(3));
            if !TYPES.contains(&bytes[entry + 4]) {
                return Err(Unsound::NoVolume("the partition is none with FAT16 or FAT32"));
            }
            first = word(&bytes, entry + 8).into();
            sectors = word(&bytes, entry + 12).into();
            if first == 0 || first + sectors > disk.sectors() {
                return Err(Unsound::NoVolume("the partition is not on the disk"));
            }
        }
        if sectors == 0 {
            return Err(Unsound::NoVolume("the disk has no sectors"));
        }
        disk.read(first, &mut bytes)?;
        Shape::parse(&bytes, first, sectors)
    }

    /// The volume with this boot sector, which is the first of so many sectors.
    fn parse(bytes: &[u8; SECTOR], first: u64, sectors: u64) -> Result<Shape, Unsound> {
        let either = |small: u32, large: usize| if small == 0 { word(bytes, large) } else { small };
        let (reserved, tables, entries) = (half(bytes, 14), u32::from(bytes[16]), half(bytes, 17));
        let (cluster, total) = (u32::from(bytes[13]), either(half(bytes, 19), 32));
        let table_sectors = either(half(bytes, 22), 36);
        if half(bytes, SIGNATURE) != 0xaa55 || half(bytes, 11) != SECTOR as u32 || !cluster.is_power_of_two() {
            return Err(Unsound::NoVolume("there is no volume with sectors of 512 bytes"));
        }
        if reserved == 0 || !(1..=2).contains(&tables) || u64::from(total) > sectors {
            return Err(Unsound::NoVolume("the volume is larger than its partition, or has more than two tables"));
        }
        let root_sectors = (entries * ENTRY as u32).div_ceil(SECTOR as u32);
        let root = u64::from(reserved) + u64::from(tables) * u64::from(table_sectors);
        let data = root + u64::from(root_sectors);
        let left = u64::from(total).checked_sub(data).ok_or(Unsound::NoVolume("the volume has no clusters"))?;
        let clusters = (left / u64::from(cluster)) as u32;
        let is_fat32 = clusters >= FAT32;
        if clusters < FAT16 {
            return Err(Unsound::NoVolume("the volume has links of 12 bits"));
        }
        let end = clusters.checked_add(FIRST).filter(|end| *end <= 0x0fff_fff0);
        let end = end.ok_or(Unsound::NoVolume("the volume has too many clusters for FAT32"))?;
        let links = u64::from(table_sectors) * (SECTOR / link_bytes(is_fat32)) as u64;
        if links < u64::from(end) {
            return Err(Unsound::NoVolume("the volume's table is too short"));
        }
        let (root, information) = if is_fat32 {
            // Version 0, and all tables in use.
            if half(bytes, 40) & 0x80 != 0 || half(bytes, 42) != 0 || entries != 0 {
                return Err(Unsound::NoVolume("the volume is of another version of FAT32, or one table is out of use"));
            }
            let information = Some(half(bytes, 48)).filter(|sector| (1..reserved).contains(sector));
            (Root::Chain(word(bytes, 44)), information.map(|sector| first + u64::from(sector)))
        } else {
            if root_sectors == 0 {
                return Err(Unsound::NoVolume("the volume has no root directory"));
            }
            (Root::Fixed { first: first + root, sectors: root_sectors }, None)
        };
        let (table, data) = (first + u64::from(reserved), first + data);
        Ok(Shape { is_fat32, cluster, table, table_sectors, tables, root, data, end, information })
    }

    /// Bytes of a cluster.
    pub fn cluster_bytes(&self) -> u32 {
        self.cluster * SECTOR as u32
    }

    /// Links in a sector of the table.
    pub fn links(&self) -> u32 {
        (SECTOR / link_bytes(self.is_fat32)) as u32
    }

    /// The first sector of a cluster.
    pub fn sector_of(&self, cluster: u32) -> u64 {
        self.data + u64::from(cluster - FIRST) * u64::from(self.cluster)
    }
}

fn link_bytes(is_fat32: bool) -> usize {
    if is_fat32 { 4 } else { 2 }
}

/// Marks the count of free clusters as unknown, because it will not be kept. Others may compute it anew.
pub fn forget_count(disk: &mut impl Sectors, sector: u64) -> Result<(), Fault> {
    let mut bytes = [0; SECTOR];
    disk.read(sector, &mut bytes)?;
    let is_information = bytes[..4] == *b"RRaA" && bytes[484..488] == *b"rrAa";
    if is_information && bytes[FREE_COUNT..FREE_COUNT + 8] != [0xff; 8] {
        bytes[FREE_COUNT..FREE_COUNT + 8].fill(0xff);
        disk.write(sector, &bytes)?;
    }
    Ok(())
}

/// The first sector of the partition of a new volume.
const BEGIN: u64 = 2_048;
/// Sectors of its root directory, which has 512 entries.
const ROOT: u32 = 32;

/// Makes one partition with an empty volume of FAT16, if the first sector of the disk has nothing but zeros: false if it has. The first sector is written
/// last, so a disk on which the power goes meanwhile is as empty as before.
///
/// # Errors
/// The disk has failed, or is too small or too large: a volume of FAT16 with at most 64 sectors in a cluster.
pub fn format(disk: &mut impl Sectors) -> Result<bool, Unsound> {
    let mut bytes = [0; SECTOR];
    disk.read(0, &mut bytes)?;
    if bytes != [0; SECTOR] {
        return Ok(false);
    }
    let total = disk.sectors().checked_sub(BEGIN).and_then(|total| u32::try_from(total).ok());
    let total = total.ok_or(Unsound::NoVolume("the disk is too small or too large for FAT16"))?;
    let clusters = |cluster: u32| total.saturating_sub(1 + ROOT) / cluster;
    let fits = |cluster: &u32| clusters(*cluster) < FAT32 - 1;
    let cluster = (0..=6).map(|power| 1 << power).find(fits).filter(|cluster| clusters(*cluster) > FAT16 + 64);
    let cluster: u32 = cluster.ok_or(Unsound::NoVolume("the disk is too small or too large for FAT16"))?;
    // Longer than needed by the links of clusters that the tables themselves take.
    let table_sectors = ((clusters(cluster) + FIRST) * 2).div_ceil(SECTOR as u32);
    let tables = BEGIN + 1;
    let end = tables + u64::from(2 * table_sectors + ROOT);
    let zeros = [0; READ * SECTOR];
    for sector in (tables..end).step_by(READ) {
        let sectors = (end - sector).min(READ as u64) as usize;
        disk.write(sector, &zeros[..sectors * SECTOR])?;
    }
    bytes[..4].copy_from_slice(&[0xf8, 0xff, 0xff, 0xff]);
    for table in 0..2 {
        disk.write(tables + u64::from(table * table_sectors), &bytes)?;
    }
    bytes = [0; SECTOR];
    bytes[..11].copy_from_slice(b"\xeb\x3c\x90FUSEE   ");
    bytes[11..13].copy_from_slice(&(SECTOR as u16).to_le_bytes());
    bytes[13] = cluster as u8;
    bytes[14..16].copy_from_slice(&1_u16.to_le_bytes());
    bytes[16] = 2;
    bytes[17..19].copy_from_slice(&512_u16.to_le_bytes());
    if total < 0x1_0000 {
        bytes[19..21].copy_from_slice(&(total as u16).to_le_bytes());
    } else {
        bytes[32..36].copy_from_slice(&total.to_le_bytes());
    }
    bytes[21] = 0xf8;
    bytes[22..24].copy_from_slice(&(table_sectors as u16).to_le_bytes());
    // Sectors of a track, and heads: of no disk of today.
    bytes[24..26].copy_from_slice(&63_u16.to_le_bytes());
    bytes[26..28].copy_from_slice(&255_u16.to_le_bytes());
    bytes[28..32].copy_from_slice(&(BEGIN as u32).to_le_bytes());
    // The first hard disk, with a serial number and a name.
    bytes[36] = 0x80;
    bytes[38] = 0x29;
    bytes[39..43].copy_from_slice(b"FSEE");
    bytes[43..62].copy_from_slice(b"NO NAME    FAT16   ");
    bytes[SIGNATURE..].copy_from_slice(&[0x55, 0xaa]);
    disk.write(BEGIN, &bytes)?;
    disk.flush()?;
    bytes = [0; SECTOR];
    bytes[PARTITIONS + 1..PARTITIONS + 4].copy_from_slice(&[0xfe, 0xff, 0xff]);
    bytes[PARTITIONS + 4] = 0x0e;
    bytes[PARTITIONS + 5..PARTITIONS + 8].copy_from_slice(&[0xfe, 0xff, 0xff]);
    bytes[PARTITIONS + 8..PARTITIONS + 12].copy_from_slice(&(BEGIN as u32).to_le_bytes());
    bytes[PARTITIONS + 12..PARTITIONS + 16].copy_from_slice(&total.to_le_bytes());
    bytes[SIGNATURE..].copy_from_slice(&[0x55, 0xaa]);
    disk.write(0, &bytes)?;
    disk.flush()?;
    Ok(true)
}
